"""Scenarios: what to simulate, as data.

The classes have the fields of the TOML files. Quantities are text with a unit ("10 Mbit/s", "40
pkt"). A field whose name is a keyword of Python ends in an underscore: ``from_``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from leeway import _core
from leeway.errors import ScenarioError
from leeway.parts import Part, StructureError, make, plain

_NOT_GIVEN: Any = object()
_DEFAULT = "\0default"
"""Stands for "the field's default" where only text can: no field can hold it."""

Quantity = str
"""Text with a unit: "50 ms", "10 Mbit/s", "1500 B", "84 pkt", "1.5 BDP"."""

Drawn = str | dict[str, Any]
"""A quantity, or the distribution it is drawn from: ``{"uniform": ["0 s", "30 s"]}``,
``{"exponential": "20 ms"}``, ``{"pareto": {"mean": "50 kB", "shape": 1.2}}``."""


@dataclass(kw_only=True, repr=False)
class Channel(Part):
    """One direction of a link. It has at most one of `rate`, `rates` and `trace`; without one it
    has no queue.

    Attributes
    ----------
    rate
        Constant rate: "10 Mbit/s".
    rates
        Rate that changes: ``[{"at": "0 s", "rate": "5 Mbit/s"}, ...]``; the first entry is at 0.
    trace
        File of delivery opportunities in mahimahi's format (a millisecond for each 1500 bytes); it
        repeats.
    delay
        Propagation delay.
    jitter
        Delay that varies from packet to packet: "uniform:range=5ms",
        "normal:deviation=2ms,reorder=true".
    buffer
        Most that the queue holds: "40 pkt", "150 kB", "1.5 BDP" or "unlimited". A BDP is the rate
        times twice this channel's delay, rounded up to packets.
    queue
        Queue discipline with its parameters: "droptail", "codel:target=5ms"; see `leeway.queues`.
    loss
        Loss after the queue: "random:p=1%", "gilbert_elliott:p=1%,r=30%".
    arq
        Retransmission by the link, which turns loss into delay: "tries=4,delay=20ms".
    """

    rate: Quantity | None = None
    rates: list[dict[str, Quantity]] = field(default_factory=list)
    trace: str | os.PathLike[str] | None = None
    delay: Quantity = "0 s"
    jitter: str | None = None
    buffer: Quantity = "1 BDP"
    queue: str = "droptail"
    loss: str | None = None
    arq: str | None = None


@dataclass(kw_only=True, repr=False)
class Dumbbell(Part):
    """Senders at ``left``, receivers at ``right``, one link ``bottleneck`` between them.

    Attributes
    ----------
    bottleneck
        Direction of the data.
    reverse
        Direction of the ACKs; the same delay and no limit of rate if None.
    """

    bottleneck: Channel
    reverse: Channel | None = None


@dataclass(kw_only=True, repr=False)
class Link(Part):
    """A link between two nodes. A node exists if a link names it.

    Attributes
    ----------
    name
        Name in tables, events and routes; unique.
    count
        Number of like links, each with a node of its own at `from_`: the homes of a street. Flow i
        of a group (from 0) takes link i modulo `count`; the report shows them together.
    from_, to
        The two nodes.
    forward
        Direction from `from_` to `to`.
    reverse
        Direction from `to` to `from_`; the same delay and no limit of rate if None.
    """

    name: str
    count: int = 1
    from_: str
    to: str
    forward: Channel
    reverse: Channel | None = None


@dataclass(kw_only=True, repr=False)
class Flow(Part):
    """A group of flows with the same settings.

    Attributes
    ----------
    name
        Name in tables and paths; unique.
    count
        Number of flows.
    role
        "primary": flows to protect; "background": flows that should yield.
    law
        Control law with its parameters: "newreno", "ledbat:target=25ms"; see `leeway.laws`.
    gateway
        Gateway that limits this background group; none if None.
    flows_per_user
        Number of flows of each user of the gateway; users have equal shares.
    from_, to
        Nodes of the senders and of the receivers; ``left`` and ``right`` in a dumbbell.
    via
        Links to take, in order; the shortest route if empty.
    start
        When each flow starts; may be drawn. If None, a single flow starts at 0. Several flows
        without `stagger` and `intervals` start at random within the first second, or the first
        tenth of the run.
    stagger
        Delay between the starts of two flows: the flow of index i (from 0) starts i times this
        later.
    stop
        When flows stop sending; the end of the run if None.
    intervals
        Times in which a bulk flow has data: ``[["0 s", "30 s"], ...]``; always if empty.
    app
        The application: ``{"kind": "bulk"}``, "transfer", "on_off", "poisson", "request", "voice"
        or "peer", with its fields.
    packet
        Size of a full packet on the wire, headers included.
    header
        Size of the headers of each packet, and of an ACK.
    class_
        Traffic class of all its packets, 0 (the most important) to 63, for the queues "priority",
        "borrowing" and "drr:by=class".
    access_delay
        One-way delay of the flow's own access, in both directions; may be drawn, once per flow.
    access_rate
        Rate of the flow's own access, before the first link; no limit if None.
    sender_clock, receiver_clock
        ``{"offset": "-3 s", "skew_ppm": 50.0}``; true clocks if empty.
    tcp
        Choices of TCP that differ from the profile: ``{"sack": True, "initial_window": 1}``.
    """

    name: str
    count: int = 1
    role: str = "primary"
    law: str = "newreno"
    gateway: str | None = None
    flows_per_user: int = 1
    from_: str | None = None
    to: str | None = None
    via: list[str] = field(default_factory=list)
    start: Drawn | None = None
    stagger: Quantity = "0 s"
    stop: Quantity | None = None
    intervals: list[list[Quantity]] = field(default_factory=list)
    app: dict[str, Any] = field(default_factory=lambda: {"kind": "bulk"})
    packet: Quantity = "1500 B"
    header: Quantity = "40 B"
    class_: int = 0
    access_delay: Drawn | None = None
    access_rate: Quantity | None = None
    sender_clock: dict[str, Any] = field(default_factory=dict)
    receiver_clock: dict[str, Any] = field(default_factory=dict)
    tcp: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, repr=False)
class Gateway(Part):
    """A gateway, which gives the background the spare capacity of somebody's line. Background
    groups name it.

    Attributes
    ----------
    name
        Name that flow groups use; unique.
    node
        Node of the gateway: the home's end of the line.
    law, uplink
        Laws of the traffic to the node and from the node; the defaults of the sharing if None.
    relay
        Node of a relay, which sends the downloads under the law; if None receive windows hold the
        downloads.
    read_delay
        The gateway sees packets up to this long after they came, as a program on sockets does; if
        None at once.
    sees_packets
        False for a gateway without the right to see packets, those of the home included; True if
        None.
    policy
        Constants that differ from their defaults, by name: ``{"min_share_permille": 50}``.
    """

    name: str
    node: str
    law: str | None = None
    uplink: str | None = None
    relay: str | None = None
    read_delay: Quantity | None = None
    sees_packets: bool | None = None
    policy: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True, repr=False)
class Swarm(Part):
    """The file that peers share. The peers are the flows of the groups whose application is
    "peer".

    Attributes
    ----------
    pieces
        Pieces of the file.
    piece
        Size of a piece, a whole number of blocks.
    block
        Size of what one request asks for.
    neighbours
        Connections that a peer opens when it arrives; it accepts others up to twice as many.
    requests
        Requests that a peer has outstanding with each neighbour that serves it.
    """

    pieces: int
    piece: Quantity = "262144 B"
    block: Quantity = "16384 B"
    neighbours: int = 20
    requests: int = 5


@dataclass(kw_only=True, repr=False)
class Event(Part):
    """A change of a link during the run: at least one of `rate`, `delay` and `loss`.

    Attributes
    ----------
    at
        Time of the change.
    link
        Name of the link.
    direction
        "forward" or "reverse".
    rate
        New rate; only for a channel with a constant rate.
    delay
        New propagation delay.
    loss
        New loss; "random:p=0" for none.
    """

    at: Quantity
    link: str = "bottleneck"
    direction: str = "forward"
    rate: Quantity | None = None
    delay: Quantity | None = None
    loss: str | None = None


@dataclass(kw_only=True, repr=False)
class Window(Part):
    """A span that metrics are computed over.

    Attributes
    ----------
    name
        Name in the tables; unique.
    from_, to
        Where it begins and ends.
    """

    name: str
    from_: Quantity = "0 s"
    to: Quantity


@dataclass(kw_only=True, repr=False)
class Series(Part):
    """Recording of windows, queues and rates over time.

    Attributes
    ----------
    every
        Time between samples, or "event" for each ACK and each packet.
    """

    every: Quantity


@dataclass(kw_only=True, repr=False)
class Scenario(Part):
    """What to simulate.

    Attributes
    ----------
    title, description
        Texts for tables and reports.
    duration
        How long to simulate.
    seed
        Seed of the first run.
    repetitions
        Number of runs, with the seeds `seed`, `seed` + 1, ...; `leeway.run` runs one.
    profile
        Set of TCP choices: "linux", "ns2" or "rfc".
    baseline
        Whether to run again without the background flows, and to report harm and use of spare
        capacity.
    dumbbell
        Topology with one link.
    link
        Links of any other topology.
    gateway
        Gateways, which give the background the spare capacity of somebody's line.
    swarm
        The file that peers share, where there are any.
    flow
        Groups of flows.
    event
        Changes of links during the run.
    window
        Spans that metrics are computed over; the whole run if empty.
    series
        Recording of windows, queues and rates over time; none if None.
    sweep
        Values to try, by path; `leeway.run` ignores them.

    Examples
    --------
    >>> scenario = Scenario(
    ...     duration="5 s",
    ...     dumbbell=Dumbbell(bottleneck=Channel(rate="10 Mbit/s", delay="25 ms", buffer="40 pkt")),
    ...     flow=[Flow(name="download", law="cubic"), Flow(name="backup", law="ledbat", role="background")],
    ... )
    >>> scenario.check()
    >>> scenario.set("flow.backup.law", "flower").flow[1].law
    'flower'
    """

    title: str = ""
    description: str = ""
    duration: Quantity
    seed: int = 1
    repetitions: int = 1
    profile: str = "linux"
    baseline: bool = False
    dumbbell: Dumbbell | None = None
    link: list[Link] = field(default_factory=list)
    gateway: list[Gateway] = field(default_factory=list)
    swarm: Swarm | None = None
    flow: list[Flow] = field(default_factory=list)
    event: list[Event] = field(default_factory=list)
    window: list[Window] = field(default_factory=list)
    series: Series | None = None
    sweep: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The scenario with these fields, which are those of the TOML.

        Raises
        ------
        ScenarioError
            If there is no such field, one is missing, or one is of another kind.
        """
        try:
            return make(cls, fields)
        except StructureError as wrong:
            # The error of the reader of TOML is better: it names the line.
            _core.check(fields)
            raise ScenarioError(str(wrong), "field", message=str(wrong)) from None

    @classmethod
    def from_toml(cls, text: str, name: str | os.PathLike[str] = "scenario") -> Self:
        """The scenario that a TOML text describes; traces are relative to the folder of `name`.

        Raises
        ------
        ScenarioError
            If the text is not a scenario, or not one that can be run.
        """
        return cls._located(_core.read(os.fspath(name), text), Path(name).parent)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The scenario of a file. Traces are relative to the file's folder, and absolute in the
        result.

        Raises
        ------
        ScenarioError
            If the file cannot be read, is not a scenario, or not one that can be run.
        """
        return cls._located(_core.read(os.fspath(path)), Path(path).parent.absolute())

    @classmethod
    def _located(cls, fields: dict[str, Any], folder: Path) -> Self:
        scenario = cls.from_dict(fields)
        for channel in scenario.channels():
            if channel.trace is not None:
                channel.trace = str(folder / channel.trace)
        return scenario

    def to_toml(self) -> str:
        """The scenario as TOML, without what is left at its default."""
        return _core.write(self.to_dict())

    def check(self) -> None:
        """Raises an error if the scenario cannot be run.

        Raises
        ------
        ScenarioError
            If the scenario cannot be run: what is wrong, where in ``to_toml()``, and what would be
            right.
        """
        _core.check(self.to_dict())

    def set(self, path: str | Mapping[str, Any], value: Any = _NOT_GIVEN) -> Self:
        """A copy with the field at `path` changed, checked at once; this scenario stays as it is.

        Fields that only make sense together are changed together: ``set({path: value, ...})``
        checks after the last one. A scenario that cannot be run yet, because it has no flows for
        instance, may be set field by field. Only what no further step can mend is refused then: a
        field that does not exist, or a value that the field cannot hold.

        Parameters
        ----------
        path
            Names joined by dots, entries of lists by name or index: "flow.backup.law",
            "flow[0].law", "dumbbell.bottleneck.buffer". Or several of them with their values.
        value
            New value of the field; None for its default.

        Raises
        ------
        ScenarioError
            If there is no such field, if the field cannot hold the value, or if this scenario can
            be run and the copy cannot: what is wrong, where in ``to_toml()`` of the copy, and what
            would be right.

        Examples
        --------
        >>> scenario.set("flow.backup.law", "flower")  # doctest: +SKIP
        >>> scenario.set({"dumbbell.bottleneck.rate": None, "dumbbell.bottleneck.trace": "lte"})  # doctest: +SKIP
        """
        changes = path if isinstance(path, Mapping) else {path: value}
        if (value is _NOT_GIVEN) != isinstance(path, Mapping):
            raise TypeError("set takes a path and a value, or one mapping of paths to values")
        fields = self.to_dict()
        for each, new in changes.items():
            fields = _core.change(fields, each, _DEFAULT if new is None else plain(new))
        changed = self.from_dict(_without_defaults(fields))
        try:
            changed.check()
        except ScenarioError as wrong:
            if wrong.kind == "field" or self._can_be_run():
                if wrong.kind != "field" and len(changes) == 1:
                    wrong.add_note("Fields that only make sense together are set together: set({path: value, ...}).")
                raise
        return changed

    def _can_be_run(self) -> bool:
        try:
            self.check()
        except ScenarioError:
            return False
        return True

    def key(self) -> str:
        """Hash of everything that decides the result of a run, but the seed and the version of the
        engine.

        Two spellings of one scenario have the same key. The contents of traces count, not their
        names. Title, description, seed, repetitions and sweep do not count.

        Raises
        ------
        ScenarioError
            If the scenario cannot be run.
        """
        canonical = json.loads(_core.canonical(self.to_dict()))
        for name in ("title", "description", "seed", "repetitions", "sweep"):
            canonical.pop(name, None)
        for link in [canonical.get("dumbbell"), *canonical.get("link", [])]:
            for channel in (link or {}).values():
                if isinstance(channel, dict) and "trace" in channel:
                    channel["trace"] = hashlib.sha256(Path(channel["trace"]).read_bytes()).hexdigest()
        text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def channels(self) -> list[Channel]:
        """All channels of the scenario, those of the dumbbell first."""
        pairs = [(self.dumbbell.bottleneck, self.dumbbell.reverse)] if self.dumbbell else []
        pairs += [(link.forward, link.reverse) for link in self.link]
        return [channel for pair in pairs for channel in pair if channel is not None]

    def _repr_html_(self) -> str:
        from leeway._html import scenario

        return scenario(self)


def _without_defaults(value: Any) -> Any:
    """None in place of `_DEFAULT`, at any depth."""
    if isinstance(value, dict):
        return {name: _without_defaults(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without_defaults(entry) for entry in value]
    return None if value == _DEFAULT else value
