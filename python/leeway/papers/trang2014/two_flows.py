"""One LEDBAT flow beside one TCP flow, at the RFC's parameters: figures 3.1, 3.2 and 3.6."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from leeway.lab import Case, Claim, Figure, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import history, with_causes
from leeway.papers.trang2014.common import (
    CUBIC,
    JITTER,
    PHASES,
    RECOVERY,
    at,
    background,
    draw_queue,
    draw_windows,
    from_zero,
    instant,
    ledbat,
    network,
    part,
    percent,
    ratio,
    share,
    tcp,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run, Scenario
    from leeway.lab.experiment import Steps

TARGET = 100
ORDERS = {"A": (0.0, 0.0), "B": (20.0, 0.0), "C": (0.0, 20.0)}
"""Starts of TCP and of LEDBAT, s."""

ORDER_NAMES = {"A": "both at 0", "B": "LEDBAT 0, TCP 20 s", "C": "TCP 0, LEDBAT 20 s"}


SHARED = {"shared": (50.0, 200.0)}
"""When the start of the later flow is over."""


def pair(
    order: str,
    buffer: int,
    law: str = "newreno",
    spread: float = 0.0,
    windows: Mapping[str, tuple[float, float]] = SHARED,
    every: str | None = None,
) -> Scenario:
    """One TCP (`law`) and one LEDBAT in this order, starts drawn within `spread` seconds, until
    the last window's end."""
    tcp_start, ledbat_start = ORDERS[order]
    name = "tcp" if law == "newreno" else "cubic"
    return network(
        [
            tcp(law, name=name, start=at(tcp_start, spread)),
            background("ledbat", ledbat(TARGET), start=at(ledbat_start, spread)),
        ],
        duration=max(end for _, end in windows.values()),
        buffer=buffer,
        windows=windows,
        every=every,
        title=f"{name} and LEDBAT, {buffer} packets, {ORDER_NAMES[order]}",
    )


def cases(seeds: Iterable[int], every: str = "20 ms", **settings: Any) -> list[Case]:
    """The paper's own run of each order, with series (label ``own``), and runs with drawn starts
    (not ``own``)."""
    own = [Case(pair(order, every=every, **settings), labels={"order": order, "own": True}) for order in ORDERS]
    drawn = [
        Case(pair(order, spread=JITTER, **settings), seed, {"order": order, "own": False})
        for order in ORDERS
        for seed in seeds
    ]
    return own + drawn


def draw_orders(runs: dict[str, Run], flows: dict[str, str]) -> Callable[[Canvas], None]:
    """Windows above queuing delay, a column for each order."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots(2, len(runs), sharex="col", sharey="row", squeeze=False, height_ratios=[2, 1])
        for column, (order, run) in enumerate(runs.items()):
            draw_windows(axes[0][column], run, flows, title=f"{order}: {ORDER_NAMES[order]}", legend=column == 0)
            draw_queue(axes[1][column], run, TARGET)
            if column:
                axes[0][column].set_ylabel("")
                axes[1][column].set_ylabel("")
        from_zero(axes)

    return draw


def _own(results: Results) -> dict[str, Run]:
    """The paper's own runs, by order."""
    return {r.labels["order"]: r.run() for r in results.where(own=True)}


@experiment("trang2014:fig3.1", title="LEDBAT beside TCP, a buffer below the target")
def fig3_1(setting: Setting) -> Steps:
    """The worst case that RFC 6817 foresees: the queue cannot reach the target.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 9 packets (0.1 BDP, 11 ms), tau = 100 ms, decrease gain
    1, 200 s, starts A both at 0, B LEDBAT 0 and TCP 20 s, C TCP 0 and LEDBAT 20 s.

    Published: the target is never reached and both take equal shares.

    Accepted: LEDBAT's share of what is delivered from 50 s on is 0.40 to 0.60, mean over all
    orders; no sample of the delay above the target.
    """
    seeds = setting.seeds(quick=3, full=20)
    results = yield cases(seeds, buffer=9)
    runs, drawn = _own(results), results.where(own=False)
    highest = max(history(run, "ledbat").delay.max() for run in runs.values())
    return Outcome(
        claims=with_causes(
            [
                Claim.number(
                    "LEDBAT's share, all orders", "0.5 (equal)", drawn.interval(share("ledbat", "shared")), (0.40, 0.60)
                ),
                Claim.fact(
                    "The delay never reaches the target",
                    "never",
                    f"at most {highest:.1f} of {TARGET} ms",
                    highest < TARGET,
                    accept="below 100 ms",
                ),
            ]
        ),
        figures=[
            Figure(
                "fig3.1",
                "Windows, and queuing delay with the target (dashed), B = 9 packets: nothing tells LEDBAT to yield.",
                draw_orders(runs, {"tcp": "newreno", "ledbat": "ledbat"}),
                size=(9.0, 4.6),
            )
        ],
        tables=[_by_order("fig3.1", 9, runs, drawn, "tcp")],
        notes=[RECOVERY, PHASES, "Shares are taken from 50 s on, when the start of the later flow is over."],
    )


@experiment("trang2014:fig3.2", title="LEDBAT beside TCP, a buffer just above the target")
def fig3_2(setting: Setting) -> Steps:
    """Worse than the RFC's worst case: LEDBAT at its target takes more than TCP.

    Settings: as fig3.1 with B = 92 packets (1.1 BDP, 110 ms).

    Published: LEDBAT takes more than TCP in all three orders. With both at 0: after slow start
    LEDBAT sits at one packet, both grow from t = 3 to 5 s, the delay passes the target about t =
    11 s, TCP overflows at t = 15 s and halves.

    Accepted: LEDBAT's throughput over TCP's above 1 in each order; LEDBAT's window at most 2
    packets after slow start (1 to 3 s); delay above the target at 10 to 12 s; TCP halves at 14 to
    16 s.
    """
    seeds = setting.seeds(quick=3, full=20)
    results = yield cases(seeds, buffer=92)
    runs, drawn = _own(results), results.where(own=False)
    lowest, over, halves = timeline(runs["A"])
    why = (
        "trang2014:difference-recovery: here LEDBAT repairs the overshoot of slow start with SACK, without a "
        "timeout, and goes on from half its window"
    )
    worse = [
        Claim.number(
            f"{order}: LEDBAT's throughput over TCP's",
            "above 1",
            drawn.where(order=order).interval(ratio("ledbat", "tcp", "shared")),
            (1.0, float("inf")),
        )
        for order in ORDERS
    ]
    return Outcome(
        claims=with_causes(
            [
                *worse,
                Claim.fact(
                    "A: LEDBAT's smallest window after slow start (1 to 3 s)",
                    "1 packet",
                    f"{lowest:.0f} packets",
                    lowest <= 2,
                    why,
                    "at most 2 packets",
                ),
                Claim.fact(
                    "A: the delay passes the target", "about 11 s", instant(over), 10 <= over <= 12, why, "10 to 12 s"
                ),
                Claim.fact(
                    "A: TCP overflows and halves", "15 s", instant(halves), 14 <= halves <= 16, why, "14 to 16 s"
                ),
            ]
        ),
        figures=[
            Figure(
                "fig3.2",
                "Windows, and queuing delay with the target (dashed), B = 92 packets: LEDBAT holds the queue at its "
                "target, and only TCP pays for the overflow.",
                draw_orders(runs, {"tcp": "newreno", "ledbat": "ledbat"}),
                size=(9.0, 4.6),
            )
        ],
        tables=[_by_order("fig3.2", 92, runs, drawn, "tcp")],
        notes=[RECOVERY, PHASES],
    )


def timeline(run: Run) -> tuple[float, float, float]:
    """What figure 3.2 A shows in time.

    Returns ------- LEDBAT's smallest window from 1 to 3 s (packets), when LEDBAT sees the delay
    above the target (from 3 s on), and when TCP halves (from 4 s on), both in s.
    """
    flow = history(run, "ledbat")
    return (
        float(flow.between(1.0, 3.0).cwnd.min()),
        flow.when(flow.delay > TARGET, after=3.0),
        history(run, "tcp").halving(after=4.0),
    )


@experiment("trang2014:fig3.6", title="LEDBAT beside CUBIC, a buffer just above the target")
def fig3_6(setting: Setting) -> Steps:
    """CUBIC in the place of NewReno.

    Settings: B = 92 packets, tau = 100 ms, decrease gain 1, CUBIC as TCP-Linux had it (2010: beta
    0.8); starts as in fig3.2; 600 s.

    Published: slower than with NewReno, but CUBIC yields to LEDBAT in the end.

    Accepted, with both at 0: LEDBAT's throughput over CUBIC's in the last quarter above 1, in the
    paper's own run and with drawn starts; LEDBAT's share of 50 to 150 s below what it has beside
    NewReno.
    """
    seeds = setting.seeds(quick=2, full=20)
    windows = {"shared": (50.0, 600.0), "early": (50.0, 150.0), "end": (450.0, 600.0)}
    newreno = pair("A", 92, spread=JITTER, windows=windows)
    results = yield [
        *cases(seeds, "50 ms", buffer=92, law=CUBIC, windows=windows),
        *(Case(newreno, seed, {"order": "A", "own": None}) for seed in seeds),
    ]
    runs, drawn = _own(results), results.where(own=False)
    early = drawn.where(order="A").interval(share("ledbat", "early"))
    ends = ratio("ledbat", "cubic", "end")(runs["A"])
    why = (
        "trang2014:difference-cubic-decrease: CUBIC keeps 0.8 of its window after a loss here, as in 2010, and ends "
        "about even with LEDBAT; with 0.7, Linux's later value, it yields"
    )
    beside_newreno = results.where(own=None).interval(share("ledbat", "early"))
    return Outcome(
        claims=with_causes(
            [
                Claim.fact(
                    "A: LEDBAT gains more slowly on CUBIC than on NewReno (its share, 50 to 150 s)",
                    "slower",
                    f"{early} beside CUBIC, {beside_newreno} beside NewReno",
                    early.high < beside_newreno.low if setting.full else early.mean < beside_newreno.mean,
                    accept="below; at full size with intervals apart",
                ),
                Claim.fact(
                    "A, both exactly at 0: LEDBAT's throughput over CUBIC's in the end (450 to 600 s)",
                    "above 1",
                    f"{ends:.3g}",
                    ends > 1,
                    accept="above 1",
                ),
                Claim.number(
                    "A, starts drawn: LEDBAT's throughput over CUBIC's in the end (450 to 600 s)",
                    "above 1",
                    drawn.where(order="A").interval(ratio("ledbat", "cubic", "end")),
                    (1.0, float("inf")),
                    why=why,
                ),
            ]
        ),
        figures=[
            Figure(
                "fig3.6",
                "Windows, and queuing delay with the target (dashed), CUBIC and LEDBAT, B = 92 packets.",
                draw_orders(runs, {"cubic": CUBIC, "ledbat": "ledbat"}),
                size=(9.0, 4.6),
            )
        ],
        tables=[_by_order("fig3.6", 92, runs, drawn, "cubic")],
        notes=[
            RECOVERY,
            PHASES,
            "The length of the run is not given: 600 s, in which the windows settle. The claims are on order A.",
        ],
    )


def _by_order(name: str, buffer: int, runs: dict[str, Run], drawn: Results, primary: str) -> Table:
    """Shares of capacity in each order: the paper's own run, and those with drawn starts."""
    rows = [
        [
            f"{order}: {ORDER_NAMES[order]}",
            *(percent(part(flow, "shared")(runs[order])) for flow in (primary, "ledbat")),
            *(drawn.where(order=order).interval(part(flow, "shared")).scaled(100) for flow in (primary, "ledbat")),
        ]
        for order in ORDERS
    ]
    who = "CUBIC" if primary == "cubic" else "TCP"
    return Table(
        name,
        f"Parts of the capacity from 50 s on, B = {buffer} packets: the paper's own starts, and starts drawn after "
        "them",
        ["order", f"{who}, own run", "LEDBAT, own run", f"{who} (%)", "LEDBAT (%)"],
        rows,
    )
