"""A scenario file with its sweep and repetitions, run through the same cache and engines as the experiments."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leeway.lab.experiment import Case, Results
from leeway.lab.statistics import Interval
from leeway.lab.summaries import Row, rows

if TYPE_CHECKING:
    from leeway import Scenario


def cases(scenario: Scenario, seeds: int | None = None) -> list[Case]:
    """All points of the scenario's sweep, each with the seeds of its repetitions; labelled by the paths swept.

    Parameters
    ----------
    seeds
        Number of seeds, instead of the scenario's own number of repetitions.
    """
    first = scenario.seed
    numbers = range(first, first + (seeds or scenario.repetitions))
    return [Case(point, seed, labels) for labels, point in points(scenario) for seed in numbers]


def points(scenario: Scenario) -> Iterator[tuple[dict[str, str], Scenario]]:
    """Every combination of the values of the sweep, the last path changing fastest."""
    sweep = dict(scenario.sweep or {})
    for values in itertools.product(*sweep.values()):
        labels = dict(zip(sweep, values, strict=True))
        point = scenario
        for path, value in labels.items():
            point = point.set(path, value)
        yield labels, point


def table(results: Results) -> Iterator[list[Row]]:
    """Rows of each run in turn."""
    for result in results:
        yield list(rows(result.run(), result.labels))


SHOWN = {
    "throughput_bps": ("Mbit/s", 1e-6),
    "share": ("share", 1.0),
    "jain": ("Jain", 1.0),
    "loss": ("loss %", 100.0),
    "owd_p95_ms": ("delay p95 ms", 1.0),
    "link_utilisation": ("link used", 1.0),
}
"""Columns that are shown on a terminal: their headings and factors."""


def means(results: Results) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a short table: for each point, window and group the means over seeds."""
    points: dict[tuple[str, ...], dict[str, list[float]]] = {}
    names: list[str] = []
    for part in table(results):
        for row in part:
            names = list(row)[: list(row).index("seed")]
            values = points.setdefault(tuple(str(row[name]) for name in [*names, "window", "group"]), {})
            for column in SHOWN:
                if row[column] is not None:
                    values.setdefault(column, []).append(row[column])
    lines = [
        [*point, *(_short(values.get(column), factor) for column, (_, factor) in SHOWN.items())]
        for point, values in points.items()
    ]
    return [*names, "window", "group", *(heading for heading, _ in SHOWN.values())], lines


def _short(values: list[float] | None, factor: float) -> str:
    if not values:
        return ""
    mean = Interval.of(values).scaled(factor)
    return f"{mean.mean:.3f}" if mean.count == 1 else f"{mean.mean:.3f} ± {mean.half:.2g}"
