"""Shared-bottleneck detection: the definitions of RFC 8382, and what it finds in simulated networks."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import leeway
from leeway import Channel, Flow, Link, Scenario, Series, sbd
from leeway.papers.common import history

SMALL = sbd.Parameters(interval=1.0, n=5, m=3)


def by_the_book(time, delay, lost, parameters):
    """RFC 8382, 3.2, packet by packet: skewness, variability, frequency and loss at the end."""
    p, last = parameters, int(time[-1] // parameters.interval)
    base, means = [], []
    for i in range(last):
        packets = [d for t, d in zip(time, delay, strict=True) if int(t // p.interval) == i]
        mean = sum(packets) / len(packets)
        long = sum(means[-p.m :]) / len(means[-p.m :]) if means else mean
        previous = means[-1] if means else mean
        below, above = (sum(1 for d in packets if sign * d < sign * long) for sign in (1, -1))
        base.append((len(packets), below - above, sum(abs(d - previous) for d in packets)))
        means.append(mean)
    count, skew, deviation = (sum(column) for column in zip(*base[-p.m :], strict=True))
    variability = deviation / count
    level = sum(means[-p.m :]) / len(means[-p.m :])
    crossings, side = 0, 0
    for mean in means[-p.n :]:
        now = 1 if mean > level + p.p_v * variability else -1 if mean < level - p.p_v * variability else 0
        crossings += now * side < 0
        side = now or side
    recent = [t for t in lost if last - p.n <= t // p.interval < last]
    sent = sum(row[0] for row in base[-p.n :]) + len(recent)
    return skew / count, variability, crossings / p.n, len(recent) / sent


@pytest.mark.parametrize("seed", range(20))
def test_statistics_are_those_of_the_rfc(seed):
    chance = np.random.default_rng(seed)
    time = np.sort(chance.uniform(0, 12, 400))
    delay = chance.gamma(2, 10, 400) + 8 * np.sin(time * chance.uniform(0.5, 4))
    lost = np.sort(chance.uniform(0, 12, 15))
    found = sbd.detect(time, delay, lost, parameters=SMALL)[-1]
    expected = by_the_book(time, delay, lost, SMALL)
    assert (found.skew, found.variability, found.frequency, found.loss) == pytest.approx(expected)


def test_an_offset_of_the_clocks_cancels():
    chance = np.random.default_rng(3)
    time, delay = np.arange(0, 30, 0.05), chance.gamma(2, 10, 600)
    for first, second in zip(sbd.detect(time, delay), sbd.detect(time, delay - 1e6), strict=True):
        assert first.skew == second.skew
        assert first.variability == pytest.approx(second.variability)
        assert first.frequency == second.frequency


def test_an_empty_queue_is_skewed_and_a_standing_one_is_not():
    time = np.arange(0, 60, 0.02)
    chance = np.random.default_rng(1)
    empty = np.where(chance.uniform(size=len(time)) < 0.1, 50.0, 0.0)
    standing = np.where(chance.uniform(size=len(time)) < 0.1, 0.0, 50.0)
    light, heavy = (sbd.detect(time, delay)[-1] for delay in (empty, standing))
    assert light.skew > 0.5 and not light.bottleneck
    assert heavy.skew < -0.5 and heavy.bottleneck


def test_frequency_counts_swings_and_not_noise():
    time = np.arange(0, 17.5, 0.01)
    swing = 50 * np.sign(np.sin(2 * math.pi * time / 3.5))  # a crossing every five intervals of 350 ms
    assert sbd.detect(time, swing)[-1].frequency == pytest.approx(0.2, abs=0.021)
    noise = np.random.default_rng(5).normal(0, 1, len(time))
    assert sbd.detect(time, noise)[-1].frequency == 0


def test_a_flow_stays_congested_up_to_the_higher_threshold():
    part = lambda skew: [1.0] * round(50 * (1 - skew)) + [-1.0] * round(50 * (1 + skew))  # noqa: E731
    chance = np.random.default_rng(2)

    def statistics(*skews):
        delays = np.concatenate([chance.permutation(part(skew)) for skew in skews for _ in range(20)])
        return sbd.detect(np.arange(len(delays)) / 100, delays, parameters=sbd.Parameters(interval=1.0, m=5, n=5))

    assert not statistics(0.2)[-1].bottleneck
    assert statistics(0.0, 0.2)[-1].bottleneck
    assert not statistics(0.0, 0.5, 0.2)[-1].bottleneck


def test_loss_alone_tells_a_bottleneck():
    time = np.arange(0, 40, 0.1)
    delay = np.where(np.arange(len(time)) % 5 == 0, 50.0, 0.0)
    assert not sbd.detect(time, delay, np.arange(0, 40, 2.5))[-1].bottleneck
    assert sbd.detect(time, delay, np.arange(0, 40, 1.5))[-1].bottleneck


def test_intervals_without_packets_change_nothing():
    time = np.concatenate([np.arange(0, 20, 0.05), np.arange(60, 61, 0.05)])
    delay = np.random.default_rng(4).gamma(2, 10, len(time))
    found = sbd.detect(time, delay)
    assert all(not math.isnan(one.skew) for one in found[:57])
    assert math.isnan(found[-20].skew), "nothing arrived in the last 30 intervals"
    assert not any(one.bottleneck for one in sbd.detect(np.zeros(0), np.zeros(0), end=5.0))


def statistics(skew=0.0, variability=10.0, frequency=0.1, loss=0.0, bottleneck=True):
    return sbd.Statistics(skew, variability, frequency, loss, bottleneck)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (statistics(), True),
        (statistics(frequency=0.19), True),
        (statistics(frequency=0.21), False),
        (statistics(variability=9.1), True),
        (statistics(variability=8.9), False),
        (statistics(skew=-0.14), True),
        (statistics(skew=-0.16), False),
        (statistics(loss=0.04), True),
        (statistics(bottleneck=False), False),
    ],
)
def test_flows_that_are_alike_are_grouped(other, alike):
    groups = sbd.group({"a": statistics(), "b": other, "c": statistics(bottleneck=False)})
    assert ({"a", "b"} in groups) == alike
    assert not any("c" in names for names in groups)


def test_high_loss_divides():
    high, higher = statistics(loss=0.08), statistics(loss=0.1)
    assert sbd.group({"a": high, "b": higher}) == [{"b"}, {"a"}]
    assert sbd.group({"a": high, "b": statistics(loss=0.087)}) == [{"a", "b"}]


def test_larger_groups_come_first():
    flows = {"a": statistics(frequency=0.5)} | {name: statistics() for name in "bcd"}
    assert sbd.group(flows) == [{"b", "c", "d"}, {"a"}]
    assert sbd.group({}) == []


def network(shared: bool) -> Scenario:
    """Six background flows to two places, each with other traffic; the bottleneck is before both, or one for each."""
    wide, narrow = ({"rate": rate, "delay": "10 ms", "buffer": "100 pkt"} for rate in ("100 Mbit/s", "10 Mbit/s"))
    first, last = (narrow, wide) if shared else (wide, narrow)
    links = [Link(name="first", from_="here", to="middle", forward=Channel(**first))]
    flows = []
    for place, cross in (("one", 6), ("two", 2)):
        links.append(Link(name=place, from_="middle", to=place, forward=Channel(**last)))
        ends = {"from_": "here", "to": place}
        law = "ledbat:target=60ms,filter_length=1,floor=1"
        flows.append(Flow(name=f"cross {place}", law="newreno", count=cross, start={"uniform": ["0 s", "5 s"]}, **ends))
        flows.append(Flow(name=place, law=law, role="background", count=3, start={"uniform": ["0 s", "5 s"]}, **ends))
    return Scenario(duration="60 s", link=links, flow=flows, series=Series(every="event"))


@pytest.mark.parametrize("shared", [True, False])
def test_in_a_network(shared):
    right, pairs = 0, 0
    for seed in range(1, 6):
        run = leeway.run(network(shared), seed=seed)
        found = {}
        for name in run.flows["flow"].unique().to_pylist():
            if not name.startswith("cross"):
                series = history(run, name)
                found[name] = sbd.detect(series.time, series.delay, end=60.0)[-1]
        groups = sbd.group(found)
        for a, b in combinations(found, 2):
            together = any({a, b} <= names for names in groups)
            truth = shared or a[:3] == b[:3]
            right, pairs = right + (together == truth), pairs + 1
    assert len(found) == 6
    assert right / pairs >= 0.7, f"{right} of {pairs} pairs"
