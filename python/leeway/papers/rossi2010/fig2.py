"""Figure 2: two flows from the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway import Run
from leeway.lab import Figure, Interval, Outcome, Setting, Table, experiment
from leeway.papers.common import history
from leeway.papers.rossi2010.drawing import windows
from leeway.papers.rossi2010.network import (
    ROUND_TRIP_S,
    TARGET_MS,
    beside_tcp,
    fairness,
    judged,
    ratio,
    twice,
    two_ledbat,
    utilisation,
)

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps


@experiment("rossi2010:fig2a", title="TCP and LEDBAT from the beginning")
def fig2a(setting: Setting) -> Steps:
    """Buffer of 40 packets; one TCP and one LEDBAT flow, both from 0, 20 s.

    Published: both ramp at one packet per round trip; LEDBAT flattens at the target soon after 2
    s; its window reaches one packet just before 6 s; slightly later TCP overflows the buffer and
    halves; in the second cycle LEDBAT hits the target about 7 s. Jain's index 0.65, TCP moves 6
    times LEDBAT's bytes, utilisation 16 % above TCP alone.
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
    growth = [(past.cwnd_at(1.5) - past.cwnd_at(0.5)) * ROUND_TRIP_S for past in (tcp, ledbat)]

    def gain(pair: Run, single: Run) -> float:
        return 100 * (utilisation(pair) / utilisation(single) - 1)

    lone = alone.one(starts="published")
    drawn_gain = Interval.of(
        gain(pair.run(), single.run()) for pair, single in zip(drawn, alone.where(starts="drawn"), strict=True)
    )
    return Outcome(
        claims=[
            judged("TCP's growth from 0.5 to 1.5 s", "1 packet/RTT", growth[0], None, (0.75, 1.1), "packets/RTT"),
            judged("LEDBAT's growth in that time", "1 packet/RTT", growth[1], None, (0.75, 1.1), "packets/RTT"),
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
                why="rossi2010:difference-tcp-alone: TCP alone fills so much of the link that nothing can be 16 % "
                "above it; what LEDBAT adds to TCP's bytes in the same run is about 16 %.",
            ),
        ],
        figures=[
            Figure(
                "fig2a",
                "Windows of TCP and LEDBAT and their sum, and the queue; buffer of 40 packets.",
                lambda canvas: windows(canvas, run, {"tcp": "TCP", "ledbat": "LEDBAT"}, 20, 40),
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
            "Losses are repaired without SACK, timeouts are ns-2's. LEDBAT compares each sample of the delay with its "
            "target, without a filter.",
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
                lambda canvas: windows(canvas, run, {"first": "LEDBAT 1", "second": "LEDBAT 2"}, 20, 40),
                (7.0, 5.2),
            )
        ],
        notes=[
            "Efficiency is the utilisation of the bottleneck; 0.7 % is read as relative to figure 2a's, and one "
            "percentage point is accepted either way.",
        ],
    )
