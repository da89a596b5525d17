"""Shares of a large grid, counted, or estimated from a stratified sample.

A grid is cut into cells; the points of a cell stand in a line, ordered by what should be covered
evenly. The line is cut into as many pieces of equal length as points are to be drawn, and from
each piece one point is drawn, all alike. So each point of a cell is as likely as any other, and
the share of the drawn points that have a property is an unbiased estimate of the cell's.

Its interval is Wilson's for a proportion, with the number of drawn points as trials.
Stratification can only make the estimate better than that: with shares p_i of the pieces the
variance is sum p_i (1 - p_i) / m^2, and that is at most p (1 - p) / m. Cells are combined with
their sizes as weights, and with Kish's effective number of trials.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Point = TypeVar("Point", bound=Hashable)

Z = 1.959964
"""Quantile of the normal distribution for 95 %."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of some points has a property.

    Attributes
    ----------
    mean
        The part.
    low, high
        95 % confidence interval; both are `mean` where every point was looked at.
    size
        Number of points that it is a part of.
    trials
        Number of points looked at, or what they are worth.
    """

    mean: float
    low: float
    high: float
    size: int
    trials: float

    @property
    def counted(self) -> bool:
        """Whether every point was looked at."""
        return self.trials >= self.size

    def __str__(self) -> str:
        mean = f"{100 * self.mean:.1f} %"
        return mean if self.counted else f"{mean} ({100 * self.low:.1f} to {100 * self.high:.1f})"


def draw(line: Sequence[Point], count: int, generator: np.random.Generator) -> list[Point]:
    """One point from each of `count` pieces of the line; all of the line if it is no longer than
    that."""
    if count >= len(line):
        return list(line)
    edges = (np.arange(count) + generator.random(count)) * (len(line) / count)
    return [line[int(edge)] for edge in edges]


def share(drawn: Iterable[bool], size: int) -> Share:
    """The share of a cell of `size` points, from the points drawn."""
    found = [bool(x) for x in drawn]
    mean = sum(found) / len(found)
    return Share(mean, *_interval(mean, len(found), size), size, len(found))


def combined(shares: Iterable[Share]) -> Share:
    """The share of several cells together."""
    cells = list(shares)
    size = sum(cell.size for cell in cells)
    mean = sum(cell.mean * cell.size for cell in cells) / size
    if all(cell.counted for cell in cells):
        return Share(mean, mean, mean, size, size)
    trials = 1 / sum((cell.size / size) ** 2 / cell.trials for cell in cells)
    return Share(mean, *_interval(mean, trials, size), size, trials)


def by(shares: Mapping[tuple, Share], *which: int) -> dict[tuple, Share]:
    """Shares of cells combined by some parts of their keys."""
    groups: dict[tuple, list[Share]] = {}
    for key, cell in shares.items():
        groups.setdefault(tuple(key[i] for i in which), []).append(cell)
    return {key: combined(cells) for key, cells in groups.items()}


def _interval(mean: float, trials: float, size: int) -> tuple[float, float]:
    if trials >= size:
        return mean, mean
    spread = Z * Z / trials
    centre = (mean + spread / 2) / (1 + spread)
    half = math.sqrt(mean * (1 - mean) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
