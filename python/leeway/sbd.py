"""Shared-bottleneck detection (RFC 8382): which flows share a queue, judged by their one-way
delays.

Every `interval` (T) the delays of a flow are summarised. Sums over the last M or N intervals give
four `Statistics`. Flows are in one group if their statistics show a bottleneck and are alike.

>>> groups = group({name: detect(time, delay) for name, (time, delay) in samples.items()})

Scope and limitations
---------------------
- The offset of the clocks cancels; a skew of clocks (RFC 8382, 3.2.6 and section 4) is not
  corrected.
- An interval without a packet adds nothing to the sums, and does not change the mean. The RFC
  assumes media flows,
  which have packets in every interval.
- The weights of section 4 that remove noise (F) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Parameters:
    """Constants of RFC 8382, section 2.2, with its values.

    Attributes
    ----------
    interval
        T (s).
    n, m
        Intervals of the long sums (oscillation, loss) and of the short ones (skewness,
        variability).
    c_s, c_h
        Skewness below which a flow passes a bottleneck; the same for a flow that passed one
        before.
    p_l
        Loss above which a flow passes a bottleneck, whatever its skewness.
    p_v
        Part of the variability by which a significant crossing of the mean goes beyond the mean.
    p_f, p_mad, p_s, p_d
        Largest differences within a group: of frequency; of variability, relative; of skewness; of
        loss, relative.
    """

    interval: float = 0.35
    n: int = 50
    m: int = 30
    c_s: float = 0.1
    c_h: float = 0.3
    p_l: float = 0.05
    p_v: float = 0.7
    p_f: float = 0.1
    p_mad: float = 0.1
    p_s: float = 0.15
    p_d: float = 0.1


RFC = Parameters()


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one flow at one instant.

    Attributes
    ----------
    skew
        Packets with delays below the mean, minus packets with delays above it, over all packets.
        Negative or zero while there is a standing queue, positive while the queue is mostly empty,
        not-a-number without packets.
    variability
        Mean absolute deviation of the delays from the mean of the interval before, in the unit of
        the delays.
    frequency
        Significant crossings of the mean, per interval.
    loss
        Packets lost over packets sent.
    bottleneck
        Whether the flow passes a bottleneck.
    """

    skew: float
    variability: float
    frequency: float
    loss: float
    bottleneck: bool


@dataclass(frozen=True, slots=True)
class _Sums:
    """For each interval: packets, their mean delay, and the base sums of skewness and
    variability."""

    count: np.ndarray
    mean: np.ndarray
    skew: np.ndarray
    variability: np.ndarray


def _long_mean(means: Sequence[float], m: int) -> float:
    recent = means[-m:]
    return sum(recent) / len(recent) if recent else np.nan


def _sums(index: np.ndarray, delay: np.ndarray, intervals: int, m: int) -> _Sums:
    """3.2.1 to 3.2.3; `index` says into which interval a sample falls, ascending."""
    edges = np.searchsorted(index, np.arange(intervals + 1))
    sums = _Sums(*(np.zeros(intervals) for _ in range(4)))
    sums.mean[:] = np.nan
    means: list[float] = []  # of the intervals so far that had packets
    for i in range(intervals):
        part = delay[edges[i] : edges[i + 1]]
        if not len(part):
            continue
        # 3.2.2 and 3.2.3 take the means up to the interval before, so that they can be counted
        # packet by packet.
        long, last = (_long_mean(means, m), means[-1]) if means else (part.mean(), part.mean())
        sums.count[i] = len(part)
        sums.mean[i] = part.mean()
        sums.skew[i] = np.sign(long - part).sum()
        sums.variability[i] = np.abs(part - last).sum()
        means.append(float(sums.mean[i]))
    return sums


def _crossings(means: np.ndarray, level: float, margin: float) -> int:
    """3.2.4: how often the means go from below level - margin to above level + margin, or back."""
    side = np.where(means < level - margin, -1, np.where(means > level + margin, 1, 0))
    side = side[side != 0]
    return int(np.count_nonzero(side[1:] != side[:-1]))


def detect(
    time: np.ndarray,
    delay: np.ndarray,
    lost: np.ndarray | None = None,
    end: float | None = None,
    parameters: Parameters = RFC,
) -> list[Statistics]:
    """Statistics of a flow at the end of each interval.

    Parameters
    ----------
    time
        Instants at which packets arrived or were acknowledged (s), ascending.
    delay
        Their one-way delays, with any constant offset, in any unit.
    lost
        Instants at which packets were lost (s), ascending; none if left out.
    end
        Until when (s); the last sample's instant if left out.
    parameters
        The constants.
    """
    time, delay = np.asarray(time, dtype=float), np.asarray(delay, dtype=float)
    lost = np.zeros(0) if lost is None else np.asarray(lost, dtype=float)
    end = end if end is not None else float(time[-1]) if len(time) else 0.0
    p = parameters
    intervals = int(end / p.interval + 1e-9)
    within = time < intervals * p.interval
    sums = _sums((time[within] / p.interval).astype(int), delay[within], intervals, p.m)
    losses = np.bincount((lost[lost < intervals * p.interval] / p.interval).astype(int), minlength=intervals)
    found: list[Statistics] = []
    for i in range(intervals):
        short, long = slice(max(0, i + 1 - p.m), i + 1), slice(max(0, i + 1 - p.n), i + 1)
        packets = sums.count[short].sum()
        skew = sums.skew[short].sum() / packets if packets else np.nan
        variability = sums.variability[short].sum() / packets if packets else np.nan
        known = sums.mean[short][~np.isnan(sums.mean[short])]
        level = known.mean() if len(known) else np.nan
        means = sums.mean[long][~np.isnan(sums.mean[long])]
        frequency = _crossings(means, level, p.p_v * variability) / p.n
        sent = sums.count[long].sum() + losses[long].sum()
        loss = losses[long].sum() / sent if sent else 0.0
        before = found[-1].bottleneck if found else False
        found.append(
            Statistics(
                float(skew),
                float(variability),
                float(frequency),
                float(loss),
                bool(skew < p.c_s or (before and skew < p.c_h) or loss > p.p_l),
            )
        )
    return found


def _split(names: Sequence[str], value: Mapping[str, float], gap) -> list[list[str]]:
    """Sorted by `value`, largest first; a new part begins where the step down exceeds `gap` of the
    value before."""
    parts: list[list[str]] = []
    for name in sorted(names, key=lambda name: -value[name]):
        if parts and value[parts[-1][-1]] - value[name] <= gap(value[parts[-1][-1]]):
            parts[-1].append(name)
        else:
            parts.append([name])
    return parts


def group(flows: Mapping[str, Statistics], parameters: Parameters = RFC) -> list[set[str]]:
    """Flows that share a bottleneck (RFC 8382, 3.3.1), largest group first; a flow without a
    bottleneck is in no group.

    Flows are divided by frequency, each part by variability, then by skewness, and by loss where
    it is high enough to compare.
    """
    p = parameters
    parts = [[name for name, found in flows.items() if found.bottleneck]]
    steps = (
        ("frequency", lambda value: p.p_f),
        ("variability", lambda value: p.p_mad * value),
        ("skew", lambda value: p.p_s),
    )
    for name, gap in steps:
        value = {flow: getattr(found, name) for flow, found in flows.items()}
        parts = [piece for part in parts for piece in _split(part, value, gap)]
    loss = {flow: found.loss for flow, found in flows.items()}
    divided: list[list[str]] = []
    for part in parts:
        high = all(loss[name] > p.p_l for name in part)
        divided += _split(part, loss, lambda value: p.p_d * value) if high else [part]
    return sorted((set(part) for part in divided if part), key=len, reverse=True)
