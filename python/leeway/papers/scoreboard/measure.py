"""The runs on a network."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from leeway import Dumbbell, Flow, Scenario, Window, laws
from leeway.lab import Case
from leeway.papers.scoreboard.networks import Network
from leeway.papers.scoreboard.rows import LOW, Row

NOBODY = "(alone)"
"""Label, in place of a law, of the primaries without background."""

NOBODY_PRIORITY = "(alone, strict priority)"
"""The same with a queue of strict priority at the bottleneck."""

KNOWN = frozenset(law.name for law in laws())

BULK = {name: law for name, law in {"NewReno": "newreno", "CUBIC": "cubic", "BBR": "bbr"}.items() if law in KNOWN}
"""Bulk primaries and their laws, if this version has the law."""

LOSS_BASED = ("NewReno", "CUBIC")
"""Bulk primaries that decide whether a law fails, where a network has more than one kind."""

REACTION = {f"{name} for 30 s": BULK[name] for name in ("CUBIC", "BBR") if name in BULK}
"""A bulk primary that starts and ends while the background has the link."""

PRIMARIES = (*BULK, "web", "short", "voice")
OWN = {"one": 1, "two": 2, "five": 5, "late": 2}
CLIENTS = 5


def web(network: Network) -> Flow:
    """Clients that request answers of heavy-tailed sizes: 0.1 s of the link each on average, a
    third of it in all."""
    mean_bytes = max(1500, round(network.rate_bps * 0.1 / 8))
    size = {"pareto": {"mean": f"{mean_bytes} B", "shape": 1.5}}
    app = {"kind": "request", "size": size, "think": {"exponential": "1 s"}}
    return Flow(name="primary", law="cubic", count=CLIENTS, app=app, start="0 s", tcp=dict(network.tcp))


SHORT_LOAD = 0.1
"""Share of the link that flows of each size take on average."""

MOST_ARRIVALS_PER_S = 20.0
"""Most arrivals of flows of one size, so that a fast link does not take hours to simulate."""


def sizes(network: Network) -> dict[str, int]:
    """Sizes of short flows in bytes: an initial window of Linux, and 0.3 and 2 s of the link."""
    return {
        "first window": 14_600,
        "300 ms": round(network.rate_bps * 0.3 / 8),
        "2 s": round(network.rate_bps * 2 / 8),
    }


def short(network: Network) -> list[Flow]:
    """Flows of three sizes, each on a connection of its own, that arrive at random (Poisson)."""
    made = []
    for name, size in sizes(network).items():
        arrivals_per_s = min(SHORT_LOAD * network.rate_bps / 8 / size, MOST_ARRIVALS_PER_S)
        app = {"kind": "poisson", "arrivals_per_s": arrivals_per_s, "size": f"{size} B"}
        made.append(Flow(name=name, law="cubic", app=app, tcp=dict(network.tcp)))
    return made


def primaries(network: Network, kind: str) -> list[Flow]:
    """The traffic to protect."""
    if kind == "web":
        return [web(network)]
    if kind == "short":
        return short(network)
    if kind == "voice":
        return [Flow(name="primary", app={"kind": "voice", "codec": "g729"})]
    law = BULK[kind]
    return [Flow(name="primary", law=law, count=network.bulk, start=early(network), tcp=dict(network.tcp))]


def early(network: Network) -> dict:
    """Starts of bulk flows: in random order, at the beginning of the part that does not count."""
    return {"uniform": ["0 s", f"{network.start_s:g} s"]}


def background(network: Network, row: Row, count: int, name: str = "background", start: object = None) -> Flow:
    """Bulk flows of the law that is judged."""
    return Flow(
        name=name,
        law=row.law,
        count=count,
        role="background",
        start=start or early(network),
        class_=LOW if row.priority else 0,
        tcp=dict(network.tcp),
    )


def scenario(network: Network, flows: Iterable[Flow], priority: bool = False) -> Scenario:
    """These flows on the network; the first third of the time is not counted."""
    return Scenario(
        duration=f"{network.duration_s:g} s",
        profile=network.profile,
        dumbbell=in_classes(network.dumbbell()) if priority else network.dumbbell(),
        flow=list(flows),
        event=list(network.events),
        window=[Window(name="counted", from_=f"{network.duration_s / 3:g} s", to=f"{network.duration_s:g} s")],
    )


def in_classes(dumbbell: Dumbbell) -> Dumbbell:
    """The same with strict priority in the bottleneck's buffer."""
    return Dumbbell(bottleneck=dataclasses.replace(dumbbell.bottleneck, queue="priority"), reverse=dumbbell.reverse)


def own(network: Network, row: Row, what: str) -> Scenario:
    """The law with nobody but itself."""
    if what == "late":
        first = background(network, row, 1, "first", "0 s")
        return scenario(
            network, [first, background(network, row, 1, "late", f"{2 * network.start_s:g} s")], row.priority
        )
    return scenario(network, [background(network, row, OWN[what])], row.priority)


VISIT_S = 30
"""Duration of the primary of a reaction, and of the time in which the background may reclaim the
link."""

STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 120)
"""Edges of the spans in which its rate is looked at, in units of a quarter of a second or of a
round trip."""


def reaction(network: Network, row: Row, law: str) -> Scenario:
    """The background alone; a bulk primary for 30 s; the background alone for as long."""
    begin = min(max(20.0, 40 * network.rtt_s), 60.0)
    unit = max(0.25, network.rtt_s)
    windows = []
    for name, since in (("visit", begin), ("after", begin + VISIT_S)):
        edges = [since + unit * step for step in STEPS if unit * step < VISIT_S] + [since + VISIT_S]
        windows += [
            Window(name=f"{name} {index}", from_=f"{low:g} s", to=f"{high:g} s")
            for index, (low, high) in enumerate(itertools.pairwise(edges))
        ]
    end = begin + 2 * VISIT_S
    visit = [[f"{begin:g} s", f"{begin + VISIT_S:g} s"]]
    primary = Flow(name="primary", law=law, intervals=visit, tcp=dict(network.tcp))
    alone = [primary, background(network, row, 1, start="0 s")]
    made = scenario(network, alone, row.priority)
    return dataclasses.replace(made, duration=f"{end:g} s", event=[], window=windows)


def reference(row: Row) -> str:
    """Label of the runs without background that a row is compared with."""
    return NOBODY_PRIORITY if row.priority else NOBODY


def kinds(network: Network) -> tuple[str, ...]:
    """The primaries beside which laws are judged on this network."""
    others = network.primaries or tuple(kind for kind in PRIMARIES if kind not in BULK)
    return (*(network.laws or BULK), *others)


def cases(network: Network, rows: Iterable[Row], seeds: Iterable[int]) -> Iterator[Case]:
    """All cases of these laws on one network."""
    rows = list(rows)
    for seed in seeds:
        for kind in kinds(network):
            labels = {"network": network.name, "with": kind}
            for priority in dict.fromkeys(row.priority for row in rows):
                name = NOBODY_PRIORITY if priority else NOBODY
                alone = scenario(network, primaries(network, kind), priority)
                yield Case(alone, seed, labels | {"row": name})
            count = 1 if kind not in BULK else network.background or network.bulk
            for row in rows:
                if row.sends:
                    flows = [*primaries(network, kind), background(network, row, count)]
                    yield Case(scenario(network, flows, row.priority), seed, labels | {"row": row.name})
        for row in rows:
            if row.sends and network.reacts:
                for kind, law in REACTION.items():
                    labels = {"network": network.name, "with": kind, "row": row.name}
                    yield Case(reaction(network, row, law), seed, labels)
            for what in network.own or OWN:
                if row.sends:
                    labels = {"network": network.name, "with": what, "row": row.name}
                    yield Case(own(network, row, what), seed, labels)
