"""The networks of all papers, on which laws are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leeway import Channel, Dumbbell, Event
from leeway.papers.common import bdp_packets
from leeway.papers.komnios2014.network import BACKHAULS, QUEUE_NAMES
from leeway.papers.kuhn2013 import table2
from leeway.satellite import cached_trace

MEAN_RATE_OF_TRACE = 2.3e6


@dataclass(frozen=True, slots=True)
class Network:
    """A network on which laws are judged.

    Attributes
    ----------
    name
        Short name, for axes.
    paper
        Paper of the network.
    rate_bps, rtt_s
        Rate and round-trip time of the bottleneck, without queue.
    bulk
        Number of bulk flows of the primary; the background has as many.
    duration_s
        Duration of a run; the first third does not count.
    start_s
        Bulk flows start at random within this time; a late-comer starts after twice this time.
    dumbbell
        Function that makes the links; a trace may have to be written first.
    quick
        Whether the network is in the quick size.
    profile, tcp
        Platform of all endpoints, and differences from it. The default is ns-2's with SACK.
    events
        Changes during a run.
    fair
        Whether the queue gives each flow its share, so that no sender can yield.
    background
        Number of bulk flows of the background; as many as of the primary if None.
    laws
        Names of the bulk primaries (of `measure.BULK`) beside which a law is judged; all of them
        if empty.
    primaries
        Other primaries (of `measure.PRIMARIES`) beside which a law is judged; all of them if
        empty.
    reacts
        Whether reactions are measured.
    own
        Numbers of flows (of `measure.OWN`) with which a law is judged alone; all of them if empty.
    """

    name: str
    paper: str
    rate_bps: float
    rtt_s: float
    bulk: int
    duration_s: int
    dumbbell: Callable[[], Dumbbell]
    quick: bool = False
    start_s: float = 10
    profile: str = "rfc"
    tcp: Mapping[str, Any] = field(default_factory=lambda: {"sack": True})
    events: Sequence[Event] = ()
    fair: bool = False
    background: int | None = None
    laws: tuple[str, ...] = ()
    primaries: tuple[str, ...] = ()
    reacts: bool = True
    own: tuple[str, ...] = ()


def plain(rate_bps: float, one_way_s: float, buffer: str, queue: str = "droptail") -> Callable[[], Dumbbell]:
    """One bottleneck, and an unlimited return path."""
    channel = Channel(rate=f"{rate_bps / 1e6:g} Mbit/s", delay=f"{one_way_s * 1e3:g} ms", buffer=buffer, queue=queue)
    return lambda: Dumbbell(bottleneck=channel)


def satellite() -> Dumbbell:
    """The land-mobile satellite of Kuhn 2013, table 2, with its link-layer retransmission."""
    return Dumbbell(bottleneck=table2.downlink(cached_trace(table2.CHANNEL)))


def of_rossi() -> list[Network]:
    """Rossi 2010: 10 Mbit/s, 50 ms, two buffers."""
    return [
        Network(f"rossi {buffer}", "rossi2010", 10e6, 0.05, 1, 90, plain(10e6, 0.025, f"{buffer} pkt"), buffer == 40)
        for buffer in (40, 100)
    ]


def of_kuhn() -> list[Network]:
    """Kuhn 2013: three satellites."""
    return [
        Network("kuhn t1", "kuhn2013", 10e6, 0.5, 1, 300, plain(10e6, 0.25, "unlimited")),
        Network("kuhn t2", "kuhn2013", MEAN_RATE_OF_TRACE, 0.572, 1, 300, satellite),
        Network("kuhn f2", "kuhn2013", 5e6, 0.5, 10, 240, plain(5e6, 0.25, "50 pkt"), True),
    ]


def of_komnios() -> list[Network]:
    """Komnios 2014: backhauls (a), (b), (c) under DropTail and RED, well inside the sub-packet
    regime."""
    return [
        Network(
            f"komnios {name} {QUEUE_NAMES[queue]}",
            "komnios2014",
            place.up * 1e3,
            place.rtt / 1e3,
            {"a": 8, "b": 24, "c": 24}[name],
            300,
            lambda place=place, queue=queue: place.dumbbell(queue),
            (name, queue) == ("b", "droptail"),
        )
        for name, place in BACKHAULS.items()
        for queue in QUEUE_NAMES
    ]


def of_trang() -> list[Network]:
    """Trang 2014: rates, delays and buffers of chapter 3, and the queue disciplines of figure
    5.4."""
    grid = [
        Network(
            f"trang {rate}M {owd}ms {share:g}",
            "trang2014",
            rate * 1e6,
            2 * owd / 1e3,
            1,
            {10: 90, 50: 150, 250: 300}[owd],
            plain(rate * 1e6, owd / 1e3, f"{max(2, round(share * bdp_packets(rate * 1e6, owd / 1e3)))} pkt"),
            (rate, owd) == (10, 50) and share <= 1,
        )
        for rate in (1, 10, 50)
        for owd in (10, 50, 250)
        for share in (0.5, 1, 2)
        if share * bdp_packets(rate * 1e6, owd / 1e3) >= 2
    ]
    queues = {
        "DropTail": "droptail",
        "RED": "red",
        "CoDel": "codel:variant=2012,target=5ms,interval=100ms",
        "PIE": "pie:variant=early",
    }
    managed = [
        Network(f"trang {name}", "trang2014", 10e6, 0.1, 5, 120, plain(10e6, 0.05, "250 pkt", queue), name == "CoDel")
        for name, queue in queues.items()
    ]
    return grid + managed


def literature(full: bool) -> list[Network]:
    """All of them, or those of the quick size."""
    return [one for one in (*of_rossi(), *of_kuhn(), *of_komnios(), *of_trang()) if full or one.quick]
