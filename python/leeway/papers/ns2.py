"""ns-2.35 (Fall and Varadhan 1989 to 2011), on which the papers of this package ran.

Where ns-2 differs from the RFCs, the profile `ns2` follows ns-2, and the profile `rfc` follows the
RFCs. Each experiment changes one choice only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leeway import Channel, Dumbbell, Event, Flow, Scenario, Series, Window
from leeway.lab import Case, Claim, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import history, queue_history
from leeway.papers.rossi2010 import network as rossi

if TYPE_CHECKING:
    from leeway import Run
    from leeway.lab.experiment import Steps

ON_THE_WIRE = 1500 / 1460
"""Packet over payload."""


def line(bottleneck: Channel, seconds: float, flow: Flow, **fields: Any) -> Scenario:
    """One group of flows over one link, with ns-2's endpoints."""
    return Scenario(
        duration=f"{seconds:g} s", profile="ns2", dumbbell=Dumbbell(bottleneck=bottleneck), flow=[flow], **fields
    )


def pair(results: Results, label: str, metric: Any) -> tuple[Interval, Interval]:
    """A metric with ns-2's choice, and without."""
    with_it, without = (results.where(**{label: way}).interval(metric) for way in (True, False))
    return with_it, without


def of_flows(run: Run) -> Any:
    """The only group."""
    return run.window().groups[0]


def twice(run: Run) -> float:
    """Part of the payload that the receiver had already, %."""
    group = of_flows(run)
    return 100 * (1 - group.goodput_bps / (group.throughput_bps / ON_THE_WIRE))


@experiment("ns2:difference-limited-transmit", title="Limited transmit after a timeout", kind="difference")
def limited_transmit(setting: Setting) -> Steps:
    """48 NewReno flows, 600 kbit/s, 225 ms each way, 22 packets: windows of about one packet, and
    many timeouts.

    With `singledup_` 1 ns-2 answers the first two duplicate ACKs after a timeout with a segment
    each that was sent before, although the receiver may have it. ns-2.35 itself, over 300 s: with
    `singledup_` 1 10 % are received twice and 0.19 are lost, with 0 it is 1.6 % and 0.21.
    """
    results = yield [
        Case(
            line(
                Channel(rate="600 kbit/s", delay="225 ms", buffer="22 pkt"),
                300,
                Flow(name="a", count=48, start={"uniform": ["0 s", "30 s"]}, tcp={"limited_retransmit": again}),
            ),
            seed,
            {"again": again},
        )
        for again in (True, False)
        for seed in setting.seeds(quick=2, full=20)
    ]
    needless, without = pair(results, "again", twice)
    lost, lost_without = pair(results, "again", lambda run: of_flows(run).loss)
    return Outcome(
        claims=[
            Claim.number("Received twice with it", "10 %", needless, (5, 20), "%"),
            Claim.number("Received twice without", "1.6 %", without, (0.8, 3.2), "%"),
            Claim.fact(
                "Fewer packets are lost with it",
                "0.19 and 0.21",
                f"{lost.text()} and {lost_without.text()}",
                lost.mean < lost_without.mean,
            ),
        ]
    )


@experiment("ns2:difference-backoff", title="How long a doubled timeout lasts", kind="difference")
def backoff(setting: Setting) -> Steps:
    """A flow that loses half of its packets for 40 s.

    ns-2 keeps a doubled timeout until a segment is acknowledged that was sent once (Karn's
    algorithm). RFC 6298 with timestamps, and Linux, go back to the estimate with every
    acknowledgement of new data.
    """
    results = yield [
        Case(
            line(
                Channel(rate="10 Mbit/s", delay="50 ms", buffer="1000 pkt"),
                42,
                Flow(name="a", tcp={"backoff_until": "fresh" if karn else "progress"}),
                event=[Event(at="2 s", loss="random:p=50%")],
            ),
            seed,
            {"karn": karn},
        )
        for karn in (True, False)
        for seed in setting.seeds(quick=4, full=20)
    ]
    karn, progress = pair(results, "karn", lambda run: float(of_flows(run).timeouts))
    return Outcome(
        claims=[
            Claim.fact(
                "Timeouts in 40 s: fewer with Karn's algorithm, as each is waited for longer",
                "",
                f"{karn.text()} and {progress.text()}",
                karn.mean < 0.7 * progress.mean,
                accept="below 0.7 of those without",
            )
        ]
    )


@experiment("ns2:difference-droptail", title="What a limit of L packets lets wait", kind="difference")
def droptail(_: Setting) -> Steps:
    """DropTail of ns-2 counts the packet that is being sent, so L - 1 wait; elsewhere L wait
    beside it."""
    queues = {"ns2": "droptail", "all of it": "droptail:limit=10pkt"}
    results = yield [
        Case(
            line(
                Channel(rate="1 Mbit/s", delay="20 ms", buffer="10 pkt", queue=queue),
                30,
                Flow(name="a"),
                series=Series(every="event"),
            ),
            1,
            {"queue": name},
        )
        for name, queue in queues.items()
    ]
    most = {name: int(queue_history(results.one(queue=name))[1].max()) for name in queues}
    return Outcome(
        claims=[
            Claim.fact(f"Packets that wait at most, {name}", str(expected), str(most[name]), most[name] == expected)
            for name, expected in (("ns2", 9), ("all of it", 10))
        ]
    )


PATHS = {
    "small": Channel(rate="2 Mbit/s", delay="25 ms", buffer="10 pkt"),
    "long": Channel(rate="20 Mbit/s", delay="250 ms", buffer="200 pkt"),
}
"""A path on which Reno's rate rules in CUBIC, and one on which the cubic does."""


@experiment("ns2:difference-cubic", title="Packets per ACK in the CUBIC of 2010", kind="difference")
def cubic(setting: Setting) -> Steps:
    """A CUBIC of 2010 alone, on a small and on a long path, for 350 s.

    Linux 2.6.22, which ns-2 runs, divides by a running mean of packets per ACK that rests at 31/16
    where each packet has an ACK. The window then follows its target almost twice as fast. The
    target is the same, so that little changes: the estimate is no reason for ns-2's CUBIC to lose
    less on small paths.
    """
    results = yield [
        Case(
            line(
                bottleneck,
                350,
                Flow(
                    name="a",
                    law=f"cubic:flavour=2010,ack_ratio={'estimate' if estimate else 'exact'}",
                    start={"uniform": ["0 s", "1 s"]},
                    tcp={"sack": True},
                ),
                window=[Window(name="w", from_="50 s", to="350 s")],
            ),
            seed,
            {"estimate": estimate, "path": path},
        )
        for estimate in (True, False)
        for path, bottleneck in PATHS.items()
        for seed in setting.seeds(quick=2, full=20)
    ]
    drops = {
        path: pair(results.where(path=path), "estimate", lambda run: float(of_flows(run).dropped)) for path in PATHS
    }
    more = {path: 100 * (a.mean / b.mean - 1) for path, (a, b) in drops.items()}
    return Outcome(
        claims=[
            Claim.fact(
                f"Drops with the estimate, on a {path} path",
                "",
                f"{more[path]:+.1f} % of those by bytes",
                low <= more[path] <= high,
                accept=f"{low:+} to {high:+} %",
            )
            for path, (low, high) in {"small": (-3, 3), "long": (2, 10)}.items()
        ],
        tables=[
            Table(
                "cubic",
                "Drops of one CUBIC of 2010 in 300 s",
                ("path", "estimate", "by bytes"),
                [[path, *values] for path, values in drops.items()],
            )
        ],
    )


@experiment("ns2:difference-ledbat-window", title="LEDBAT's window of whole packets", kind="difference")
def ledbat_window(_: Setting) -> Steps:
    """Figure 2a of Rossi 2010: LEDBAT beside NewReno, published at one packet just before 6 s.

    The module of ns-2 moves its window by whole packets, with a credit; the first ACK that makes
    the credit negative takes a packet at once.
    """
    laws = {"whole": rossi.LEDBAT, "continuous": rossi.LEDBAT.replace(",window=whole", "")}
    results = yield [
        Case(
            rossi.scenario([rossi.flow("tcp", rossi.TCP), rossi.flow("ledbat", law)], 40, 20, series=True),
            1,
            {"window": window},
        )
        for window, law in laws.items()
    ]

    def at_one_packet(run: Run) -> float:
        ledbat = history(run, "ledbat")
        return ledbat.when(ledbat.cwnd < 2, after=3)

    at = {window: at_one_packet(results.one(window=window)) for window in laws}
    return Outcome(
        claims=[
            Claim.fact(
                "At one packet after (s), whole packets",
                "just before 6",
                f"{at['whole']:.2f}",
                5 <= at["whole"] <= 7,
                accept="5 to 7 s",
            ),
            Claim.fact(
                "At one packet after (s), a continuous window: later",
                "",
                f"{at['continuous']:.2f}",
                at["continuous"] > at["whole"] + 1,
                accept="more than a second later",
            ),
        ]
    )


@experiment("ns2:difference-phase", title="Flows that all start at 0", kind="difference")
def phase(_: Setting) -> Steps:
    """250 and 250 NewReno flows on one link, 10 Mbit/s, 25 ms each way, 40 packets, for 60 s.

    Packets of equal size with equal round trips arrive at a full queue in the same order in each
    round trip (Floyd and Jacobson 1992), so who comes second gets nothing. A processing delay of
    up to 1 ms before a host sends (ns-2's `overhead_`), or starts over a second, are enough.
    """
    ways: dict[str, dict[str, Any]] = {
        "at 0": {"start": "0 s"},
        "at 0, 1 ms of processing delay": {"start": "0 s", "tcp": {"overhead": "1 ms"}},
        "over 1 s": {},
    }
    results = yield [
        Case(
            Scenario(
                duration="60 s",
                profile="ns2",
                dumbbell=Dumbbell(bottleneck=Channel(rate="10 Mbit/s", delay="25 ms", buffer="40 pkt")),
                flow=[Flow(name=name, count=250, **fields) for name in ("a", "b")],
            ),
            1,
            {"way": way},
        )
        for way, fields in ways.items()
    ]
    share = {way: results.one(way=way).window().group("b").share or 0.0 for way in ways}
    return Outcome(
        claims=[
            Claim.fact(
                f"The second group's share, starts {way}",
                "",
                f"{share[way]:.3f}",
                share[way] < 0.05 if way == "at 0" else 0.4 < share[way] < 0.6,
                accept="below 0.05" if way == "at 0" else "0.4 to 0.6",
            )
            for way in ways
        ]
    )
