"""Results of a run: summaries as dataclasses, series as Arrow tables.

Units are in the names: ``_bps`` bits per second, ``_s`` seconds, ``_ms`` milliseconds, ``_pkt``
packets of one full segment. A value that does not exist (a percentile without samples, Jain's
index of one flow) is None, not zero.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from leeway import encoding, units
from leeway.shown import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Named = TypeVar("Named", bound="WindowSummary | GroupSummary | LinkSummary | Harm")


@dataclass(frozen=True, slots=True, repr=False)
class Percentiles(Shown):
    """A distribution of times. It comes from a histogram whose buckets are less than 1 % wide; the
    mean is exact.

    Attributes
    ----------
    count
        Number of samples.
    mean_s
        Arithmetic mean, seconds.
    p50_s, p95_s, p99_s
        Percentiles, seconds.
    max_s
        Largest sample, seconds.
    """

    count: int
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True, repr=False)
class LinkSummary(Shown):
    """One direction of a link with a queue.

    Attributes
    ----------
    name
        Name of the link and direction.
    capacity_bps
        Capacity, bits per second; the mean over the window where the rate varies.
    utilisation
        Bits of all packets that left the link, headers included, over capacity x time: 0 to 1.
    loss
        Packets dropped over packets offered: 0 to 1.
    dropped
        Packets dropped at the queue or lost on the link.
    marked
        Packets marked congestion-experienced.
    queue_fill
        Mean time in the queue over the delay of a full buffer; None without a limit, and where the
        rate changes.
    queue_mean_pkt
        Packets in the queue, the mean over time.
    delay
        Times in the queue, without the transmission.
    """

    name: str
    capacity_bps: float
    utilisation: float
    loss: float
    dropped: int
    marked: int
    queue_fill: float | None
    queue_mean_pkt: float
    delay: Percentiles | None


@dataclass(frozen=True, slots=True, repr=False)
class PeerSummary(Shown):
    """The peers of one group of a swarm.

    Attributes
    ----------
    unfinished
        Peers that had arrived by the end of the window, and did not have the file then.
    uploaded_bytes, downloaded_bytes
        Bytes of blocks sent and received.
    wasted_bytes
        Bytes received again, although the peer had them already.
    share_ratio_mean, share_ratio_min, share_ratio_max
        Bytes sent over bytes received, over the peers that received any; None for seeds.
    served_share
        Part of the time in which these peers wanted data from a neighbour and were served.
    fairness
        Jain's index over the rates at which those that completed in the window fetched the file.
    """

    unfinished: int
    uploaded_bytes: int
    downloaded_bytes: int
    wasted_bytes: int
    share_ratio_mean: float | None
    share_ratio_min: float | None
    share_ratio_max: float | None
    served_share: float | None
    fairness: float | None


@dataclass(frozen=True, slots=True, repr=False)
class GroupSummary(Shown):
    """One group of flows.

    Attributes
    ----------
    name
        Name in the scenario.
    role
        "primary" or "background".
    law
        Control law with its parameters; None for datagrams.
    flows
        Number of flows; of peers, where they are a swarm.
    throughput_bps
        Bits per second that reached receivers, headers and repeated packets included.
    goodput_bps
        Bits per second of the application that reached receivers, each byte once.
    share
        Throughput over the throughput of all groups: 0 to 1.
    capacity_share
        Throughput over the capacity of the first link with a queue on the path.
    jain
        Jain's index over the throughput of its flows: 1/n to 1; None with fewer than two.
    slowest_bps
        Throughput of the slowest of its flows; None with fewer than two.
    sent, retransmitted, dropped
        Data packets; `sent` includes retransmissions.
    loss
        Dropped over sent: 0 to 1.
    timeouts
        Retransmission timeouts.
    completed
        Number of transfers or responses that were completed.
    completion
        Completion times of these.
    rtt
        Round-trip times as the senders measured them.
    owd
        True one-way delays of data packets.
    cwnd_mean_pkt
        Window in packets, the mean over flows and time.
    mos
        Voice only: mean opinion score, 1 to 4.5.
    swarm
        Peers of a swarm only: what they did.
    """

    name: str
    role: str
    law: str | None
    flows: int
    throughput_bps: float
    goodput_bps: float
    share: float | None
    capacity_share: float | None
    jain: float | None
    slowest_bps: float | None
    sent: int
    retransmitted: int
    dropped: int
    loss: float
    timeouts: int
    completed: int
    completion: Percentiles | None
    rtt: Percentiles | None
    owd: Percentiles | None
    cwnd_mean_pkt: float | None
    mos: float | None
    swarm: PeerSummary | None


@dataclass(frozen=True, slots=True, repr=False)
class Harm(Shown):
    """Harm that the background does to one primary group, as Ware et al. 2019 define it: 0 is no
    harm, 1 is total.

    Attributes
    ----------
    name
        Name of the primary group.
    throughput
        (alone - beside) / alone.
    delay
        (beside - alone) / beside, of the 95th percentile of the one-way delay.
    completion
        (beside - alone) / beside, of the mean completion time.
    """

    name: str
    throughput: float | None
    delay: float | None
    completion: float | None

    def _unit_name(self, field: str) -> str:
        return f"harm_{field}"


@dataclass(frozen=True, slots=True, repr=False)
class HarmSummary(Shown):
    """Comparison with the same run without the background.

    Attributes
    ----------
    groups
        One entry for each primary group.
    spare_use
        Throughput of the background over the capacity of the first link that the primaries leave
        when they are alone; None where that is less than 1 %.
    """

    groups: list[Harm]
    spare_use: float | None

    def group(self, name: str | None = None) -> Harm:
        """The primary group of that name; the first without a name."""
        return _named(self.groups, name, "primary group")


@dataclass(frozen=True, slots=True, repr=False)
class WindowSummary(Shown):
    """Metrics of a span of the run.

    Attributes
    ----------
    name
        Name in the scenario, or "run".
    from_s, to_s
        Start and end, seconds.
    links
        One entry for each direction of a link with a queue, in the scenario's order.
    groups
        One entry for each group of flows, in the scenario's order.
    jain
        Jain's index over the throughput of all flows; None with fewer than two.
    harm
        Harm compared with a baseline, where the scenario asks for one.
    """

    name: str
    from_s: float
    to_s: float
    links: list[LinkSummary]
    groups: list[GroupSummary]
    jain: float | None
    harm: HarmSummary | None

    def group(self, name: str | None = None) -> GroupSummary:
        """The group of that name; the first without a name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return _named(self.groups, name, "group")

    def link(self, name: str | None = None) -> LinkSummary:
        """The link direction of that name; the first without a name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return _named(self.links, name, "link")

    def __repr__(self) -> str:
        return f"<WindowSummary {self._line()}>"

    def _line(self) -> str:
        """The window with the throughput of each group and the use of each link."""
        links = [f"{link.name} {units.text('utilisation', link.utilisation)} used" for link in self.links]
        groups = [f"{group.name} {units.text('throughput_bps', group.throughput_bps)}" for group in self.groups]
        return f"{self.name}, {self.from_s:g} to {self.to_s:g} s: {', '.join(groups + links)}"

    def _repr_html_(self) -> str:
        from leeway._html import groups

        return groups([self])


@dataclass(frozen=True, slots=True, repr=False)
class Work(Shown):
    """Amount of work of a run; the same for the same scenario and seed.

    Attributes
    ----------
    events
        Events of the simulation.
    delivered_packets
        Data packets that reached their receiver.
    offered_packets
        Packets of any kind offered to a link with a queue.
    """

    events: int
    delivered_packets: int
    offered_packets: int


@dataclass(frozen=True, repr=False)
class Run:
    """One run of a scenario with one seed.

    Attributes
    ----------
    seed
        Seed of this run.
    windows
        Metrics over each window of the scenario; over the whole run, called "run", if it has none.
    work
        Amount of work.
    flows
        Samples of flows (a `pyarrow.Table`, without rows if the scenario has no series): time_s,
        flow, cwnd_pkt, ssthresh_pkt (infinite where not set), inflight_pkt, queuing_delay_ms (the
        law's estimate), srtt_ms, phase, rate_bps (delivered since the last sample).
    links
        Samples of links: time_s, link, queue_pkt, queue_bytes, rate_bps (departed since the last
        sample), dropped (since the last sample).
    """

    seed: int
    windows: list[WindowSummary]
    work: Work
    _flows: Any = field(compare=False)
    _links: Any = field(compare=False)

    @functools.cached_property
    def flows(self) -> pa.Table:
        """Samples of flows."""
        return pa.table(self._flows)

    @functools.cached_property
    def links(self) -> pa.Table:
        """Samples of links."""
        return pa.table(self._links)

    def window(self, name: str | None = None) -> WindowSummary:
        """The window of that name; the first without a name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return _named(self.windows, name, "window")

    def plot(self, panels: Sequence[str] = ("rate", "window", "queue"), **options: Any) -> Figure:
        """Draws the series over time with matplotlib, a panel for each quantity.

        Parameters
        ----------
        panels
            Any of "rate", "window", "delay" (queuing delay as the law sees it), "rtt" (smoothed)
            and "queue".
        **options
            ``groups`` (those to draw), ``dark`` (ground) and ``size`` (inches), as
            `leeway.plotting.run` has them.

        Raises
        ------
        ImportError
            If matplotlib is not installed, which the extra ``lab`` brings.
        ValueError
            If the run has no series, or there is no such panel or group.
        """
        from leeway import plotting

        return plotting.run(self, panels, **options)

    def __repr__(self) -> str:
        return f"<Run seed {self.seed}; {'; '.join(window._line() for window in self.windows)}>"

    def to_dict(self) -> dict[str, Any]:
        """The summary as the program writes it to JSON."""
        return {
            "seed": self.seed,
            "windows": [dataclasses.asdict(window) for window in self.windows],
            "work": dataclasses.asdict(self.work),
        }

    def encode(self) -> bytes:
        """Summary and series as bytes: for a cache, or to send."""
        summary = json.dumps(self.to_dict(), separators=(",", ":")).encode()
        return encoding.pack(summary, self.flows, self.links)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The run of these bytes, which `encode` made.

        Raises
        ------
        ValueError
            If they are not the bytes of a run, are incomplete or damaged, or are of another
            version of the format.
        """
        summary, flows, links = encoding.unpack(data)
        return cls.from_summary(json.loads(summary), flows, links)

    @classmethod
    def from_summary(cls, summary: dict[str, Any], flows: Any = None, links: Any = None) -> Self:
        """The run with this summary, as `to_dict` gives it, and these series: anything that Arrow
        reads."""
        windows = [_make(WindowSummary, window) for window in summary["windows"]]
        flows = _NO_FLOWS if flows is None else flows
        links = _NO_LINKS if links is None else links
        return cls(summary["seed"], windows, _make(Work, summary["work"]), flows, links)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).decode, (self.encode(),)

    def _repr_html_(self) -> str:
        from leeway._html import run

        return run(self)


_NAMES = pa.dictionary(pa.int32(), pa.string())
FLOWS = pa.schema(
    [
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("flow", _NAMES, nullable=False),
        *(
            pa.field(name, pa.float64(), nullable=False)
            for name in ("cwnd_pkt", "ssthresh_pkt", "inflight_pkt", "queuing_delay_ms", "srtt_ms")
        ),
        pa.field("phase", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("rate_bps", pa.float64(), nullable=False),
    ]
)
"""Columns of `Run.flows`."""

LINKS = pa.schema(
    [
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("link", _NAMES, nullable=False),
        pa.field("queue_pkt", pa.uint32(), nullable=False),
        pa.field("queue_bytes", pa.uint64(), nullable=False),
        pa.field("rate_bps", pa.float64(), nullable=False),
        pa.field("dropped", pa.uint64(), nullable=False),
    ]
)
"""Columns of `Run.links`."""

_NO_FLOWS, _NO_LINKS = FLOWS.empty_table(), LINKS.empty_table()


def _named(entries: Sequence[Named], name: str | None, what: str) -> Named:
    for entry in entries:
        if name is None or entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in entries) or "none"
    raise KeyError(f"there is no {what} {name!r}; there are: {known}")


@functools.cache
def shapes(cls: type) -> dict[str, tuple[type | None, bool]]:
    """Of a class of summaries, by field: the dataclass that it holds, if any, and whether it holds
    a list of them."""
    shapes: dict[str, tuple[type | None, bool]] = {}
    for name, hint in typing.get_type_hints(cls).items():
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        inner = typing.get_args(hint) if typing.get_origin(hint) is list else options
        found = next((option for option in inner if dataclasses.is_dataclass(option)), None)
        shapes[name] = (found, typing.get_origin(hint) is list)
    return shapes


def _make(cls: type[Any], data: dict[str, Any]) -> Any:
    values = {}
    for name, (inner, is_list) in shapes(cls).items():
        value = data[name]
        if inner is not None and value is not None:
            value = [_make(inner, entry) for entry in value] if is_list else _make(inner, value)
        values[name] = value
    return cls(**values)
