"""Summaries of runs as rows: one for each group of flows in each window of each run."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from leeway import Percentiles, Run

Row = dict[str, Any]


def rows(run: Run, labels: Mapping[str, Any]) -> Iterator[Row]:
    """The metrics of a run, by group and window, with `labels` in front.

    Units are in the names, shares and indices are fractions. What does not exist (transfers of a bulk flow, harm
    without a baseline) is None. The link is the first one of the scenario.
    """
    for window in run.windows:
        link = window.link() if window.links else None
        harm = {each.name: each for each in window.harm.groups} if window.harm else {}
        for group in window.groups:
            hurt = harm.get(group.name)
            yield {
                **labels,
                "seed": run.seed,
                "window": window.name,
                "from_s": window.from_s,
                "to_s": window.to_s,
                "group": group.name,
                "law": group.law,
                "role": str(group.role),
                "flows": _count(group.flows),
                "throughput_bps": group.throughput_bps,
                "goodput_bps": group.goodput_bps,
                "share": group.share,
                "capacity_share": group.capacity_share,
                "jain": group.jain,
                "sent": group.sent,
                "retransmitted": group.retransmitted,
                "dropped": group.dropped,
                "loss": group.loss,
                "timeouts": group.timeouts,
                "cwnd_mean_pkt": group.cwnd_mean_pkt,
                "mos": group.mos,
                **_times("rtt", group.rtt),
                **_times("owd", group.owd),
                "completed": group.completed,
                **_times("completion", group.completion),
                "jain_of_all": window.jain,
                "link_capacity_bps": link and link.capacity_bps,
                "link_utilisation": link and link.utilisation,
                "link_loss": link and link.loss,
                "link_queue_fill": link and link.queue_fill,
                "link_queue_mean_pkt": link and link.queue_mean_pkt,
                **_times("link_delay", link and link.delay),
                "harm_throughput": hurt and hurt.throughput,
                "harm_delay": hurt and hurt.delay,
                "harm_completion": hurt and hurt.completion,
                "spare_use": window.harm and window.harm.spare_use,
            }


class Writer(Protocol):
    """Takes rows, a run at a time."""

    def write(self, rows: Iterable[Row]) -> None:
        """Adds rows."""

    def close(self) -> None:
        """Finishes the file; before this the place it is meant for is as it was."""


def writer(path: Path) -> Writer:
    """Writes a table of summaries; the end of the name says how.

    Raises
    ------
    ValueError
        If the name ends neither in ``.csv`` nor in ``.parquet``.
    """
    kinds = {".csv": CsvWriter, ".parquet": ParquetWriter}
    if path.suffix not in kinds:
        raise ValueError(f"{path} must end in .csv or .parquet: that says what is to be written")
    return kinds[path.suffix](path)


class CsvWriter:
    """Rows as comma-separated values; what does not exist is left empty."""

    def __init__(self, path: Path):
        self._path, self._part = path, _part(path)
        self._file = self._part.open("w", newline="", encoding="utf-8")
        self._csv: csv.DictWriter | None = None

    def write(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if self._csv is None:
                self._csv = csv.DictWriter(self._file, list(row))
                self._csv.writeheader()
            self._csv.writerow(row)

    def close(self) -> None:
        self._file.close()
        self._part.replace(self._path)


class ParquetWriter:
    """Rows as Parquet, some thousands in memory."""

    ROWS = 5000

    def __init__(self, path: Path):
        self._path, self._part = path, _part(path)
        self._part.touch()  # says now whether it can be written
        self._rows: list[Row] = []
        self._writer: Any = None

    def write(self, rows: Iterable[Row]) -> None:
        self._rows.extend(rows)
        if len(self._rows) >= self.ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._part.replace(self._path)

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter as File

        if self._writer is None:
            self._writer = File(self._part, _schema(self._rows))
        self._writer.write_table(pa.Table.from_pylist(self._rows, self._writer.schema))
        self._rows = []


def _schema(rows: list[Row]) -> Any:
    """Types by name, so that a column of None only does not get a type of its own."""
    import pyarrow as pa

    text = {"window", "group", "law", "role"}
    counts = {"seed", "flows", "sent", "retransmitted", "dropped", "timeouts", "completed"}
    first = rows[0] if rows else {}
    labels = list(first)[: list(first).index("seed")] if first else []

    def kind(name: str) -> Any:
        if name in labels:
            return pa.array([row[name] for row in rows]).type
        return pa.string() if name in text else pa.int64() if name in counts else pa.float64()

    return pa.schema([(name, kind(name)) for name in first])


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _count(flows: Any) -> int:
    return flows if isinstance(flows, int) else len(flows)


def _times(name: str, times: Percentiles | None) -> Row:
    """Mean and percentiles in milliseconds."""
    empty = times is None or times.count == 0
    return {
        f"{name}_{what}_ms": None if empty else getattr(times, f"{what}_s") * 1e3
        for what in ("mean", "p50", "p95", "p99")
    }
