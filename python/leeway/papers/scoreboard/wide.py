"""The board *wide*: 2,000 networks drawn at random, half of them for tuning and half for the
report.

They are a Latin hypercube with a fixed seed: every part of each dimension occurs equally often.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from leeway import Channel, Dumbbell
from leeway.lab.experiment import Half
from leeway.papers.common import bdp_packets
from leeway.papers.scoreboard.measure import BULK, OWN
from leeway.papers.scoreboard.networks import Network

COUNT = 2000
SEED = 2028

RATE_BPS = (0.5e6, 1e9)
RTT_S = (0.005, 0.8)
BUFFER_BDP = (0.1, 10)
FLOWS = (1, 24)
"""Bounds; equal factors are equally likely."""

QUEUES = {
    "droptail": "droptail",
    "red": "red",
    "codel": "codel",
    "pie": "pie",
    "sfq": "sfq",
    "fq_codel": "fq_codel",
}
FAIR = ("sfq", "fq_codel")
PROFILES = {"rfc": {"sack": True}, "linux": {"timestamp_resolution": "1 us"}}
"""Platforms of all endpoints, and what differs."""

ROUNDS, LEAST_S, MOST_S, MOST_PACKETS = 60, 10, 60, 150_000
"""Duration of a run in round trips, its bounds in seconds, and the packets that bound it on fast
lines."""

LEAST_ROUNDS = 20
"""Least number of round trips of a run, which also lasts at least two seconds."""


def wide(half: Half) -> list[Network]:
    """The networks of a half. Each has one kind of bulk primary, and one number of flows of the
    law alone."""
    places = [place(index, point) for index, point in enumerate(hypercube(9))]
    return places[0 if half == "tuning" else 1 :: 2]


def hypercube(dimensions: int) -> Iterable[tuple[float, ...]]:
    """Points of the unit cube: in each dimension one point in each of `COUNT` slices, in random
    order."""
    chance = random.Random(SEED)
    columns = []
    for _ in range(dimensions):
        slices = list(range(COUNT))
        chance.shuffle(slices)
        columns.append([(index + chance.random()) / COUNT for index in slices])
    return zip(*columns, strict=True)


def place(index: int, point: Sequence[float]) -> Network:
    """The network at a point of the unit cube."""
    rate_bps = round(between(point[0], *RATE_BPS), -3)
    rtt_s = round(between(point[1], *RTT_S), 4)
    buffer_pkt = max(2, round(between(point[2], *BUFFER_BDP) * bdp_packets(rate_bps, rtt_s / 2)))
    queue = one_of(point[3], QUEUES)
    flows = round(between(point[4], FLOWS[0] - 0.49, FLOWS[1] + 0.49))
    length_s = duration_s(rate_bps, rtt_s)
    profile = one_of(point[7], PROFILES)
    channel = Channel(
        rate=f"{rate_bps / 1e6:g} Mbit/s",
        delay=f"{rtt_s / 2 * 1e3:g} ms",
        buffer=f"{buffer_pkt} pkt",
        queue=QUEUES[queue],
    )
    return Network(
        name=f"{index:04} {rate_bps / 1e6:.3g}M {rtt_s * 1e3:.3g}ms {buffer_pkt}p {queue}",
        paper="wide",
        rate_bps=rate_bps,
        rtt_s=rtt_s,
        bulk=flows,
        duration_s=length_s,
        start_s=length_s / 9,
        dumbbell=lambda: Dumbbell(bottleneck=channel),
        profile=profile,
        tcp=PROFILES[profile],
        fair=queue in FAIR,
        background=flows if point[6] < 0.5 else 1,
        primaries=("web",),
        reacts=False,
        laws=(one_of(point[5], BULK),),
        own=("one", one_of(point[8], [what for what in OWN if what != "one"])),
    )


def between(share: float, low: float, high: float) -> float:
    """The value at this share of the logarithmic distance from `low` to `high`."""
    return low * math.exp(share * math.log(high / low))


def one_of(share: float, choices: Iterable[str]) -> str:
    """The choice at this share of the list."""
    names = list(choices)
    return names[min(int(share * len(names)), len(names) - 1)]


def duration_s(rate_bps: float, rtt_s: float) -> int:
    """Duration of a run, in whole seconds."""
    wanted = min(max(ROUNDS * rtt_s, LEAST_S), MOST_S)
    affordable = max(MOST_PACKETS * 12_000 / rate_bps, LEAST_ROUNDS * rtt_s, 2)
    return math.ceil(min(wanted, affordable))
