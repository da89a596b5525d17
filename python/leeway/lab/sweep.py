"""A scenario file with its sweep and repetitions, run through the same cache and engines as the
experiments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

import leeway
from leeway.lab.experiment import Case, Results
from leeway.lab.statistics import Interval
from leeway.sweeps import points

if TYPE_CHECKING:
    from leeway import GroupSummary, Scenario, WindowSummary

AT_A_TIME = 1000
"""Number of runs that become rows together, so that memory does not grow with the sweep."""


def cases(scenario: Scenario, seeds: int | None = None) -> list[Case]:
    """All points of the scenario's sweep, each with the seeds of its repetitions. Labels are the
    swept paths.

    Parameters
    ----------
    seeds
        Number of seeds; the scenario's number of repetitions if None.
    """
    first = scenario.seed
    numbers = range(first, first + (seeds or scenario.repetitions))
    return [Case(point, seed, labels) for labels, point in points(scenario) for seed in numbers]


def tables(results: Results) -> Iterator[pa.Table]:
    """All metrics, as columns of `leeway.summaries`; each table has a part of the runs."""
    schema = None
    for start in range(0, len(results), AT_A_TIME):
        some = leeway.summaries(results[start : start + AT_A_TIME])
        number = pa.compute.add(some["run"], start)
        some = some.set_column(some.schema.get_field_index("run"), "run", number)
        schema = schema or some.schema
        yield some.cast(schema)


def write(results: Results, path: Path) -> None:
    """Writes all metrics to a file, which appears when it is complete; `check_name` checks its
    name."""
    check_name(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        writer = None
        for some in tables(results):
            if writer is None:
                writer = _writer(path.suffix)(part, some.schema)
            writer.write_table(some)
        if writer is not None:
            writer.close()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_name(path: Path) -> None:
    """Raises an error if a table cannot be written there.

    Raises
    ------
    ValueError
        If the name ends neither in ``.csv`` nor in ``.parquet``, or there is no such folder.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{path} must end in .csv or .parquet: that says what is to be written")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for {path.name}")


def _writer(suffix: str) -> Callable[..., Any]:
    if suffix == ".csv":
        from pyarrow.csv import CSVWriter

        return CSVWriter
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter


SHOWN: dict[str, Callable[[WindowSummary, GroupSummary], float | None]] = {
    "Mbit/s": lambda window, group: group.throughput_bps / 1e6,
    "share": lambda window, group: group.share,
    "Jain": lambda window, group: group.jain,
    "loss %": lambda window, group: group.loss * 100,
    "delay p95 ms": lambda window, group: group.owd and group.owd.p95_s * 1e3,
    "link used %": lambda window, group: window.link().utilisation * 100 if window.links else None,
}
"""Metrics of the table on a terminal, by heading."""


def means(results: Results) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a short table: for each point, window and group the means over
    seeds."""
    paths: list[str] = []
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for result in results:
        paths = list(result.labels)
        at = [str(value) for value in result.labels.values()]
        for window in result.run().windows:
            for group in window.groups:
                values = found.setdefault((*at, window.name, group.name), {heading: [] for heading in SHOWN})
                for heading, metric in SHOWN.items():
                    if (value := metric(window, group)) is not None:
                        values[heading].append(value)
    rows = [[*at, *(_short(values[heading]) for heading in SHOWN)] for at, values in found.items()]
    return [*paths, "window", "group", *SHOWN], rows


def _short(values: list[float]) -> str:
    if not values:
        return ""
    mean = Interval.of(values)
    return f"{mean.mean:.3f}" if mean.count == 1 else f"{mean.mean:.3f} ± {mean.half:.2g}"
