"""The paper's line, home, neighbours and mechanisms as scenarios.

The home, its gateway and the neighbours are at ``right``, the servers at ``left``. What the live
testbed has (`crates/testbed/src/experiment.rs`) and how a scenario says it:

- Requests at equal distances whether or not earlier ones have been answered, each on a connection
  of its own: flows
  that ask once, one after the other.
- Users who ask for more than the line carries, with a bounded number of connections: connections
  that always have a
  request under way.
- The gateway's proxy keeps its connections to servers for 15 s, so there each connection carries
  all its requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from leeway import Channel, Dumbbell, Flow, Gateway, Link, Scenario, Window

MBPS = 1.72
"""Rate of the published line, in both directions (Mbit/s)."""
RTT_MS = 20.0
"""Round trip of the line without a queue (ms). The paper does not give it; this is the live
testbed's."""
BUFFER = "100 pkt"
OBJECT_BYTES = 12_500
"""Size of an object in the overload experiment."""
HEADER_BYTES = 100
"""Bytes of the head of an answer and of a request, by HTTP/1.1."""
ASK_BYTES = 120
PATIENCE_S = 5.0
"""How long answers are waited for at the end, as the live testbed waits. What is missing then
counts with its wait."""
READ_DELAY = "2 ms"
"""A program reads what has come up to this long after the packet; as in
crates/sim/examples/sharing."""
NEVER = "100000 s"
"""Pause after an answer of a flow that asks once."""
MANY = 2000
"""Transfers of a connection that always has one under way; more than any line here carries."""
TIMER_S = 1e-3
"""A request is late by up to this long: the resolution of the timers of the live load generator
(tokio)."""
PING_PER_S = 10
PING_BYTES = 64
STEADY, ALL = "steady", "all"
"""Windows: the part that counts, and the whole run."""
HOME, WARM, NEIGHBOURS, PING, CALL = "home", "home before", "neighbours", "ping", "call"
"""Names of the groups. The requests of `WARM` are asked before the part that counts."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line that everybody shares.

    Attributes
    ----------
    mbps
        Rate in both directions (Mbit/s), or the rate at the beginning.
    rates
        Further rates: instants (s) and Mbit/s; none for a constant rate.
    rtt_ms
        Round trip without a queue (ms).
    buffer
        What the queue of each direction holds.
    queue
        Discipline of the queue of each direction.
    """

    mbps: float = MBPS
    rates: tuple[tuple[float, float], ...] = ()
    rtt_ms: float = RTT_MS
    buffer: str = BUFFER
    queue: str = "droptail"

    def channel(self) -> Channel:
        """One direction."""
        fields: dict[str, Any] = {"rate": rate_text(self.mbps)}
        if self.rates:
            steps = ((0.0, self.mbps), *self.rates)
            fields = {"rates": [{"at": f"{at * 1000:.0f} ms", "rate": rate_text(mbps)} for at, mbps in steps]}
        return Channel(delay=f"{self.rtt_ms / 2:g} ms", buffer=self.buffer, queue=self.queue, **fields)


@dataclass(frozen=True, slots=True)
class Load:
    """What one class of users asks for.

    Attributes
    ----------
    per_s
        Requests a second of all users together; None where each connection always has a request
        under way.
    object_bytes
        Size of an object.
    users
        Number of users, who get equal shares from a gateway.
    connections
        Most requests that a user has under way.
    upload
        Whether objects go to the server.
    keep
        Whether clients keep their connections.
    full
        Whether users ask for so much that all connections are soon busy. They then always are in
        the scenario. Where not, the bound of `connections` is never reached, and there is none.
    """

    per_s: float | None
    object_bytes: int = OBJECT_BYTES
    users: int = 5
    connections: int = 10
    upload: bool = False
    keep: bool = False
    full: bool = True

    @property
    def sent_bytes(self) -> int:
        """Size of an object with its head."""
        return self.object_bytes + HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Setup:
    """A line, its users, and the duration.

    Attributes
    ----------
    home
        The home's load; None where it is away.
    call
        Whether the home has a telephone call.
    duration_s, warmup_s
        The part that counts, and the part before it.
    """

    line: Line = Line()
    home: Load | None = Load(5.0, users=1, connections=32)
    neighbours: Load = Load(25.0)
    call: bool = False
    duration_s: float = 40.0
    warmup_s: float = 5.0

    @property
    def end_s(self) -> float:
        """When the last request is asked."""
        return self.warmup_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How neighbours share the line.

    Attributes
    ----------
    alone
        There are no neighbours.
    gateway
        Fields of the gateway that holds neighbours; None where there is none.
    queue
        Discipline of the line's queues; the line's own if None. "borrowing": with the shares of
        `borrowing`.
    shaper
        Whether classes share the line at a shaper on the gateway: behind the line for downloads,
        before it for uploads.
    """

    alone: bool = False
    gateway: dict[str, Any] | None = None
    queue: str | None = None
    shaper: bool = False


SHAPED = 0.95
"""Part of the line's rate that the shaper on a gateway gives out, so that the queue is there and
not at the line."""


def borrowing(mbps: float) -> str:
    """The shares of the live testbed: nine tenths to the home, which goes first; each lends what
    it does not use."""
    bps = mbps * 1e6
    home, rest, most = (f"{part * bps:.0f}bit/s" for part in (0.9, 0.1, 1.0))
    return f"borrowing:class0={home}..{most}@0,class1={rest}..{most}@1"


ALONE, BEST, PROXY, PACKETS = "prim_only", "best_effort", "proxy", "packets"
BORROWING, AT_LINE = "borrowing", "borrowing-line"
SOCKETS = {"read_delay": READ_DELAY}
MECHANISMS = {
    ALONE: Mechanism(alone=True),
    BEST: Mechanism(),
    PROXY: Mechanism(gateway=SOCKETS),
    PACKETS: Mechanism(gateway={}),
    BORROWING: Mechanism(shaper=True),
    AT_LINE: Mechanism(queue="borrowing"),
    "priority": Mechanism(queue="priority"),
    "sfq": Mechanism(queue="sfq"),
    "codel": Mechanism(queue="codel"),
    "fq_codel": Mechanism(queue="fq_codel"),
    "proxy+sfq": Mechanism(gateway=SOCKETS, queue="sfq"),
    "proxy+codel": Mechanism(gateway=SOCKETS, queue="codel"),
    "proxy+fq_codel": Mechanism(gateway=SOCKETS, queue="fq_codel"),
}
"""Mechanisms by the name in tables. `packets` is a gateway that sees each packet and its delay."""


def rate_text(mbps: float) -> str:
    """A rate as scenarios spell it."""
    return f"{mbps * 1e6:.0f} bit/s"


def scenario(setup: Setup, mechanism: str | Mechanism, patience_s: float = PATIENCE_S, **changes: Any) -> Scenario:
    """The setup with a mechanism.

    Answers are waited for `patience_s` after the last request. `changes` are choices of TCP of the
    servers and clients that differ from Linux's.
    """
    how = MECHANISMS[mechanism] if isinstance(mechanism, str) else mechanism
    line = setup.line
    if how.queue:
        line = replace(line, queue=borrowing(line.mbps) if how.queue == "borrowing" else how.queue)
    end_s = setup.end_s + patience_s
    flows = _home(setup, changes)
    flows += [] if how.alone else _neighbours(setup, how, changes)
    return Scenario(
        title=f"{line.mbps:g} Mbit/s, {line.rtt_ms:g} ms, {line.buffer}: {mechanism}",
        duration=seconds(end_s),
        dumbbell=None if how.shaper else Dumbbell(bottleneck=line.channel(), reverse=line.channel()),
        link=_shaped(line) if how.shaper else [],
        gateway=[Gateway(name="gateway", node="right", **how.gateway)] if how.gateway is not None else [],
        flow=[replace(flow, from_=flow.from_ or "left", to=flow.to or "right") for flow in flows],
        window=[
            Window(name=ALL, to=seconds(end_s)),
            Window(name=STEADY, from_=seconds(setup.warmup_s), to=seconds(setup.end_s)),
        ],
    )


def _shaped(line: Line) -> list[Link]:
    """The line, and the gateway's shaper between it and the home's end."""
    mbps = SHAPED * line.mbps
    shaper = Channel(rate=rate_text(mbps), buffer=BUFFER, queue=borrowing(mbps))
    return [
        Link(name="bottleneck", from_="left", to="shaper", forward=line.channel(), reverse=line.channel()),
        Link(name="lan", from_="shaper", to="right", forward=shaper, reverse=shaper),
    ]


def seconds(span: float) -> str:
    """A span as scenarios spell it, to the nanosecond."""
    return f"{span * 1e9:.0f} ns"


def _flow(name: str, load: Load, changes: dict[str, Any], **fields: Any) -> Flow:
    """A group with the testbed's TCP, whose objects go the load's way."""
    ends = {"from_": "right", "to": "left"} if load.upload else {}
    return Flow(name=name, law="cubic", header="52 B", tcp=dict(changes), **ends, **fields)


def _size(load: Load) -> str:
    return f"{load.sent_bytes} B"


def _asks(load: Load, think: str = "0 s") -> dict[str, Any]:
    return {"kind": "request", "size": _size(load), "request": f"{ASK_BYTES} B", "think": think}


def asked_at(load: Load, start_s: float, end_s: float) -> list[float]:
    """Instants (s) from `start_s` to `end_s` of requests that come at equal distances from 0
    on."""
    gap_s = 1.0 / (load.per_s or math.inf)
    first, after = (math.ceil(round(at / gap_s, 6)) for at in (start_s, end_s))
    return [number * gap_s for number in range(first, after)]


def _once(name: str, load: Load, at_s: list[float], changes: dict[str, Any], **fields: Any) -> list[Flow]:
    """Requests at equal distances, each on a connection that asks once."""
    if not at_s:
        return []
    times: dict[str, Any] = {"start": {"uniform": [seconds(at_s[0]), seconds(at_s[0] + TIMER_S)]}}
    if len(at_s) > 1:
        times["stagger"] = seconds(at_s[1] - at_s[0])
    tcp = changes | ({"handshake": False} if load.keep else {})
    return [_flow(name, load, tcp, count=len(at_s), app=_asks(load, NEVER), **times, **fields)]


def numbered(number: int) -> str:
    """The group of one request of the home. Each is a group, so that one knows how long each has
    waited."""
    return f"{HOME} {number}"


def _home(setup: Setup, changes: dict[str, Any]) -> list[Flow]:
    """What the home does: requests, a call, and a ping, which shows the gateway nothing."""
    warmup_s, end_s = setup.warmup_s, setup.end_s
    flows: list[Flow] = []
    home = setup.home
    if home is not None and home.per_s is None:
        flows.append(_flow(HOME, home, changes, count=home.connections, stop=seconds(end_s), app=_asks(home)))
    elif home is not None:
        flows += _once(WARM, home, asked_at(home, 0.0, warmup_s), changes)
        for number, at_s in enumerate(asked_at(home, warmup_s, end_s)):
            flows += _once(numbered(number), home, [at_s], changes)
    if setup.call:
        flows.append(Flow(name=CALL, app={"kind": "voice"}, start=seconds(warmup_s), stop=seconds(end_s)))
    # The delay of an answer from the server, or where neighbours upload of one to the server: the
    # loaded direction.
    ends = {"from_": "right", "to": "left"} if setup.neighbours.upload else {}
    ping = {"kind": "request", "size": f"{PING_BYTES} B", "request": f"{PING_BYTES} B", "think": NEVER}
    flows.append(
        Flow(
            name=PING,
            role="background",
            header="20 B",
            count=int(PING_PER_S * setup.duration_s),
            start={"uniform": [seconds(warmup_s), seconds(end_s)]},
            app=ping,
            tcp={"handshake": False},
            **ends,
        )
    )
    return flows


def _neighbours(setup: Setup, how: Mechanism, changes: dict[str, Any]) -> list[Flow]:
    load = setup.neighbours
    held = how.gateway is not None
    fields: dict[str, Any] = {"role": "background", "class_": 1}
    if held:
        fields |= {"gateway": "gateway"}
        # The gateway keeps its connections to servers, whatever its clients do.
        load = replace(load, keep=True)
    if load.per_s is not None and not load.full:
        return _once(NEIGHBOURS, load, asked_at(load, 0.0, setup.end_s), changes, **fields)
    if held:
        fields |= {"flows_per_user": load.connections}
    return [_flow(NEIGHBOURS, load, changes, count=load.users * load.connections, app=busy(load), **fields)]


def busy(load: Load) -> dict[str, Any]:
    """What a connection does that always has a request under way."""
    if load.keep:
        # Objects that are uploaded one behind the other are one upload without end.
        return {"kind": "bulk"} if load.upload else _asks(load)
    # A transfer begins with the server's SYN, so a new connection takes half a round trip less
    # than one of a client.
    return {"kind": "transfer", "size": _size(load), "count": MANY, "gap": "0 s"}
