"""Figures and tables of an outcome as files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leeway.lab import figures
from leeway.lab.driver import Finished
from leeway.lab.experiment import Table
from leeway.lab.report import files
from leeway.lab.statistics import Interval

CLAIMS = ("claim", "published", "found", "verdict", "accepted", "why")


def export(finished: Finished, out: Path) -> Path:
    """Writes claims.csv, figures as SVG and PNG, tables as CSV to PAPER/EXPERIMENT in `out`;
    returns this folder."""
    paper, _, name = finished.experiment.id.partition(":")
    folder = out / _file(paper) / _file(name) if name else out / _file(paper)
    files.prepare(folder)
    outcome = finished.outcome
    if outcome is None:
        return folder
    if outcome.claims:
        rows = [(c.text, c.published, c.found, c.verdict, c.accept, c.why) for c in outcome.claims]
        files.write(folder / "claims.csv", _csv(CLAIMS, rows))
    for figure in outcome.figures:
        files.write(folder / f"{_file(figure.name)}.svg", figures.svg(figure))
        files.write(folder / f"{_file(figure.name)}.png", figures.png(figure))
    for table in outcome.tables:
        files.write(folder / f"{_file(table.name)}.csv", _csv(*flat(table)))
    return folder


def flat(table: Table) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of plain numbers and text: a column with intervals is followed by one with
    their half widths."""
    spread = [any(isinstance(row[i], Interval) for row in table.rows) for i in range(len(table.columns))]
    columns = []
    for column, has in zip(table.columns, spread, strict=True):
        columns += [column, f"{column} ±"] if has else [column]
    return columns, [list(_cells(row, spread)) for row in table.rows]


def _cells(row: Sequence[Any], spread: Sequence[bool]) -> Iterator[Any]:
    for value, has in zip(row, spread, strict=True):
        yield value.mean if isinstance(value, Interval) else value
        if has:
            yield value.half if isinstance(value, Interval) else None


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    out = csv.writer(text, lineterminator="\n")
    out.writerow(columns)
    out.writerows(rows)
    return text.getvalue()


def _file(name: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "unnamed"
