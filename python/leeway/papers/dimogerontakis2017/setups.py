"""The setups of the live testbed, by its names: the paper's experiments, and those that go beyond
it.

Where one of the live testbed cannot be played here, `NOT_PLAYED` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from leeway.papers.dimogerontakis2017.network import MBPS, Line, Load, Setup

OVERLOAD = Setup()
CHANGING = tuple((5.0 * (i + 1), MBPS * (0.5, 1.0, 2.0, 1.0)[i % 4]) for i in range(60))
"""Half of the rate, and twice as much, for five seconds each."""
NOT_PLAYED = {
    "dimogerontakis2017:wireless": "the gateway of a scenario sees a home that is at its node, so there is no access "
    "between the two that could lose packets",
    "dimogerontakis2017:tunnel": "a scenario has no tunnels: IP in IP, TCP tunnels (Vegas, LP, CUBIC) and relays",
}
"""Experiments and mechanisms of the live testbed that a scenario cannot express, and the
reason."""


def web(per_s: float, home: bool = False, **fields) -> Load:
    """Requests at equal distances, of the home or of neighbours."""
    return Load(per_s, users=1, connections=32, **fields) if home else Load(per_s, **fields)


def greedy(connections: int, object_bytes: int) -> Load:
    """A user who always has this many requests under way, on connections that are kept."""
    return Load(None, object_bytes, users=1, connections=connections, keep=True)


def underload() -> Setup:
    """0.3 and 1.2 requests a second of 100 kB: 70 % of the line."""
    return Setup(
        home=web(0.3, True, object_bytes=100_000, keep=True),
        neighbours=web(1.2, object_bytes=100_000, keep=True, full=False),
        duration_s=60.0,
    )


def sized(object_bytes: int) -> Setup:
    """The load of `OVERLOAD` in objects of another size."""
    factor = 12_500 / object_bytes
    return Setup(
        home=web(5.0 * factor, True, object_bytes=object_bytes),
        neighbours=web(25.0 * factor, object_bytes=object_bytes),
        duration_s=15.0,
    )


def ratio(neighbours_per_s: float) -> Setup:
    """More or fewer neighbours for the same home."""
    # Of 12.5 requests a second, all but two are carried, so that no user ever waits for ten others
    # of his.
    return Setup(neighbours=web(neighbours_per_s, full=neighbours_per_s > 20), duration_s=15.0)


def edge(home_is_small: bool, duration_s: float) -> Setup:
    """Small objects of one class beside objects 150 times as large of the other; each asks for 56
    % of the line."""
    small, large = (12.0, 10_000), (0.08, 1_500_000)
    home, neighbours = (small, large) if home_is_small else (large, small)
    return Setup(
        home=web(home[0], True, object_bytes=home[1]),
        neighbours=web(neighbours[0], object_bytes=neighbours[1], full=False),
        duration_s=duration_s,
    )


def faster(mbps: float) -> Setup:
    """The overload in proportion on a faster line."""
    factor = mbps / MBPS
    return Setup(
        Line(mbps, buffer=f"{int(100 * factor)} pkt"),
        home=web(5.0 * factor, True),
        neighbours=web(25.0 * factor),
        duration_s=8.0,
    )


def over(duration_s: float = 20.0, **fields) -> Setup:
    """The overload on another line."""
    return replace(OVERLOAD, line=Line(**fields), duration_s=duration_s)


def users(count: int) -> Setup:
    """The overload by this many users."""
    # Of a hundred users none has ten requests under way before 70 s.
    return replace(OVERLOAD, neighbours=web(25.0, users=count, full=count < 100), duration_s=20.0)


SETUPS: dict[str, Setup] = {
    "overload": OVERLOAD,
    "deep": over(40.0, buffer="300 pkt"),
    "changing": over(20.0, rates=CHANGING),
    **{f"users {count}": users(count) for count in (1, 10, 100)},
    "greedy": replace(OVERLOAD, neighbours=greedy(200, 12_500), duration_s=20.0),
    "call": replace(OVERLOAD, call=True, duration_s=20.0),
    "underload": underload(),
    "idle": replace(OVERLOAD, home=None, neighbours=greedy(10, 100_000), duration_s=20.0),
    "10 Mbit/s": faster(10.0),
    "50 Mbit/s": faster(50.0),
    "100 ms": over(40.0, rtt_ms=100.0),
    "600 ms": over(40.0, rtt_ms=600.0),
    **{f"{bdp:g} BDP": over(20.0, rtt_ms=100.0, buffer=f"{bdp:g} BDP") for bdp in (0.5, 1, 3, 10)},
    "upload": replace(OVERLOAD, neighbours=web(25.0, upload=True), duration_s=25.0),
    "transfer": replace(OVERLOAD, home=greedy(1, 500_000), duration_s=20.0),
    **{f"{size / 1000:g} kB": sized(size) for size in (2_500, 12_500, 62_500)},
    **{f"1:{per_s / 5:g}": ratio(per_s) for per_s in (12.5, 25.0, 50.0)},
    "small home": edge(True, 30.0),
    "large home": edge(False, 60.0),
    "small home, 15 s": edge(True, 15.0),
    "large home, 15 s": edge(False, 15.0),
    "overload, 15 s": replace(OVERLOAD, duration_s=15.0),
}
"""Setups by a short name. Durations are those of the live figures in docs/testbed.md."""


def wandering(until_s: float = 180.0) -> tuple[tuple[float, float], ...]:
    """The testbed's line like LTE: every 200 ms the rate goes up or down by a fifth, between 0.5
    and 8 Mbit/s.

    These are the same rates as live: the generator and its seed are.
    """
    words = xoshiro256plusplus(islice(splitmix64(1), 4))
    mbps, steps = 2.0, []
    for number, word in zip(range(1, round(until_s / 0.2)), words, strict=False):
        mbps = min(max(mbps * (1.25 if word >> 63 else 0.8), 0.5), 8.0)
        steps.append((0.2 * number, mbps))
    return tuple(steps)


_WORD = (1 << 64) - 1


def splitmix64(seed: int) -> Iterator[int]:
    """SplitMix64 (Steele et al. 2014)."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & _WORD
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        yield z ^ (z >> 31)


def xoshiro256plusplus(state: Iterable[int]) -> Iterator[int]:
    """xoshiro256++ (Blackman and Vigna 2019) from four words."""
    a, b, c, d = state

    def left(word: int, by: int) -> int:
        return ((word << by) | (word >> (64 - by))) & _WORD

    while True:
        yield (left((a + d) & _WORD, 23) + a) & _WORD
        moved = (b << 17) & _WORD
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= moved
        d = left(d, 45)


SETUPS["lte"] = over(25.0, mbps=2.0, rates=wandering(), rtt_ms=50.0, buffer="300 pkt")
SETUPS["satellite"] = over(40.0, rates=CHANGING, rtt_ms=600.0)
