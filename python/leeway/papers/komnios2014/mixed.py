"""Figures 7 and 8: half of the flows NewReno, half fLEDBAT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.lab.experiment import Steps
from leeway.papers.common import curve, frame, look
from leeway.papers.komnios2014.homogeneous import mark_regime
from leeway.papers.komnios2014.network import BACKHAULS, LAWS, QUEUE_NAMES, bulk, scenario

QUICK_FLOWS = (2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96)
FULL_FLOWS = tuple(range(2, 97, 2))

FLOOR = (
    "komnios2014:difference-floor: with many flows either law is at one packet or waits for a timeout; with a "
    "floor of a quarter the share stays low"
)

Shares = dict[str, dict[int, Interval]]


def grid(setting: Setting, queue: str) -> list[Case]:
    """N = 2 to 96, even, on the three backhauls."""
    return [
        Case(
            scenario(
                backhaul,
                [
                    bulk("tcp", LAWS["newreno"], flows // 2),
                    bulk("lbe", LAWS["fledbat"], flows // 2, role="background"),
                ],
                queue,
            ),
            seed,
            {"backhaul": backhaul, "queue": queue, "flows": flows},
        )
        for backhaul in BACKHAULS
        for flows in setting.pick(QUICK_FLOWS, FULL_FLOWS)
        for seed in setting.seeds(quick=4, full=30)
    ]


def shares(results: Results) -> Shares:
    """fLEDBAT's share of the load by backhaul and N."""
    return {
        backhaul: {
            flows: group.interval(lambda run: run.window().group("lbe").share)
            for (flows,), group in results.where(backhaul=backhaul).groups("flows")
        }
        for backhaul in BACKHAULS
    }


def mean_share(shares: dict[int, Interval], low: int, high: int) -> float:
    """Over the N in this range."""
    return float(np.mean([value.mean for flows, value in shares.items() if low <= flows <= high]))


def crossing(shares: dict[int, Interval]) -> str:
    """Where fLEDBAT's share is at or above one half."""
    above = [flows for flows, value in shares.items() if value.low >= 0.5]
    touching = [flows for flows, value in shares.items() if value.low < 0.5 <= value.high]
    text = f"significantly above one half at N = {above}" if above else "nowhere significantly above one half"
    return f"{text}; not to be told from it at N = {touching}" if touching else text


def claims(found: Shares, queue: str) -> list[Claim]:
    """What the paper says about the shares."""
    claims = []
    for backhaul, curve_ in found.items():
        start = BACKHAULS[backhaul].regime
        few, many = mean_share(curve_, 2, max(start, 8)), mean_share(curve_, 80, 96)
        claims.append(
            Claim.fact(
                f"({backhaul}): fLEDBAT's share grows with N",
                "yes",
                f"{few:.3f} up to {max(start, 8)} flows, {many:.3f} from 80 on",
                many > few,
                accept="the mean share from 80 flows on is above that of few flows",
            )
        )
    share_a = mean_share(found["a"], BACKHAULS["a"].regime, 96)
    claims.append(
        Claim.fact(
            "(a): nearly equal shares inside the regime",
            "0.5",
            f"{share_a:.3f} for fLEDBAT",
            0.4 <= share_a <= 0.55,
            accept="0.4 to 0.55",
        )
    )
    if queue == "droptail":
        highest = max(value.mean for value in found["c"].values())
        claims.append(
            Claim.fact(
                "(c): fLEDBAT's share stays low",
                "low",
                f"at most {highest:.3f}, {found['c'][96].text()} at N = 96",
                highest < 0.45,
                accept="below 0.45 at every N",
                why=FLOOR if highest >= 0.45 else "",
            )
        )
    claims.append(Claim.open("(b): where the shares cross", crossing(found["b"])))
    return claims


def draw_shares(found: Shares) -> Callable:
    """Both shares over N, a panel a backhaul."""

    def draw(canvas) -> None:
        for axes, (backhaul, curve_) in zip(canvas.subplots(1, 3, sharey=True), found.items(), strict=True):
            flows = list(curve_)
            rest = [Interval(1 - value.mean, value.half, value.count) for value in curve_.values()]
            curve(axes, flows, rest, label="NewReno", **look("newreno", marker=True))
            curve(axes, flows, list(curve_.values()), label="fLEDBAT", **look("fledbat", marker=True))
            frame(
                axes,
                "flows N (half of each)",
                "share of load" if backhaul == "a" else "",
                (0, 98),
                (0, 1),
                legend=backhaul == "c",
                title=f"({backhaul})",
            )
            mark_regime(axes, BACKHAULS[backhaul].regime)
        canvas.tight_layout()

    return draw


def outcome(results: Results, name: str, queue: str) -> Outcome:
    """Claims, figure and table."""
    found = shares(results)
    caption = (
        f"{QUEUE_NAMES[queue]}: share of the load of NewReno and fLEDBAT, half of the flows each, over their "
        "number. The dotted lines are where the sub-packet regime begins."
    )
    figure = Figure(name, caption, draw_shares(found), size=(9.0, 3.6))
    all_flows = sorted(set(QUICK_FLOWS) & set(found["a"]))
    rows = [[flows, *(found[backhaul][flows] for backhaul in BACKHAULS)] for flows in all_flows]
    table = Table(f"{name}-table", "fLEDBAT's share of the load.", ("N", "(a)", "(b)", "(c)"), rows)
    return Outcome(claims(found, queue), [figure], [table])


def define(number: int, queue: str) -> None:
    """Registers one of the two figures."""
    name = f"fig{number}"

    def steps(setting: Setting) -> Steps:
        results = yield grid(setting, queue)
        return outcome(results, name, queue)

    steps.__doc__ = f"""{QUEUE_NAMES[queue]}, half NewReno, half fLEDBAT: share of the load against the number of flows.

    Settings: backhauls (a), (b), (c); N = 2 to 96 bulk uploads, half of each law (fLEDBAT with alpha 1, zeta 5),
    starting within 30 s; 300 s, 30 seeds.

    Published: fLEDBAT's share grows with N; (a) nearly equal; (c) stays low with DropTail. Where the shares cross in
    (b) is open.
    """
    experiment(f"komnios2014:{name}", f"NewReno and fLEDBAT, {QUEUE_NAMES[queue]}: share of load over N")(steps)


define(7, "droptail")
define(8, "red")
