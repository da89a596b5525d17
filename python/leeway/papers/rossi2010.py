"""Rossi, Testa, Valenti, Muscariello: LEDBAT: the new BitTorrent congestion control protocol. ICCCN 2010.

Common to all: 10 Mbit/s, packets of 1500 bytes, a round trip of 50 ms of which the bottleneck's own delay is 25 ms one
way, a target of 25 ms (20.8 packets), no clamp on the decrease, the base delay a running minimum, and slow start off in
both protocols: both start from one packet and grow linearly. TCP is NewReno.

Nothing is drawn at random, so a run has no spread of its own. Where an interval is shown, each flow starts up to one
round trip (50 ms) later than published, drawn anew for each seed. A claim is judged by the published setting; the
interval says how far it depends on exact starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from leeway import Channel, Dumbbell, Flow, Run, Scenario, Series, Window
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Setting, Table, experiment
from leeway.lab import jain as jain_index
from leeway.papers.common import PALETTE, frame, history, look, queue_history, thin

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab.experiment import Steps

TARGET_MS = 25.0
TARGET_PKT = 20.8
ROUND_TRIP_S = 0.05
TCP = "newreno:slow_start=none"
LEDBAT = "ledbat:target=25ms,base_history=0,filter_length=1,slow_start=none,floor=1"
FIG3 = ((2, 40), (10, 40), (10, 100))
"""Start of the second flow (s) and buffer (packets) of figure 3's cases."""


def scenario(
    flows: list[Flow],
    buffer: int,
    duration: float,
    *,
    rate_mbps: float = 10,
    window: Window | None = None,
    series: bool = True,
) -> Scenario:
    """The paper's dumbbell, with series every 10 ms."""
    return Scenario(
        duration=f"{duration:g} s",
        profile="ns2",
        dumbbell=Dumbbell(
            bottleneck=Channel(rate=f"{rate_mbps:g} Mbit/s", delay="25 ms", buffer=f"{buffer} pkt", queue="droptail")
        ),
        flow=flows,
        window=[window] if window else [],
        series=Series(every="10 ms") if series else None,
    )


def flow(name: str, law: str, start: float = 0.0, jitter: float = 0.0, **tcp: object) -> Flow:
    """A flow that begins with one packet, at `start` (s) or up to `jitter` (s) later."""
    begin = {"uniform": [f"{start:g} s", f"{start + jitter:g} s"]} if jitter else f"{start:g} s"
    role = "primary" if law.startswith("newreno") else "background"
    return Flow(name=name, law=law, role=role, start=begin, tcp={"initial_window": 1, **tcp})


def beside_tcp(jitter: float = 0.0, alone: bool = False) -> Scenario:
    """Figure 2a: TCP and LEDBAT from the beginning; or TCP alone."""
    ledbat = [] if alone else [flow("ledbat", LEDBAT, jitter=jitter)]
    return scenario([flow("tcp", TCP, jitter=jitter), *ledbat], 40, 20)


def two_ledbat(delay: float, buffer: int, duration: float, jitter: float = 0.0, **tcp: object) -> Scenario:
    """Two LEDBAT flows, the second `delay` seconds later; `tcp` are choices of the second."""
    second = flow("second", LEDBAT, delay, jitter, **tcp)
    return scenario([flow("first", LEDBAT, jitter=jitter), second], buffer, duration)


def twice(make: Callable[[float], Scenario], setting: Setting, **labels: object) -> list[Case]:
    """The published case, and the same with starts drawn within one round trip."""
    seeds = setting.seeds(quick=5, full=30)
    drawn = [Case(make(ROUND_TRIP_S), seed, {**labels, "starts": "drawn"}) for seed in seeds]
    return [Case(make(0.0), 1, {**labels, "starts": "published"}), *drawn]


def judged(
    text: str, published: str, exact: float, drawn: Interval | None, accept: tuple[float, float], unit="", why=""
) -> Claim:
    """A claim judged by the published starts; what comes out of drawn ones stands beside it."""
    claim = Claim.number(text, published, Interval(exact, 0.0, 1), accept, unit, why=why)
    found = f"{exact:.3g}{f' {unit}' if unit else ''}"
    if drawn is not None:
        found += f"; starts drawn: {drawn.text(unit)}"
    return Claim(text, published, found, claim.holds, why, claim.accept)


def ratio(run: Run) -> float:
    """TCP's bytes over LEDBAT's."""
    groups = run.windows[0].group
    return groups("tcp").throughput_bps / groups("ledbat").throughput_bps


def fairness(run: Run) -> float:
    """Jain's index of the whole run, or of its window."""
    return run.windows[0].jain


def utilisation(run: Run) -> float:
    """Utilisation of the bottleneck."""
    return run.windows[0].link().utilisation


def window_fairness(run: Run, at: float) -> float:
    """Jain's index of the two windows at an instant (s): the shares while both see the same round-trip time."""
    return jain_index([history(run, name).cwnd_at(at) for name in ("first", "second")])


@experiment("rossi2010:fig2a", title="TCP and LEDBAT from the beginning")
def fig2a(setting: Setting) -> Steps:
    """Buffer of 40 packets; one TCP and one LEDBAT flow, both from 0, 20 s.

    Published: both ramp at one packet per round trip; LEDBAT flattens at the target soon after 2 s; its window reaches
    one packet just before 6 s; slightly later TCP overflows the buffer and halves; in the second cycle LEDBAT hits the
    target about 7 s. Jain's index 0.65, TCP moves 6 times LEDBAT's bytes, utilisation 16 % above TCP alone.
    """
    results = yield [
        *twice(beside_tcp, setting, flows="both"),
        *twice(lambda jitter: beside_tcp(jitter, alone=True), setting, flows="TCP alone"),
    ]
    both, alone = results.where(flows="both"), results.where(flows="TCP alone")
    run, drawn = both.one(starts="published"), both.where(starts="drawn")
    tcp, ledbat = history(run, "tcp"), history(run, "ledbat")

    reached = ledbat.when(ledbat.delay >= TARGET_MS - 1)
    minimum = ledbat.when(ledbat.cwnd < 2, after=3)
    loss = tcp.halving(after=3)
    again = ledbat.when(ledbat.delay >= TARGET_MS - 1, after=loss + 0.3)
    one_each = abs(tcp.cwnd_at(1.5) - tcp.cwnd_at(0.5) - (ledbat.cwnd_at(1.5) - ledbat.cwnd_at(0.5)))
    growth = (tcp.cwnd_at(1.5) - tcp.cwnd_at(0.5)) * ROUND_TRIP_S

    def gain(pair: Run, single: Run) -> float:
        return 100 * (utilisation(pair) / utilisation(single) - 1)

    lone = alone.one(starts="published")
    drawn_gain = Interval.of(
        gain(pair.run(), single.run()) for pair, single in zip(drawn, alone.where(starts="drawn"), strict=True)
    )
    return Outcome(
        claims=[
            judged("TCP's growth at the beginning", "1 packet/RTT", growth, None, (0.85, 1.1), "packet/RTT"),
            judged("LEDBAT's growth below TCP's from 0.5 to 1.5 s", "equal", one_each, None, (0, 2), "packets"),
            judged("LEDBAT first at its target", "soon after 2 s", reached, None, (1.5, 3), "s"),
            judged("LEDBAT's window at one packet", "just before 6 s", minimum, None, (5, 7), "s"),
            judged("TCP overflows the buffer after that", "slightly later", loss - minimum, None, (-0.2, 1), "s"),
            judged("LEDBAT at its target again", "about 7 s", again, None, (6.5, 8), "s"),
            judged("Jain's index", "0.65", fairness(run), drawn.interval(fairness), (0.58, 0.72)),
            judged("TCP's bytes over LEDBAT's", "6", ratio(run), drawn.interval(ratio), (5, 8)),
            judged(
                "Utilisation above TCP alone",
                "16 %",
                gain(run, lone),
                drawn_gain,
                (11, 21),
                "%",
                why="rossi2010:tcp-alone: TCP alone fills so much of the link that nothing can be 16 % above it; what "
                "LEDBAT adds to TCP's bytes in the same run is about 16 %.",
            ),
        ],
        figures=[
            Figure(
                "fig2a",
                "Windows of TCP and LEDBAT and their sum, and the queue; buffer of 40 packets.",
                lambda canvas: _windows(canvas, run, {"tcp": "TCP", "ledbat": "LEDBAT"}, 20, 40),
                (7.0, 5.2),
            )
        ],
        tables=[
            Table(
                "fig2a",
                "Over 20 s",
                ("", "utilisation", "Jain's index", "TCP / LEDBAT"),
                [
                    ["both, published starts", utilisation(run), fairness(run), ratio(run)],
                    ["both, starts drawn", *(drawn.interval(m) for m in (utilisation, fairness, ratio))],
                    ["TCP alone", utilisation(lone), None, None],
                    ["TCP alone, start drawn", alone.where(starts="drawn").interval(utilisation), None, None],
                ],
            )
        ],
        notes=[
            "Losses are repaired without SACK, timeouts are ns-2's. The delay that LEDBAT compares with its target is "
            "the least of the last four samples, none older than a round trip.",
        ],
    )


@experiment("rossi2010:fig2b", title="Two LEDBAT flows from the beginning")
def fig2b(setting: Setting) -> Steps:
    """Buffer of 40 packets; two LEDBAT flows, both from 0, 20 s.

    Published: Jain's index above 0.99, efficiency 0.7 % below that of figure 2a.
    """
    results = yield [
        *twice(lambda jitter: two_ledbat(0, 40, 20, jitter), setting, fig="2b"),
        *twice(beside_tcp, setting, fig="2a"),
    ]
    own, other = results.where(fig="2b"), results.where(fig="2a")
    run, drawn = own.one(starts="published"), own.where(starts="drawn")

    def below(ours: Run, theirs: Run) -> float:
        return 100 * (1 - utilisation(ours) / utilisation(theirs))

    pairs = zip(drawn, other.where(starts="drawn"), strict=True)
    return Outcome(
        claims=[
            judged("Jain's index", "> 0.99", fairness(run), drawn.interval(fairness), (0.99, 1)),
            judged(
                "Efficiency below figure 2a's",
                "0.7 %",
                below(run, other.one(starts="published")),
                Interval.of(below(ours.run(), theirs.run()) for ours, theirs in pairs),
                (-0.3, 1.7),
                "%",
            ),
        ],
        figures=[
            Figure(
                "fig2b",
                "Windows of two LEDBAT flows and their sum, and the queue; buffer of 40 packets.",
                lambda canvas: _windows(canvas, run, {"first": "LEDBAT 1", "second": "LEDBAT 2"}, 20, 40),
                (7.0, 5.2),
            )
        ],
        notes=[
            "Efficiency is the utilisation of the bottleneck; 0.7 % is read as relative to figure 2a's, and one "
            "percentage point is accepted either way.",
        ],
    )


@experiment("rossi2010:fig3", title="The second LEDBAT flow starts later")
def fig3(setting: Setting) -> Steps:
    """Two LEDBAT flows, the second later, in (2 s, 40 packets), (10 s, 40 packets), (10 s, 100 packets).

    Published: (2, 40): same base delay, the first keeps the larger window. (10, 40): the late-comer takes over, the
    first reaches the minimum window slightly after 20 s, a loss about 25 s drains the queue, afterwards close to fair.
    (10, 100): no loss, the first flow starves for good.
    """
    duration = 60
    results = yield [
        case
        for delay, buffer in FIG3
        for case in twice(
            lambda jitter, delay=delay, buffer=buffer: two_ledbat(delay, buffer, duration, jitter),
            setting,
            case=(delay, buffer),
        )
    ]
    runs = {case: results.one(case=case, starts="published") for case in FIG3}

    def drawn(case: tuple[int, int], metric: Callable[[Run], float]) -> Interval:
        return results.where(case=case, starts="drawn").interval(metric)

    def share(run: Run) -> float:
        return run.windows[0].group("first").share

    def losses(run: Run) -> float:
        return run.windows[0].link().dropped

    def best_late(run: Run) -> float:
        return float(history(run, "first").between(30, duration).cwnd.max())

    close, late, large = FIG3
    apart = history(runs[close], "first"), history(runs[close], "second")
    between = [abs(h.delay[h.time > 5].mean()) for h in apart]
    first, second = history(runs[late], "first"), history(runs[late], "second")
    late_share = second.cwnd_at(20) / (first.cwnd_at(20) + second.cwnd_at(20))
    fair = window_fairness(runs[late], 50)
    return Outcome(
        claims=[
            judged(
                "(2 s, 40): share of the first flow", "> 0.5", share(runs[close]), drawn(close, share), (0.55, 0.95)
            ),
            judged("(2 s, 40): losses", "0", losses(runs[close]), drawn(close, losses), (0, 0)),
            judged(
                "(2 s, 40): difference of the queuing delays that both see",
                "0 (same base delay)",
                abs(between[0] - between[1]),
                None,
                (0, 1),
                "ms",
            ),
            judged("(10 s, 40): late-comer's part of both windows at 20 s", "takes over", late_share, None, (0.8, 1)),
            judged(
                "(10 s, 40): first flow at its minimum",
                "slightly after 20 s",
                first.when(first.cwnd < 1.1, after=10),
                None,
                (20, 23),
                "s",
            ),
            judged("(10 s, 40): a loss", "about 25 s", second.halving(after=12), None, (23, 27), "s"),
            judged(
                "(10 s, 40): Jain's index of the windows at 50 s",
                "close to fair",
                fair,
                drawn(late, lambda run: window_fairness(run, 50)),
                (0.9, 1),
                why="rossi2010:repair: one packet is lost and repaired at once, which only halves the late-comer; from "
                "equal base delays on both grow alike and keep their distance. Repaired by a timeout they are fair.",
            ),
            judged("(10 s, 100): losses", "0", losses(runs[large]), drawn(large, losses), (0, 0)),
            judged(
                "(10 s, 100): best window of the first flow after 30 s",
                "1 packet (starves)",
                best_late(runs[large]),
                drawn(large, best_late),
                (1, 1.1),
                "packets",
            ),
        ],
        figures=[
            Figure(
                "fig3",
                "Windows and queue when the second LEDBAT flow starts 2 s or 10 s after the first; buffers of 40 and "
                "100 packets.",
                lambda canvas: _three(canvas, runs, duration),
                (10.0, 5.2),
            )
        ],
        tables=[
            Table(
                "fig3",
                f"Over {duration} s; starts drawn within 50 ms",
                ("second flow after, buffer", "share of the first", "utilisation", "dropped packets", "F at 50 s"),
                [
                    [
                        f"{case[0]} s, {case[1]} packets",
                        *(
                            drawn(case, metric)
                            for metric in (share, utilisation, losses, lambda run: window_fairness(run, 50))
                        ),
                    ]
                    for case in FIG3
                ],
            )
        ],
        notes=[f"The paper shows 50 s and more; {duration} s are simulated."],
    )


SLOW_STARTS = {"off": LEDBAT, "on": LEDBAT.replace("slow_start=none", "slow_start=standard")}


@experiment("rossi2010:slowstart", title="Two LEDBAT flows with TCP's slow start")
def slowstart(setting: Setting) -> Steps:
    """Two LEDBAT flows, the second U(0, 10) s later; 2 and 10 Mbit/s, buffers of 10 and 50 packets, 100 runs each.

    Fairness, efficiency and loss, with TCP's slow start and without. Published: open.
    """
    grid = [(rate, buffer) for rate in (2, 10) for buffer in (10, 50)]
    results = yield [
        Case(
            scenario(
                [flow("first", law), flow("second", law, 0, 10)],
                buffer,
                60,
                rate_mbps=rate,
                window=Window(name="both", from_="10 s", to="60 s"),
                series=False,
            ),
            seed,
            {"rate": rate, "buffer": buffer, "slow start": mode},
        )
        for rate, buffer in grid
        for mode, law in SLOW_STARTS.items()
        for seed in setting.seeds(quick=10, full=100)
    ]
    metrics = {
        "fairness F": fairness,
        "efficiency": utilisation,
        "loss (%)": lambda run: 100 * run.windows[0].link().loss,
    }
    found = {
        (rate, buffer, mode): {name: part.interval(metric) for name, metric in metrics.items()}
        for (rate, buffer, mode), part in results.groups("rate", "buffer", "slow start")
    }
    claims = [
        Claim.open(
            f"{rate} Mbit/s, {buffer} packets: {name} with slow start, and without",
            f"{found[rate, buffer, 'on'][name]}; {found[rate, buffer, 'off'][name]}",
        )
        for rate, buffer in grid
        for name in metrics
    ]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "slowstart",
                "Fairness, efficiency and loss of two LEDBAT flows from 10 to 60 s, with slow start and without.",
                lambda canvas: _bars(canvas, grid, list(metrics), found),
                (9.0, 3.6),
            )
        ],
        tables=[
            Table(
                "slowstart",
                "From 10 to 60 s",
                ("rate (Mbit/s)", "buffer (packets)", "slow start", *metrics),
                [[rate, buffer, mode, *values.values()] for (rate, buffer, mode), values in found.items()],
            )
        ],
        notes=[
            "The length of a run is not given: 60 s, as in figure 3. Metrics are of 10 to 60 s, when both flows have "
            "started. The window starts at one packet either way, and the first threshold is unlimited.",
        ],
    )


def _windows(canvas: Canvas, run: Run, flows: dict[str, str], end: float, buffer: int) -> None:
    """Windows of two flows and their sum above, the queue below."""
    top, bottom = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _cwnds(top, run, flows, end)
    frame(top, "", "window (packets)", (0, end), (0, 90))
    _queue(bottom, run, end, buffer)
    frame(bottom, "time (s)", "queue (packets)", (0, end), (0, 1.1 * buffer))
    canvas.tight_layout()


def _three(canvas: Canvas, runs: dict[tuple[int, int], Run], end: float) -> None:
    rows = canvas.subplots(2, len(runs), sharex=True, sharey="row", height_ratios=(3, 2))
    for column, ((delay, buffer), run) in enumerate(runs.items()):
        top, bottom = rows[0][column], rows[1][column]
        _cwnds(top, run, {"first": "first", "second": "second"}, end, total=False)
        left = column == 0
        frame(top, "", "window (packets)" if left else "", (0, end), (0, 150), left, f"{delay} s, {buffer} packets")
        _queue(bottom, run, end, buffer)
        frame(bottom, "time (s)", "queue (packets)" if left else "", (0, end), (0, 110), left)
    canvas.tight_layout()


def _cwnds(axes, run: Run, flows: dict[str, str], end: float, total: bool = True) -> None:
    looks = [look("newreno"), look("ledbat")] if "tcp" in flows else [look("ledbat"), {"color": PALETTE["purple"]}]
    histories = [history(run, name).between(0, end) for name in flows]
    if total:
        grid = np.arange(0, end, 0.02)
        steps = [h.cwnd[np.maximum(np.searchsorted(h.time, grid, side="right") - 1, 0)] for h in histories]
        axes.plot(grid, sum(steps), color=PALETTE["grey"], linewidth=1, label="sum")
    for (_, label), past, keywords in zip(flows.items(), histories, looks, strict=True):
        axes.plot(*thin(past.time, past.cwnd), linewidth=1.4, label=label, **keywords)


def _queue(axes, run: Run, end: float, buffer: int) -> None:
    time, length = queue_history(run)
    part = time <= end
    axes.plot(*thin(time[part], length[part]), color=PALETTE["grey"], linewidth=0.8)
    axes.axhline(TARGET_PKT, color=PALETTE["orange"], linewidth=1, linestyle="--", label="target")
    axes.axhline(buffer, color=PALETTE["red"], linewidth=1, linestyle=":", label="buffer")


def _bars(canvas: Canvas, grid: list[tuple[int, int]], metrics: list[str], found: dict) -> None:
    places = np.arange(len(grid))
    for axes, metric in zip(canvas.subplots(1, len(metrics)), metrics, strict=True):
        for shift, mode, colour in ((-0.2, "off", "orange"), (0.2, "on", "purple")):
            values = [found[rate, buffer, mode][metric] for rate, buffer in grid]
            halves = [0.0 if math.isinf(value.half) else value.half for value in values]
            axes.bar(
                places + shift,
                [value.mean for value in values],
                0.36,
                yerr=halves,
                capsize=2,
                color=PALETTE[colour],
                ecolor=PALETTE["grey"],
                label=f"slow start {mode}",
            )
        axes.set_xticks(places, [f"{rate} Mbit/s\n{buffer} pkt" for rate, buffer in grid], fontsize="small")
        frame(axes, "", metric, legend=metric == metrics[-1], ylim=None if "loss" in metric else (0, 1.05))
    canvas.tight_layout()


__all__ = ["beside_tcp", "fig2a", "fig2b", "fig3", "flow", "scenario", "slowstart", "two_ledbat"]
