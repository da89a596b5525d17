"""Summaries of many runs as one table."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leeway.results import GroupSummary, Run, WindowSummary, shapes

if TYPE_CHECKING:
    from leeway.lab import Result


def summaries(runs: Iterable[Run | Result]) -> pa.Table:
    """Summaries of many runs as one table: a row for each run, window and group.

    Parameters
    ----------
    runs
        An iterable of `Run`, or of results of an experiment, whose labels become columns.

    Returns
    -------
    pyarrow.Table
        Columns: the labels (``label_`` before a label with the name of another column); run
        (counted from 0), seed, window, from_s, to_s; group (its name) and the other fields of
        `GroupSummary`, where each number of `Percentiles` and of `PeerSummary` has a column
        (rtt_mean_s, swarm_share_ratio_mean); harm_throughput, harm_delay, harm_completion of a
        primary group; window_jain and spare_use of the window; link_capacity_bps,
        link_utilisation, link_loss, link_queue_fill, link_queue_mean_pkt of the window's first
        link.
    """
    labels: dict[str, list[Any]] = {}
    found: dict[str, list[Any]] = {name: [] for name in columns()}
    rows = 0
    for number, entry in enumerate(runs):
        run, of_run = (entry, {}) if isinstance(entry, Run) else (entry.run(), entry.labels)
        for window in run.windows:
            for row in rows_of(window):
                for name, value in {"run": number, "seed": run.seed, **row}.items():
                    found[name].append(value)
                for name, value in of_run.items():
                    name = f"label_{name}" if name in found else name
                    labels.setdefault(name, [None] * rows).append(value)
                rows += 1
                for values in labels.values():
                    values.extend([None] * (rows - len(values)))
    data = {name: pa.array(values) for name, values in labels.items()}
    return pa.table(data | {name: pa.array(values, columns()[name]) for name, values in found.items()})


def rows_of(window: WindowSummary) -> Iterator[dict[str, Any]]:
    """A row for each group of a window, without the columns that say which run it is."""
    harms = {harm.name: harm for harm in window.harm.groups} if window.harm else {}
    for group in window.groups:
        row: dict[str, Any] = {"window": window.name, "from_s": window.from_s, "to_s": window.to_s}
        for name, (inner, _) in shapes(GroupSummary).items():
            value = getattr(group, name)
            if inner is not None:
                row |= {f"{name}_{each.name}": getattr(value, each.name, None) for each in dataclasses.fields(inner)}
            else:
                row["group" if name == "name" else name] = value
        row |= {f"harm_{name}": getattr(harms.get(group.name), name, None) for name in _HARMS}
        row |= {"window_jain": window.jain, "spare_use": window.harm and window.harm.spare_use}
        link = window.links[0] if window.links else None
        yield row | {f"link_{name}": getattr(link, name, None) for name in _LINK}


_HARMS = ("throughput", "delay", "completion")
_LINK = ("capacity_bps", "utilisation", "loss", "queue_fill", "queue_mean_pkt")
_TEXT = ("window", "group", "role", "law")


def _type(hint: Any) -> pa.DataType:
    return pa.int64() if hint is int else pa.float64()


@functools.cache
def columns() -> dict[str, pa.DataType]:
    """The columns of every table, and their types."""
    names = dict.fromkeys(("run", "seed"), pa.int64()) | dict.fromkeys(("window", "from_s", "to_s"), pa.float64())
    for name, hint in typing.get_type_hints(GroupSummary).items():
        inner, _ = shapes(GroupSummary)[name]
        if inner is not None:
            names |= {f"{name}_{field}": _type(hint) for field, hint in typing.get_type_hints(inner).items()}
        else:
            names["group" if name == "name" else name] = _type(hint)
    harms, links = (f"harm_{name}" for name in _HARMS), (f"link_{name}" for name in _LINK)
    names |= dict.fromkeys([*harms, "window_jain", "spare_use", *links], pa.float64())
    return names | {name: pa.string() for name in _TEXT}
