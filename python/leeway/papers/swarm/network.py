"""The lines, the peers and what the homes do beside sharing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leeway import Channel, Flow, GroupSummary, Link, Run, Scenario, Swarm, Window
from leeway.lab import Setting

LAWS = {
    "TCP": "cubic",
    "LEDBAT 100 ms": "ledbat:target=100ms",
    "LEDBAT 25 ms": "ledbat:target=25ms",
    "FLOWER": "flower",
    "Ebb": "ebb",
}
"""By name in the tables; the first is what the others are compared with."""


@dataclass(frozen=True, slots=True)
class Access:
    """A kind of access line: rates in Mbit/s, what each queue holds, and its discipline."""

    up: float
    down: float
    buffer: str
    queue: str
    file_mib: int

    def channel(self, mbps: float) -> Channel:
        """One direction."""
        return Channel(rate=f"{mbps:g} Mbit/s", delay="10 ms", buffer=self.buffer, queue=self.queue)

    def link(self, name: str, count: int) -> Link:
        """The lines of so many homes at the node `name`."""
        return Link(
            name=f"line-{name}",
            count=count,
            from_=name,
            to="core",
            forward=self.channel(self.up),
            reverse=self.channel(self.down),
        )


ACCESS = {
    "ADSL 8/0.6": Access(0.6, 8, "64 kB", "droptail", 4),
    "ADSL 8/0.6, fq_codel": Access(0.6, 8, "64 kB", "fq_codel", 4),
    "fibre 100/20": Access(20, 100, "500 kB", "droptail", 64),
    "fibre 100/20, fq_codel": Access(20, 100, "500 kB", "fq_codel", 64),
}
"""A queue of 64 kB holds 0.85 s of an ADSL uplink, one of 500 kB 0.2 s of a fibre's."""

SEEDS = 2
CALL = {"kind": "voice", "codec": "g729"}
PAGES = {"kind": "request", "size": "50 kB", "think": {"exponential": "5 s"}}
BUSY = Window(name="busy", from_="5 s", to="20 s")
"""While everybody downloads, whatever the law."""


def peers(node: str, law: str, count: int) -> list[Flow]:
    """Homes that fetch the file; each also makes a call and reads pages all the time."""
    ends = {"from_": node, "to": "core"}
    return [
        Flow(
            name=f"peers {node}",
            count=count,
            law=law,
            role="background",
            start={"uniform": ["0 s", "2 s"]},
            app={"kind": "peer"},
            **ends,
        ),
        Flow(name=f"call {node}", count=count, app=CALL, **ends),
        Flow(name=f"pages {node}", count=count, law="cubic", app=PAGES, from_="core", to=node),
    ]


def scenario(
    access: Access, kinds: Mapping[str, tuple[str, int]], duration_s: float, seeds_law: str | None = None
) -> Scenario:
    """A swarm over lines of one kind; `kinds` are law and number of homes by node.

    Two seeds have ten uplinks' worth together. Their law is that of the first kind if None.
    """
    first = next(iter(kinds.values()))[0] if seeds_law is None else seeds_law
    fast = Access(10 * access.up / SEEDS, access.down, access.buffer, access.queue, 0)
    seeds = Flow(name="seeds", count=SEEDS, from_="source", to="core", law=first, app={"kind": "peer", "seed": True})
    return Scenario(
        duration=f"{duration_s:g} s",
        window=[Window(name="all", to=f"{duration_s:g} s"), BUSY],
        swarm=Swarm(pieces=access.file_mib * 16, piece="65536 B"),
        link=[*(access.link(node, count) for node, (_, count) in kinds.items()), fast.link("source", SEEDS)],
        flow=[seeds, *(flow for node, kind in kinds.items() for flow in peers(node, *kind))],
    )


def homes(setting: Setting) -> int:
    """Peers of a swarm."""
    return setting.pick(16, 100)


def of(run: Run, what: str, node: str) -> GroupSummary:
    """The group of a kind of home: its "peers" in the whole run, or its "call" or "pages" while
    all download."""
    return run.window("all" if what == "peers" else BUSY.name).group(f"{what} {node}")


METRICS: dict[str, Callable[[Run, str], float]] = {
    "completion (s)": lambda run, node: of(run, "peers", node).completion.mean_s,
    "p95 (s)": lambda run, node: of(run, "peers", node).completion.p95_s,
    "fairness": lambda run, node: of(run, "peers", node).swarm.fairness,
    "share ratio": lambda run, node: of(run, "peers", node).swarm.share_ratio_mean,
    "least ratio": lambda run, node: of(run, "peers", node).swarm.share_ratio_min,
    "served": lambda run, node: of(run, "peers", node).swarm.served_share,
    "MOS of the call": lambda run, node: of(run, "call", node).mos,
    "page (s)": lambda run, node: of(run, "pages", node).completion.mean_s,
}
"""Of the homes at a node."""


def metric(name: str, node: str = "home") -> Callable[[Run], float]:
    """A metric of one kind of home."""
    return lambda run: METRICS[name](run, node)


def mean_of_all(run: Run) -> float:
    """Mean completion time of all peers, whatever their kind (s)."""
    groups = [group for group in run.window("all").groups if group.name.startswith("peers ") and group.completion]
    return sum(group.completion.mean_s * group.completed for group in groups) / sum(g.completed for g in groups)


def unfinished(run: Run) -> float:
    """Peers that did not get the file by the end."""
    return float(sum(group.swarm.unfinished for group in run.window("all").groups if group.swarm))
