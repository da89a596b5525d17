"""FLOWER in time: figures 5.1 and 5.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from leeway.lab import Case, Claim, Figure, Outcome, Setting, Table, experiment, jain
from leeway.papers.common import history, with_causes
from leeway.papers.trang2014.common import (
    BUFFERS,
    FLOWER,
    JITTER,
    PHASES,
    RECOVERY,
    at,
    background,
    bdp,
    draw_queue,
    draw_windows,
    from_zero,
    instant,
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
LAWS = {"flower": FLOWER, "ledbat": ledbat(TARGET)}
LOSS_ZONE = "loss_zone"
"""Phase of a law that takes a fall of the delay for somebody's loss, as series name it."""


def beside_tcp(law: str, buffer: int, spread: float = 0.0, every: str | None = None) -> Scenario:
    """One TCP and one flow of the law from 0, 75 s."""
    flows = [tcp(start=at(0, spread)), background(law, LAWS[law], start=at(0, spread))]
    return network(flows, 75, buffer, windows={"run": (0, 75)}, every=every, title=f"TCP and {law}, {buffer} packets")


@experiment("trang2014:fig5.1", title="FLOWER and LEDBAT beside TCP, a buffer of one BDP")
def fig5_1(setting: Setting) -> Steps:
    """FLOWER yields where LEDBAT at the same target does not.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 1 BDP (84 packets); one TCP and one LBE, FLOWER or
    LEDBAT, both with tau = 100 ms, from 0; 75 s.

    Published: both leave slow start by loss, FLOWER restarts at 1; it flattens near the target,
    decreases after t = 7.5 s and is at one packet at 9.3 s; TCP re-enters avoidance at 10 s and
    halves at 21.8 s; the fall of the delay trips FLOWER's loss-detection zone. LEDBAT is
    aggressive in the same setting.

    Accepted: FLOWER's share at most 0.2, LEDBAT's at least 0.5; FLOWER at one packet within the
    first 2 s, and there again at 8 to 11 s; TCP halves at 20 to 24 s; the loss zone is entered
    within 1 s after that.
    """
    seeds = setting.seeds(quick=3, full=20)
    buffer = bdp()
    results = yield [
        *(Case(beside_tcp(law, buffer, every="20 ms"), labels={"law": law, "own": True}) for law in LAWS),
        *(Case(beside_tcp(law, buffer, JITTER), seed, {"law": law, "own": False}) for law in LAWS for seed in seeds),
    ]
    runs = {law: results.one(law=law, own=True) for law in LAWS}
    drawn = {law: results.where(law=law, own=False).interval(share(law)) for law in LAWS}
    restart, yields, halves, zone = timeline(runs["flower"])
    why = (
        "trang2014:difference-long-recovery: in the thesis TCP is busy until 10 s with what slow start lost, here "
        "until 2 s; with a recovery that long both instants are the published ones"
    )
    return Outcome(
        claims=with_causes(
            [
                Claim.number("FLOWER's share", "far below TCP's", drawn["flower"], (0.0, 0.2)),
                Claim.number("LEDBAT's share", "aggressive", drawn["ledbat"], (0.5, 1.0)),
                Claim.fact(
                    "FLOWER's smallest window in the first 2 s",
                    "restarts at 1 packet",
                    f"{restart:.0f} packets",
                    restart <= 1.01,
                    accept="1 packet",
                ),
                Claim.fact(
                    "FLOWER is at one packet again", "9.3 s", instant(yields), 8 <= yields <= 11, why, "8 to 11 s"
                ),
                Claim.fact("TCP halves", "21.8 s", instant(halves), 20 <= halves <= 24, why, "20 to 24 s"),
                Claim.fact(
                    "The fall of the delay trips FLOWER's loss zone",
                    "yes",
                    f"{zone:.2f} s after TCP halves" if np.isfinite(zone) else "never",
                    zone <= 1.0,
                    accept="within 1 s",
                ),
            ]
        ),
        figures=[
            Figure(
                "fig5.1",
                "Windows and queuing delay (target dashed): FLOWER and LEDBAT beside TCP, B = 84 packets.",
                lambda canvas: _draw(canvas, {law: (runs[law], {"tcp": "newreno", law: law}) for law in LAWS}),
                size=(9.0, 4.6),
            )
        ],
        notes=[RECOVERY, BUFFERS, PHASES],
    )


def timeline(run: Run, after: float = 5.0) -> tuple[float, float, float, float]:
    """What figure 5.1 shows of FLOWER in time.

    Parameters
    ----------
    run
        With series.
    after
        From when on TCP's first loss in congestion avoidance is looked for, s.

    Returns ------- FLOWER's smallest window in the first 2 s (packets); when it is at one packet
    again (from 5 s on, s); when TCP halves (s); how long after that FLOWER is in its loss zone
    (s).
    """
    flow, halves = history(run, "flower"), history(run, "tcp").halving(after=after)
    zone = flow.when(_phase(run, "flower") == LOSS_ZONE, after=halves - 0.1)
    smallest = float(flow.between(0.0, 2.0).cwnd.min())
    return smallest, flow.when(flow.cwnd < 1.1, after=5.0), halves, max(zone - halves, 0.0)


def _phase(run: Run, flow: str) -> np.ndarray:
    table = run.flows.filter(pc.equal(pc.cast(run.flows["flow"], "string"), flow))
    return np.array(table["phase"].to_pylist(), dtype=object)


def _draw(canvas: Canvas, columns: dict[str, tuple[Run, dict[str, str]]]) -> None:
    axes = canvas.subplots(2, len(columns), sharex=True, sharey="row", height_ratios=[2, 1])
    for column, (law, (run, flows)) in enumerate(columns.items()):
        draw_windows(axes[0][column], run, flows, title=law.upper())
        draw_queue(axes[1][column], run, TARGET)
        if column:
            axes[0][column].set_ylabel("")
            axes[1][column].set_ylabel("")
    from_zero(axes)


def two_alike(law: str, spread: float = 0.0, every: str | None = None) -> Scenario:
    """Two flows of the law, the second 20 s later, B = 2 BDP, 150 s."""
    flows = [background(name, LAWS[law], start=at(t, spread)) for name, t in (("first", 0), ("second", 20))]
    return network(flows, 150, bdp(tenths=20), windows={"end": (100, 150)}, every=every, title=f"two {law} flows")


@experiment("trang2014:fig5.3", title="Two flows of the same law, the second later")
def fig5_3(setting: Setting) -> Steps:
    """Whether a late-comer takes over.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 2 BDP (167 packets); two LBE flows of the same law
    (FLOWER; LEDBAT tau = 100 ms), the second 20 s later; 150 s.

    Published: LEDBAT's first flow falls to its minimum, at 131 s; FLOWER shares fairly.

    Accepted: LEDBAT's first flow is at its minimum by 140 s, and its share of the last 50 s at
    most 0.1; Jain's index of the FLOWER flows over the last 50 s at least 0.95.
    """
    seeds = setting.seeds(quick=3, full=20)
    results = yield [
        *(Case(two_alike(law, every="20 ms"), labels={"law": law, "own": True}) for law in LAWS),
        *(Case(two_alike(law, JITTER), seed, {"law": law, "own": False}) for law in LAWS for seed in seeds),
    ]
    runs = {law: results.one(law=law, own=True) for law in LAWS}
    drawn = {law: results.where(law=law, own=False) for law in LAWS}
    first = history(runs["ledbat"], "first")
    minimum = first.when(first.cwnd < 1.1, after=21)
    fairness = {law: drawn[law].interval(_fairness) for law in LAWS}
    shares = {law: drawn[law].interval(share("first")) for law in LAWS}
    return Outcome(
        claims=with_causes(
            [
                Claim.fact(
                    "LEDBAT's first flow is at its minimum",
                    "131 s",
                    instant(minimum),
                    minimum <= 140,
                    accept="by 140 s",
                ),
                Claim.number(
                    "LEDBAT's first flow's share of the last 50 s", "its minimum", shares["ledbat"], (0.0, 0.1)
                ),
                Claim.number("Jain's index of two FLOWER flows, last 50 s", "fair", fairness["flower"], (0.95, 1.0)),
            ]
        ),
        figures=[
            Figure(
                "fig5.3",
                "Windows and queuing delay (target dashed) of two flows of the same law, B = 167 packets.",
                lambda canvas: _draw(canvas, {law: (runs[law], {"first": law, "second": law}) for law in LAWS}),
                size=(9.0, 4.6),
            )
        ],
        tables=[
            Table(
                "fig5.3",
                "The last 50 s, mean and 95 % interval over drawn starts",
                ["law", "first flow's share", "Jain's index"],
                [[law.upper(), shares[law], fairness[law]] for law in LAWS],
            )
        ],
        notes=[BUFFERS, PHASES],
    )


def _fairness(run: Run) -> float:
    return jain(run.window().group(name).throughput_bps for name in ("first", "second"))
