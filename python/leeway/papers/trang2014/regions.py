"""Where LEDBAT yields: figure 3.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import curve, frame, look
from leeway.papers.trang2014.common import (
    BUFFERS,
    JITTER,
    PHASES,
    RECOVERY,
    at,
    background,
    bdp,
    drain_ms,
    ledbat,
    network,
    part,
    tcp,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Scenario
    from leeway.lab.experiment import Steps

TENTHS = range(1, 21)
TARGETS = (25, 50, 100)
GAINS = (1, 10)


def region(buffer: float, tcp_part: float, ledbat_part: float) -> str:
    """Region of these parts of the capacity, with a buffer that is a multiple of the target.

    Working: TCP takes 0.8 and more, as in the thesis's clustering. Otherwise hostile if LEDBAT
    takes more than 0.1 of the capacity above TCP; loss-based if neither is above the other by more
    than that and the buffer is below the target.
    """
    if tcp_part >= 0.8:
        return "working"
    if ledbat_part > tcp_part + 0.1:
        return "hostile"
    return "loss-based" if buffer < 1 and tcp_part <= ledbat_part + 0.1 else "between"


def in_targets(tenths: int, target: int) -> float:
    """Delay of a full buffer, in tenths of a BDP, over the target."""
    return drain_ms(bdp(tenths=tenths)) / target


def scenario(tenths: int, target: int, gain: int, spread: float = 0.0) -> Scenario:
    """One TCP and one LEDBAT from 0, with a buffer in tenths of a BDP."""
    return network(
        [tcp(start=at(0, spread)), background("ledbat", ledbat(target, gain), start=at(0, spread))],
        duration=200,
        buffer=bdp(tenths=tenths),
        windows={"end": (50, 200)},
        title=f"{tenths / 10} BDP, target {target} ms, decrease gain {gain}",
    )


@experiment("trang2014:fig3.3", title="Three regions: loss-based, hostile, working")
def fig3_3(setting: Setting) -> Steps:
    """Utilisation of each flow against the buffer.

    Settings: C = 10 Mb/s, owd = 50 ms, B = n BDP rounded up for n = 0.1 to 2.0 by 0.1, tau in {25,
    50, 100} ms, decrease gain in {1, 10}; both from 0; utilisation over the last 150 s of 200.

    Published: three regions in this order of n: loss-based (equal), hostile (LEDBAT above TCP),
    working (TCP far above). The working region needs B > 1.5 tau, about 1.6 BDP at 100 ms. A
    smaller tau or a larger decrease gain widens it.

    Accepted, at 100 ms and gain 1: mean of LEDBAT's part minus TCP's within 0.1 of 0 over all B up
    to tau / 2; LEDBAT above TCP at each B from 0.8 to 1.2 tau; the working region, from where on
    TCP takes 0.8 and more, begins at 1.4 to 1.8 BDP. It begins no later with a smaller target, for
    each gain, no later with gain 10, for each target, and somewhere earlier, both times.
    """
    seeds = setting.seeds(quick=1, full=10)
    results = yield [
        Case(scenario(n, target, gain, spread), seed, {"n": n, "target": target, "gain": gain, "own": not spread})
        for target in TARGETS
        for gain in GAINS
        for n in TENTHS
        for spread, numbers in ((0.0, (1,)), (JITTER, seeds))
        for seed in numbers
    ]
    parts = {
        key: tuple(runs.interval(part(name)) for name in ("tcp", "ledbat"))
        for key, runs in results.where(own=False).groups("target", "gain", "n")
    }
    begins = {(target, gain): working_from(parts, target, gain) for target in TARGETS for gain in GAINS}
    ahead = {n: parts[100, 1, n][1].mean - parts[100, 1, n][0].mean for n in TENTHS}
    below = [ahead[n] for n in TENTHS if in_targets(n, 100) <= 0.5]
    around = [ahead[n] for n in TENTHS if 0.8 <= in_targets(n, 100) <= 1.2]
    targets = [begins[a, gain] - begins[b, gain] for gain in GAINS for a, b in ((100, 50), (50, 25))]
    gains = [begins[target, 1] - begins[target, 10] for target in TARGETS]
    spelled = "; ".join(f"({target} ms;{gain}) {_bdp(begins[target, gain])}" for target, gain in begins)
    return Outcome(
        claims=[
            Claim.fact(
                "100 ms, gain 1, loss-based: B up to tau / 2, LEDBAT's part of the capacity minus TCP's",
                "equal",
                f"{sum(below) / len(below):+.3f} in the mean",
                abs(sum(below) / len(below)) <= 0.1,
                accept="-0.1 to 0.1",
            ),
            Claim.fact(
                "100 ms, gain 1, hostile: B from 0.8 to 1.2 tau, LEDBAT's part minus TCP's",
                "LEDBAT above TCP",
                f"{min(around):+.3f} at least, {max(around):+.3f} at most",
                min(around) > 0,
                accept="above 0 at each B",
            ),
            Claim.number(
                "100 ms, gain 1: the working region begins (BDP)",
                "about 1.6 (B > 1.5 tau)",
                Interval(begins[100, 1], 0.0, len(seeds)),
                (1.4, 1.8),
            ),
            Claim.fact(
                "A smaller target widens the working region",
                "yes",
                f"begins at {spelled}",
                min(targets) >= 0 and max(targets) > 0,
                accept="begins no later, and somewhere earlier",
            ),
            Claim.fact(
                "A larger decrease gain widens the working region",
                "yes",
                f"begins at {spelled}",
                min(gains) >= 0 and max(gains) > 0,
                accept="begins no later, and somewhere earlier",
            ),
        ],
        figures=[
            Figure(
                "fig3.3",
                "Part of the capacity of TCP and of LEDBAT against the buffer; shaded is the working region. Mean and "
                "95 % interval over drawn starts.",
                lambda canvas: _draw(canvas, parts, begins),
                size=(9.0, 5.2),
            )
        ],
        tables=[_table(parts, results.where(own=True))],
        notes=[RECOVERY, BUFFERS, PHASES, "Both flows start at 0: the thesis does not say which order figure 3.3 has."],
    )


def working_from(parts: dict, target: int, gain: int) -> float:
    """From which buffer on (BDP) all are in the working region; infinite if none is."""
    last = [n for n in TENTHS if parts[target, gain, n][0].mean < 0.8]
    first = last[-1] + 1 if last else TENTHS[0]
    return first / 10 if first in TENTHS else float("inf")


def _bdp(value: float) -> str:
    return "nowhere" if value == float("inf") else f"{value:.1f} BDP"


def _draw(canvas: Canvas, parts: dict, begins: dict) -> None:
    axes = canvas.subplots(len(GAINS), len(TARGETS), sharex=True, sharey=True)
    n = [tenths / 10 for tenths in TENTHS]
    for row, gain in enumerate(GAINS):
        for column, target in enumerate(TARGETS):
            panel = axes[row][column]
            for index, law in enumerate(("newreno", "ledbat")):
                values = [parts[target, gain, tenths][index] for tenths in TENTHS]
                curve(panel, n, values, label=("TCP", "LEDBAT")[index], **look(law, marker=True))
            if begins[target, gain] < float("inf"):
                panel.axvspan(begins[target, gain], 2.0, color=look("newreno")["color"], alpha=0.12, linewidth=0)
            frame(
                panel,
                "B (BDP)" if row == len(GAINS) - 1 else "",
                "utilisation" if column == 0 else "",
                xlim=(0, 2.05),
                ylim=(0, 1.02),
                legend=row == column == 0,
                title=f"tau {target} ms, gain {gain}",
            )


def _table(parts: dict, own: Results) -> Table:
    rows = []
    for target in TARGETS:
        for gain in GAINS:
            for n in TENTHS:
                run = own.one(target=target, gain=gain, n=n)
                drawn = parts[target, gain, n]
                rows.append(
                    [
                        target,
                        gain,
                        n / 10,
                        bdp(tenths=n),
                        round(in_targets(n, target), 2),
                        *(round(part(name)(run), 3) for name in ("tcp", "ledbat")),
                        *drawn,
                        region(in_targets(n, target), *(x.mean for x in drawn)),
                    ]
                )
    return Table(
        "fig3.3",
        "Parts of the capacity: the paper's own starts, and starts drawn after them",
        [
            "tau (ms)",
            "gain",
            "B (BDP)",
            "B (pkt)",
            "B / tau",
            "TCP, own run",
            "LEDBAT, own run",
            "TCP",
            "LEDBAT",
            "region",
        ],
        rows,
    )
