"""What is simulated on a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from leeway import Dumbbell, Flow, Scenario, Window
from leeway.lab import Case
from leeway.papers.scoreboard.networks import Network
from leeway.papers.scoreboard.rows import LOW, Row

NOBODY = "(alone)"
"""In place of a law: the primaries without any background."""

NOBODY_PRIORITY = "(alone, strict priority)"
"""The same where the bottleneck's queue is one of strict priority."""

BULK = {"NewReno": "newreno", "CUBIC": "cubic"}
PRIMARIES = (*BULK, "web", "voice")
OWN = {"one": 1, "two": 2, "five": 5, "late": 2}
CLIENTS = 5


def web(network: Network) -> Flow:
    """Clients that ask for answers of heavy-tailed sizes: 0.1 s of the link each in the mean, a third of it in all."""
    mean_bytes = max(1500, round(network.rate_bps * 0.1 / 8))
    size = {"pareto": {"mean": f"{mean_bytes} B", "shape": 1.5}}
    app = {"kind": "request", "size": size, "think": {"exponential": "1 s"}}
    return Flow(name="primary", law="cubic", count=CLIENTS, app=app, tcp=dict(network.tcp))


def primaries(network: Network, kind: str) -> Flow:
    """The traffic to protect."""
    if kind == "web":
        return web(network)
    if kind == "voice":
        return Flow(name="primary", app={"kind": "voice", "codec": "g729"})
    law = BULK[kind]
    return Flow(name="primary", law=law, count=network.bulk, start=early(network), tcp=dict(network.tcp))


def early(network: Network) -> dict:
    """Starts of bulk flows: in random order, at the beginning of what is not counted."""
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


def reference(row: Row) -> str:
    """The label of the runs without background that a row is held against."""
    return NOBODY_PRIORITY if row.priority else NOBODY


def kinds(network: Network) -> tuple[str, ...]:
    """The primaries beside which laws are judged there."""
    return tuple(kind for kind in PRIMARIES if kind not in BULK or not network.laws or kind in network.laws)


def cases(network: Network, rows: Iterable[Row], seeds: Iterable[int]) -> Iterator[Case]:
    """Everything that is needed about these laws on one network."""
    rows = list(rows)
    for seed in seeds:
        for kind in kinds(network):
            labels = {"network": network.name, "with": kind}
            for priority in dict.fromkeys(row.priority for row in rows):
                name = NOBODY_PRIORITY if priority else NOBODY
                alone = scenario(network, [primaries(network, kind)], priority)
                yield Case(alone, seed, labels | {"row": name})
            count = 1 if kind not in BULK else network.background or network.bulk
            for row in rows:
                if row.sends:
                    flows = [primaries(network, kind), background(network, row, count)]
                    yield Case(scenario(network, flows, row.priority), seed, labels | {"row": row.name})
        for row in rows:
            for what in network.own or OWN:
                if row.sends:
                    labels = {"network": network.name, "with": what, "row": row.name}
                    yield Case(own(network, row, what), seed, labels)
