"""FLOWER and LEDBAT beside several TCP flows: figures 5.2 and 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Setting, Table, experiment
from leeway.papers.common import CYCLE, PALETTE, curve, frame, look, with_causes
from leeway.papers.trang2014.common import (
    CUBIC,
    FLOWER,
    RECOVERY,
    background,
    bdp,
    drain_ms,
    ledbat,
    network,
    share,
    tcp,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run, Scenario
    from leeway.lab.experiment import Steps

TARGET = 100
LAWS = {"ledbat": ("LEDBAT", ledbat(TARGET)), "flower": ("FLOWER", FLOWER)}
PRIMARIES = {"newreno": "NewReno", "cubic": "CUBIC"}
FAIR = 0.5
"""An LBE law's share of five flows beside five of TCP, if it were TCP."""


SMALL = 1.8
"""B / tau up to which LEDBAT may fail: by there the working region of figure 3.3 has to begin."""

BASE_DELAY = (
    "trang2014:difference-standing-queue: five CUBIC flows never empty the buffer, so LEDBAT, coming later, takes a "
    "standing queue for its base delay; where it has seen the empty path it yields at all larger B/tau"
)


def company(primary: str, law: str, owd: int, tenths: int) -> Scenario:
    """Five TCP flows, one every 10 s, and five of the law, starting between 350 and 450 s; 1200
    s."""
    flows = [
        tcp(CUBIC if primary == "cubic" else "newreno", count=5, stagger="10 s"),
        background("lbe", LAWS[law][1], count=5, start={"uniform": ["350 s", "450 s"]}),
    ]
    return network(
        flows,
        1200,
        bdp(owd=owd, tenths=tenths),
        owd=owd,
        windows={"end": (600, 1200)},
        title=f"5 {PRIMARIES[primary]} and 5 {LAWS[law][0]}, owd {owd} ms, {tenths / 10} BDP",
    )


@experiment("trang2014:fig5.2", title="Five LBE flows beside five TCP flows over delays and buffers")
def fig5_2(setting: Setting) -> Steps:
    """Where LEDBAT stops being less than best effort, and whether FLOWER does.

    Settings: C = 10 Mb/s; 5 TCP (one every 10 s) and 5 LBE (starts drawn from 350 to 450 s), 1200
    s, the last 600 s, 10 runs; owd in {10, 50, 100, 150, 200, 250} ms, B/BDP in {0.2, 0.4, 0.6,
    0.8, 1.0}; TCP is NewReno (a) or CUBIC (b); FLOWER and LEDBAT with tau = 100 ms. X_k = F_k /
    (F_TCP + F_LBE), with F the throughput of all flows of a kind.

    Published: LEDBAT crosses the fair share where B/tau is small; FLOWER stays LBE where LEDBAT
    fails.

    Accepted, for each TCP: LEDBAT takes the fair share, 0.5, or more in some cell, only in cells
    with B at most 1.8 tau (by where figure 3.3's working region has to begin), and below 0.25 at
    the largest B/tau; in each cell where LEDBAT takes 0.5 or more, FLOWER takes less than half of
    what LEDBAT takes.
    """
    delays = setting.pick((10, 50, 150, 250), (10, 50, 100, 150, 200, 250))
    tenths = setting.pick((2, 6, 10), (2, 4, 6, 8, 10))
    seeds = setting.seeds(quick=1, full=10)
    results = yield [
        Case(company(primary, law, owd, n), seed, {"primary": primary, "law": law, "owd": owd, "n": n})
        for primary in PRIMARIES
        for law in LAWS
        for owd in delays
        for n in tenths
        for seed in seeds
    ]
    x = {key: runs.interval(share("lbe")) for key, runs in results.groups("primary", "law", "owd", "n")}
    claims = [claim for primary in PRIMARIES for claim in _company_claims(primary, x, delays, tenths)]
    return Outcome(
        claims=with_causes(claims),
        figures=[
            Figure(
                "fig5.2",
                "Share of five LBE flows beside five of TCP, against the buffer, for each one-way delay; the dotted "
                "line is the fair share. NewReno above, CUBIC below.",
                lambda canvas: _draw_company(canvas, x, delays, tenths),
                size=(9.0, 6.0),
            )
        ],
        tables=[
            Table(
                "fig5.2",
                "X_LBE, mean and 95 % interval",
                ["TCP", "owd (ms)", "B/BDP", "B (pkt)", "B/tau", "LEDBAT", "FLOWER"],
                [
                    [
                        name,
                        owd,
                        n / 10,
                        bdp(owd=owd, tenths=n),
                        round(drain_ms(bdp(owd=owd, tenths=n)) / TARGET, 2),
                        *(x[primary, law, owd, n] for law in LAWS),
                    ]
                    for primary, name in PRIMARIES.items()
                    for owd in delays
                    for n in tenths
                ],
            )
        ],
        notes=[RECOVERY, f"Beside CUBIC, {BASE_DELAY.partition(': ')[2]} ({BASE_DELAY.partition(': ')[0]})."],
    )


def _company_claims(primary: str, x: dict, delays: Sequence[int], tenths: Sequence[int]) -> list[Claim]:
    name = PRIMARIES[primary]
    cells = sorted((drain_ms(bdp(owd=owd, tenths=n)) / TARGET, owd, n) for owd in delays for n in tenths)
    taken = {cell: x[primary, "ledbat", *cell[1:]] for cell in cells}
    failing = [cell for cell in cells if taken[cell].mean >= FAIR]
    most = max(cells, key=lambda cell: taken[cell].mean)
    found = (
        f"{len(failing)} of {len(cells)} cells at 0.5 or more, the largest {taken[most]} at B/tau = {most[0]:.2f}; "
        f"{taken[cells[-1]]} at {cells[-1][0]:.2g}"
    )
    if failing:
        found += f"; none of them above B/tau = {failing[-1][0]:.2f}"
    crosses = bool(failing) and failing[-1][0] <= SMALL and taken[cells[-1]].mean < 0.25
    return [
        Claim.fact(
            f"{name}: LEDBAT crosses the fair share where B/tau is small",
            "yes",
            found,
            crosses,
            why=BASE_DELAY if primary == "cubic" else "",
            accept="0.5 or more in some cell, only where B is at most 1.8 tau; below 0.25 at the largest B/tau",
        ),
        _flower_stays(name, [(x[primary, "flower", *cell[1:]].mean, taken[cell].mean) for cell in failing]),
    ]


def _flower_stays(name: str, shares: Sequence[tuple[float, float]]) -> Claim:
    """Of FLOWER and LEDBAT in the cells where LEDBAT fails."""
    text = f"{name}: FLOWER stays LBE where LEDBAT fails"
    if not shares:
        return Claim.open(text, "LEDBAT fails nowhere")
    flower, other = max(shares, key=lambda pair: pair[0] / pair[1])
    return Claim.fact(
        text,
        "yes",
        f"in those {len(shares)} cells at worst {flower:.3f}, where LEDBAT takes {other:.3f}",
        flower < other / 2,
        accept="less than half of what LEDBAT takes, in each cell where that is 0.5 or more",
    )


def _draw_company(canvas: Canvas, x: dict, delays, tenths) -> None:
    axes = canvas.subplots(len(PRIMARIES), len(LAWS), sharex=True, sharey=True)
    for row, (primary, primary_name) in enumerate(PRIMARIES.items()):
        for column, (law, (name, _)) in enumerate(LAWS.items()):
            panel = axes[row][column]
            for colour, owd in zip(CYCLE, delays, strict=False):
                values = [x[primary, law, owd, n] for n in tenths]
                curve(
                    panel, [n / 10 for n in tenths], values, label=f"{owd} ms", color=colour, marker="o", markersize=3
                )
            panel.axhline(FAIR, color=PALETTE["grey"], linewidth=0.8, linestyle=":")
            frame(
                panel,
                "B (BDP)" if row else "",
                "X of LBE" if column == 0 else "",
                ylim=(0, 1),
                legend=row == column == 0,
                title=f"{name} beside {primary_name}",
            )


QUEUES = {
    "DropTail": "droptail",
    "RED": "red:target=5ms",
    "CoDel": "codel:target=5ms,interval=100ms,variant=2012",
    "PIE": "pie:variant=early,target=20ms,alpha=0.125,beta=1.25",
}
BUFFER = 250


def managed(queue: str, law: str) -> Scenario:
    """Five TCP flows and five of the law from 0, 60 s, with this discipline."""
    start = {"uniform": ["0 s", "100 ms"]}
    flows = [tcp(count=5, start=start), background("lbe", LAWS[law][1], count=5, start=start)]
    return network(
        flows, 60, BUFFER, queue=QUEUES[queue], windows={"run": (0, 60)}, title=f"5 TCP and 5 {LAWS[law][0]}, {queue}"
    )


@experiment("trang2014:fig5.4", title="LEDBAT and FLOWER beside TCP under active queue management")
def fig5_4(setting: Setting) -> Steps:
    """What becomes of delay-based laws when the queue is kept short.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 250 packets; 5 TCP and 5 LBE from 0, 60 s, 10 runs;
    DropTail, RED (gentle, automatic thresholds, target 5 ms), CoDel (5 ms / 100 ms), PIE (20 ms;
    alpha 0.125, beta 1.25); E[Q]/B and X_TCP.

    Published: DropTail fills the buffer and both are LBE (X_TCP near 1); any AQM removes the bloat
    and makes LEDBAT compete about fairly; FLOWER is always closer to LBE.

    Accepted: with DropTail E[Q]/B at least 0.5 and X_TCP at least 0.8, for both; with each AQM
    E[Q]/B at most 0.2 and X_TCP beside LEDBAT 0.35 to 0.75; X_TCP beside FLOWER above that beside
    LEDBAT under each discipline.
    """
    seeds = setting.seeds(quick=10, full=10)
    results = yield [
        Case(managed(queue, law), seed, {"queue": queue, "law": law})
        for queue in QUEUES
        for law in LAWS
        for seed in seeds
    ]
    x = {key: runs.interval(share("tcp")) for key, runs in results.groups("queue", "law")}
    fill = {key: runs.interval(_fill) for key, runs in results.groups("queue", "law")}
    claims = []
    for law, (name, _) in LAWS.items():
        claims.append(Claim.number(f"DropTail, {name}: E[Q]/B", "fills the buffer", fill["DropTail", law], (0.5, 1.0)))
        claims.append(Claim.number(f"DropTail, {name}: X_TCP", "near 1", x["DropTail", law], (0.8, 1.0)))
    for queue in list(QUEUES)[1:]:
        worst = max((fill[queue, law] for law in LAWS), key=lambda found: found.mean)
        claims.append(Claim.number(f"{queue}: E[Q]/B, the larger of both", "no bloat", worst, (0.0, 0.2)))
        claims.append(Claim.number(f"{queue}, LEDBAT: X_TCP", "about fair (0.5)", x[queue, "ledbat"], (0.35, 0.75)))
    claims += [
        Claim.fact(
            f"{queue}: FLOWER is closer to LBE than LEDBAT (X_TCP)",
            "always",
            f"{x[queue, 'flower']} beside FLOWER, {x[queue, 'ledbat']} beside LEDBAT",
            x[queue, "flower"].mean > x[queue, "ledbat"].mean,
            accept="higher beside FLOWER",
        )
        for queue in QUEUES
    ]
    return Outcome(
        claims=with_causes(claims),
        figures=[
            Figure(
                "fig5.4",
                "Mean queue over the buffer, and TCP's share, for each discipline; mean and 95 % interval over 10 "
                "runs.",
                lambda canvas: _draw_managed(canvas, fill, x),
                size=(8.0, 3.6),
            )
        ],
        tables=[
            Table(
                "fig5.4",
                "Mean queue over the buffer and TCP's share, mean and 95 % interval",
                ["queue", *(f"{name}: {what}" for name, _ in LAWS.values() for what in ("E[Q]/B", "X_TCP"))],
                [[queue, *(v[queue, law] for law in LAWS for v in (fill, x))] for queue in QUEUES],
            )
        ],
        notes=[
            RECOVERY,
            "Starts are drawn within one round trip (100 ms): ten flows in the same instant lock in phase, and ten "
            "runs would be one. CoDel is that of 2012, PIE that before its RFC, as the thesis had them.",
        ],
    )


def _fill(run: Run) -> float:
    return run.window().link().queue_mean_pkt / BUFFER


def _draw_managed(canvas: Canvas, fill: dict[tuple, Interval], x: dict[tuple, Interval]) -> None:
    axes = canvas.subplots(1, 2)
    for panel, values, label in zip(axes, (fill, x), ("E[Q] / B", "X of TCP"), strict=True):
        for offset, (law, (name, _)) in zip((-0.2, 0.2), LAWS.items(), strict=True):
            found = [values[queue, law] for queue in QUEUES]
            places = [index + offset for index in range(len(QUEUES))]
            panel.bar(places, [f.mean for f in found], 0.38, color=look(law)["color"], label=name)
            errors = [f.half for f in found]
            panel.errorbar(places, [f.mean for f in found], errors, fmt="none", ecolor=PALETTE["grey"], capsize=2)
        panel.set_xticks(range(len(QUEUES)), list(QUEUES))
        frame(panel, "", label, ylim=(0, 1.02), legend=panel is axes[0])
    axes[1].axhline(FAIR, color=PALETTE["grey"], linewidth=0.8, linestyle=":")
