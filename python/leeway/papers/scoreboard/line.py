"""A law over all networks of a board: medians, tails, intervals, and the order of the laws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leeway.papers.scoreboard.measure import BULK, LOSS_BASED
from leeway.papers.scoreboard.networks import Network
from leeway.papers.scoreboard.rows import BOUND, Row
from leeway.papers.scoreboard.score import Score

MARGIN = 0.2
"""Largest harm of a less-than-best-effort law: a primary keeps four fifths of its throughput
(Trang 2014, 3.3)."""

FEW = 0.05
"""Largest share of networks on which a law may fail and is still ranked by its spare use."""

RESAMPLES = 1000
"""Number of resamples of networks, and of the seeds of each, for an interval (percentile
bootstrap)."""

SEED = 1

Scores = dict[tuple[str, str], Score]


@dataclass(frozen=True)
class Line:
    """A law over all networks; `fair` names the networks with a fair queue.

    `bulk` names the numbers of a score that count as harm to bulk throughput. On each network the
    largest one counts.
    """

    row: Row
    scores: dict[str, Score]
    fair: frozenset[str] = frozenset()
    bulk: tuple[str, ...] = tuple(kind.lower() for kind in LOSS_BASED)

    def values(self, name: str) -> np.ndarray:
        """A number of each network; for "bulk" the largest harm to bulk throughput."""
        if name == "bulk":
            return np.fmax.reduce([self.values(kind) for kind in self.bulk])
        return np.array([getattr(score, name) for score in self.scores.values()], dtype=float)

    def median(self, name: str) -> float:
        """Median over the networks where the number exists."""
        return self.quantile(name, 0.5)

    def quantile(self, name: str, share: float) -> float:
        """Quantile over the networks where the number exists."""
        values = self.values(name)
        values = values[~np.isnan(values)]
        return float(np.quantile(values, share)) if len(values) else math.nan

    def worst(self, name: str) -> tuple[float, str]:
        """The largest value, and its network."""
        values = self.values(name)
        if np.isnan(values).all():
            return math.nan, ""
        index = int(np.nanargmax(values))
        return float(values[index]), list(self.scores)[index]

    @cached_property
    def is_fair(self) -> np.ndarray:
        """For each network, whether its queue is fair."""
        return np.array([name in self.fair for name in self.scores])

    @property
    def harm(self) -> np.ndarray:
        """For each network, the largest harm to bulk throughput or to answers."""
        return np.fmax(self.values("bulk"), self.values("web"))

    @property
    def fails(self) -> float:
        """Share of the networks without a fair queue on which harm to a bulk or web primary
        exceeds the margin."""
        return failing(self.harm[~self.is_fair])

    @property
    def fails_fair(self) -> float:
        """The same for the networks with a fair queue; not-a-number without any."""
        return failing(self.harm[self.is_fair])

    def interval(
        self,
        statistic: Callable[[np.ndarray], np.ndarray],
        names: Sequence[str],
        without: frozenset[str] = frozenset(),
    ) -> tuple[float, float]:
        """95 % interval of a statistic of the largest of the named numbers on each network, but for
        those `without`.

        Networks are drawn again, and the seeds of each network (percentile bootstrap). `statistic`
        takes a table with a row for each resample.
        """
        places = [score for name, score in self.scores.items() if name not in without]
        seeds = max((len(score.values.get(name, ())) for score in places for name in names), default=0)
        if not seeds:
            return math.nan, math.nan
        chance = np.random.default_rng(SEED)
        networks = chance.integers(len(places), size=(RESAMPLES, len(places)))
        drawn = chance.integers(seeds, size=(RESAMPLES, len(places), seeds))
        found = np.fmax.reduce([means(places, name, networks, drawn) for name in names])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a resample without any number
            low, high = np.nanquantile(statistic(found), (0.025, 0.975))
        return float(low), float(high)

    @cached_property
    def fails_interval(self) -> tuple[float, float]:
        """95 % interval of `fails`."""
        return self.interval(lambda harm: np.mean(harm > MARGIN, axis=1), (*self.bulk, "web"), self.fair)

    def quantile_interval(self, name: str, share: float) -> tuple[float, float]:
        """95 % interval of `quantile`."""
        names = self.bulk if name == "bulk" else (name,)
        return self.interval(lambda values: np.nanquantile(values, share, axis=1), names)


def failing(harm: np.ndarray) -> float:
    """Share of the networks with more harm than the margin."""
    return float(np.mean(harm > MARGIN)) if len(harm) else math.nan


def means(places: Sequence[Score], name: str, networks: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Of each resample of networks the means over their resampled seeds; not-a-number where there
    is none."""
    table = np.full((len(places), drawn.shape[2]), math.nan)
    for row, score in zip(table, places, strict=True):
        found = score.values.get(name, [])
        row[:] = np.resize(found, len(row)) if found else math.nan
    return np.take_along_axis(table[networks], drawn, axis=2).mean(axis=2)


def lines(found: Scores, places: Iterable[Network], rows: Iterable[Row]) -> list[Line]:
    """The bounds; then, best first, laws that fail on few networks by spare use; then the others
    by how many."""
    places = list(places)
    fair = frozenset(place.name for place in places if place.fair)
    drawn = all(len(place.laws) == 1 for place in places)
    bulk = tuple(kind.lower() for kind in (BULK if drawn else LOSS_BASED))
    made = [Line(row, {place.name: found[row.name, place.name] for place in places}, fair, bulk) for row in rows]
    return sorted(made, key=rank)


def rank(line: Line) -> tuple[float, ...]:
    """What lines are sorted by."""
    if line.row.source == BOUND:
        return 0, line.fails, line.median("spare") if line.row.sends else -1
    if line.fails <= FEW:
        return 1, -line.median("spare"), line.fails
    return 2, line.fails, line.median("bulk")
