"""The board *real*: the networks of the literature under the conditions of real hosts and lines.

Every host is Linux: SACK, delayed ACKs, an initial window of 10. The board has each network once
for each condition.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leeway import Channel, Dumbbell, Event
from leeway.papers.scoreboard.networks import Network, literature

SEED = 28
"""Seed of the order in which a sample takes the networks of each condition."""

ROUTE_LONGER = 1.5
"""Factor on the delay of the bottleneck in the middle third of the part that counts, for a change
of route."""

PACKET_BITS = 1500 * 8


@dataclass(frozen=True, slots=True)
class Condition:
    """A difference from the network of the paper, beside the hosts.

    Attributes
    ----------
    name
        Short, for axes.
    about
        Text for the table in docs/scoreboard.md.
    resolution
        Resolution of the hosts' clocks.
    forward, reverse
        Fields of the bottleneck's channel, and of the channel of its ACKs.
    ack_jitter
        Jitter of the ACKs at most, in order, in times of a packet at the bottleneck.
    moves
        Whether the route changes.
    """

    name: str
    about: str
    resolution: str = "1 us"
    forward: Mapping[str, Any] = field(default_factory=dict)
    reverse: Mapping[str, Any] = field(default_factory=dict)
    ack_jitter: float = 0
    moves: bool = False


CONDITIONS = (
    Condition("clock 1 us", "Linux, clocks of 1 us"),
    Condition("clock 1 ms", "Linux, clocks of 1 ms", resolution="1 ms"),
    Condition("jitter 2 ms", "0 to 2 ms of jitter after the queue, in order", forward={"jitter": "uniform:range=2ms"}),
    Condition(
        "jitter 10 ms", "0 to 10 ms of jitter after the queue, in order", forward={"jitter": "uniform:range=10ms"}
    ),
    Condition("loss 0.1%", "a packet in 1000 is lost at random", forward={"loss": "random:p=0.1%"}),
    Condition("loss 1%", "a packet in 100 is lost at random", forward={"loss": "random:p=1%"}),
    Condition(
        "wifi",
        "data come in aggregates, and so do ACKs: 3 ms until the medium is free",
        forward={"jitter": "aggregate:wait=3ms"},
        reverse={"jitter": "aggregate:wait=3ms"},
    ),
    Condition(
        "acks", "compressed ACKs: 10 ms until the way back is granted", reverse={"jitter": "aggregate:wait=10ms"}
    ),
    Condition("route", "the delay grows by half in the middle of the run, and shrinks again", moves=True),
    # As long as what separates the ACKs of two packets, so that their distance hides the rate of
    # the line.
    Condition("ack jitter", "ACKs come up to a packet's time at the bottleneck later, in order", ack_jitter=1),
)


def changed(network: Network, condition: Condition) -> Network:
    """The network under the condition."""

    def dumbbell() -> Dumbbell:
        made = network.dumbbell()
        forward = dataclasses.replace(made.bottleneck, **condition.forward)
        reverse, differs = made.reverse, dict(condition.reverse)
        if condition.ack_jitter:
            packet_us = PACKET_BITS / network.rate_bps * 1e6
            differs["jitter"] = f"uniform:range={condition.ack_jitter * packet_us:.0f}us"
        if differs:
            reverse = dataclasses.replace(reverse or Channel(delay=forward.delay), **differs)
        return Dumbbell(bottleneck=forward, reverse=reverse)

    events: tuple[Event, ...] = ()
    if condition.moves:
        longer = f"{ROUTE_LONGER * network.rtt_s / 2 * 1e3:g} ms"
        events = (
            Event(at=f"{network.duration_s * 5 / 9:g} s", delay=longer),
            Event(at=f"{network.duration_s * 7 / 9:g} s", delay=f"{network.rtt_s / 2 * 1e3:g} ms"),
        )
    return dataclasses.replace(
        network,
        name=f"{network.name}, {condition.name}",
        dumbbell=dumbbell,
        profile="linux",
        tcp={"timestamp_resolution": condition.resolution},
        events=events,
    )


def real(full: bool) -> list[Network]:
    """The networks by condition, in turn, so that the first ones are a sample of conditions and
    networks.

    The quick size has one network for each condition.
    """
    chance = random.Random(SEED)
    places = literature(full=True)
    by_condition = []
    for condition in CONDITIONS:
        chance.shuffle(places)
        by_condition.append([changed(place, condition) for place in places])
    turns = [place for turn in zip(*by_condition, strict=True) for place in turn]
    return turns if full else turns[: len(CONDITIONS)]
