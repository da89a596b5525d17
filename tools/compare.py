"""Prints what simulated experiments gave beside what was published.

usage: compare.py FOLDER...

Takes the folders that `leeway sim --out` wrote. A value within its bounds counts as reproduced.
One outside is a difference to be explained, not an error, so the exit code stays 0.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Point = dict[str, Any]
INFINITY = float("inf")


@dataclass
class Claim:
    """One published number, and how to read it off a summary."""

    experiment: str
    what: str
    published: str
    least: float
    most: float
    value: Callable[[Point], float | None]
    shown: str = "{:.2f}"

    def row(self, point: Point) -> list[str]:
        value = self.value(point)
        if value is None:
            return [self.experiment, self.what, self.published, "-", "missing"]
        verdict = "as published" if self.least <= value <= self.most else "DIFFERENT"
        return [self.experiment, self.what, self.published, self.shown.format(value), verdict]


def overall(metric: str, window: int = -1) -> Callable[[Point], float | None]:
    return lambda point: mean(point["statistics"][window]["overall"][metric])


def group(name: str, metric: str, window: int = -1) -> Callable[[Point], float | None]:
    def value(point: Point) -> float | None:
        rows = point["statistics"][window]["groups"]
        return next((mean(row[metric]) for row in rows if row["name"] == name), None)

    return value


def link(metric: str, window: int = -1) -> Callable[[Point], float | None]:
    return lambda point: mean(point["statistics"][window]["links"][0][metric])


def mean(estimate: dict[str, float] | None) -> float | None:
    return None if estimate is None else estimate["mean"]


def ratio(a: Callable[[Point], float | None], b: Callable[[Point], float | None]) -> Callable[[Point], float | None]:
    def value(point: Point) -> float | None:
        numerator, denominator = a(point), b(point)
        return numerator / denominator if numerator is not None and denominator else None

    return value


def gain_over_alone(point: Point) -> float | None:
    """By how much everything together exceeds what the primary carries in the baseline run, in per cent."""
    beside = group("tcp", "throughput_bps")(point)
    background = group("ledbat", "throughput_bps")(point)
    capacity = link("capacity_bps")(point)
    spare_use = overall("spare_use")(point)
    if not (beside and background and capacity and spare_use):
        return None
    alone = capacity - background / spare_use
    return 100 * ((beside + background) / alone - 1)


TCP_TO_LEDBAT = ratio(group("tcp", "throughput_bps"), group("ledbat", "throughput_bps"))
LEDBAT_TO_TCP = ratio(group("ledbat", "throughput_bps"), group("tcp", "throughput_bps"))
SECOND_TO_FIRST = ratio(group("second", "throughput_bps"), group("first", "throughput_bps"))

CLAIMS = [
    Claim("rossi2010/fig2a", "Jain's index of TCP and LEDBAT", "0.65", 0.58, 0.72, overall("jain")),
    Claim("rossi2010/fig2a", "bytes of TCP for one of LEDBAT", "6", 5, 8, TCP_TO_LEDBAT, "{:.1f}"),
    Claim("rossi2010/fig2a", "gain over TCP alone, per cent", "16", 10, 22, gain_over_alone, "{:.1f}"),
    Claim("rossi2010/fig2b", "Jain's index of two LEDBAT flows", "> 0.99", 0.99, 1, overall("jain"), "{:.3f}"),
    Claim("rossi2010/fig3-2s-40pkt", "late-comer / first", "< 1", 0, 1, SECOND_TO_FIRST),
    Claim("rossi2010/fig3-10s-100pkt", "late-comer / first: starved", "> 1", 1, INFINITY, SECOND_TO_FIRST),
    Claim("rossi2010/fig3-10s-100pkt", "packets dropped", "0", 0, 0, link("dropped"), "{:.0f}"),
    Claim(
        "trang2014/fig3.1",
        "LEDBAT's share, buffer below target",
        "equal",
        0.45,
        0.55,
        group("ledbat", "share"),
    ),
    Claim("trang2014/fig3.2A", "LEDBAT / TCP, both at 0", "> 1", 1, INFINITY, LEDBAT_TO_TCP),
    Claim("trang2014/fig3.2B", "LEDBAT / TCP, LEDBAT first", "> 1", 1, INFINITY, LEDBAT_TO_TCP),
    Claim("trang2014/fig3.2C", "LEDBAT / TCP, TCP first", "> 1", 1, INFINITY, LEDBAT_TO_TCP),
    Claim("trang2014/fig5.3-ledbat", "late-comer / first, last 50 s", "starves it", 5, INFINITY, SECOND_TO_FIRST),
    Claim("trang2014/fig5.3-flower", "Jain's index, last 50 s", "> 0.95", 0.95, 1, overall("jain"), "{:.3f}"),
]


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    points = {}
    for folder in sys.argv[1:]:
        summary = (Path(folder) / "summary.json").read_text(encoding="utf-8")
        for point in json.loads(summary)["points"]:
            file = Path(point["file"])
            points[f"{file.parent.name}/{file.stem}"] = point
    rows = [["experiment", "what", "published", "here", ""]]
    rows += [claim.row(points[claim.experiment]) for claim in CLAIMS if claim.experiment in points]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
