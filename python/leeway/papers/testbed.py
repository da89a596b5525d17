"""Measurements of the testbed on real hosts, in the lab's report.

A measurement takes an hour and needs root. So the lab does not measure; it reads the files that
`leeway testbed --out FILE` wrote. ``leeway-lab report --load leeway.papers.testbed`` takes the
files that the variable LEEWAY_TESTBED names, separated by colons. Without the variable it takes
``testbed.json`` in the working directory.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leeway.lab import Claim, Figure, Outcome, Table, experiment
from leeway.papers.common import PALETTE, frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab import Setting

COLUMNS = (
    ("primary req/s", "primary_per_s", 1.0),
    ("mean (ms)", "primary_mean_s", 1e3),
    ("median (ms)", "primary_p50_s", 1e3),
    ("95 % (ms)", "primary_p95_s", 1e3),
    ("99 % (ms)", "primary_p99_s", 1e3),
    ("secondary req/s", "secondary_per_s", 1.0),
    ("mean (ms)", "secondary_mean_s", 1e3),
    ("ping 99 % (ms)", "ping_p99_s", 1e3),
    ("MOS", "mos", 1.0),
    ("sent again", "retransmitted", 1.0),
)
"""Heading, name in the file, factor."""


def measured() -> list[dict[str, Any]]:
    """All experiments in the files, the last of each id.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file cannot be read, or is not one of the testbed.
    """
    files = os.environ.get("LEEWAY_TESTBED", "testbed.json").split(":")
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            for each in json.loads(Path(file).read_text(encoding="utf-8")):
                found[each["id"]] = each
        except (KeyError, TypeError, json.JSONDecodeError) as wrong:
            raise ValueError(f"{file} is not what `leeway testbed --out` writes: {wrong!r}") from wrong
    return list(found.values())


def outcome(result: dict[str, Any]) -> Outcome:
    """The claims, a figure and a table for each setup."""
    claims = [_claim(claim) for claim in result["claims"]]
    points = result["points"]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "service",
                "Service times of both classes, medians over the rounds, by the mean over both under best effort where "
                "it was measured; bars: the primary's mean, dots: its 99th percentile, crosses: the secondaries' mean.",
                lambda canvas: _bars(canvas, points),
                (9.0, 3.2 * len(points) + 0.6),
            )
        ],
        tables=[
            Table(
                f"point{number}" if len(points) > 1 else "all",
                point["label"] or "Medians over the rounds",
                ["mechanism", *(heading for heading, _, _ in COLUMNS), "mean / prim_only", "99 % / prim_only"],
                [_row(row) for row in point["rows"]],
            )
            for number, point in enumerate(points, 1)
        ],
        notes=[
            f"Measured with the kernel's TCP over an emulated line: {result['rounds']} rounds of "
            f"{result['duration_s']:g} s, mechanisms in turn. `docs/testbed.md` says what differs from the paper's."
        ],
    )


def _claim(claim: dict[str, Any]) -> Claim:
    return Claim(claim["text"], claim["published"], claim["found"], claim["holds"])


def _row(row: dict[str, Any]) -> list[str | float | None]:
    median, ratios = row["median"], row["of_prim_only"] or {}
    values = [median.get(name) for _, name, _ in COLUMNS]
    scaled = [None if value is None else value * factor for value, (_, _, factor) in zip(values, COLUMNS, strict=True)]
    return [row["mechanism"], *scaled, ratios.get("primary_mean"), ratios.get("primary_p99")]


def _bars(canvas: Canvas, points: list[dict[str, Any]]) -> None:
    for axes, point in zip(np.atleast_1d(canvas.subplots(len(points), 1)), points, strict=True):
        rows = point["rows"]
        base = next((row["median"]["both_mean_s"] for row in rows if row["mechanism"] == "best_effort"), None)

        def of(name: str, rows=rows, base=base) -> list[float]:
            values = [row["median"].get(name) for row in rows]
            return [np.nan if value is None else value / (base or 1.0) for value in values]

        places = np.arange(len(rows))
        axes.bar(places, of("primary_mean_s"), 0.6, color=PALETTE["blue"], label="primary, mean")
        axes.plot(places, of("primary_p99_s"), "o", color=PALETTE["purple"], label="primary, 99 %")
        axes.plot(places, of("secondary_mean_s"), "x", color=PALETTE["orange"], label="secondaries, mean")
        axes.set_xticks(places, [row["mechanism"] for row in rows], fontsize="x-small", rotation=20)
        axes.set_yscale("log")
        frame(axes, "", "of best effort's mean" if base else "seconds", legend=True)
        axes.set_title(point["label"], fontsize="small")
    canvas.tight_layout()


def _register(result: dict[str, Any]) -> None:
    def steps(_setting: Setting):
        return outcome(result)
        yield  # an experiment is a generator; this one needs no runs.

    steps.__doc__ = result["title"] + "."
    experiment(result["id"], title=result["title"])(steps)


for _each in measured():
    _register(_each)
