"""The table of docs/testbed.md that has live and simulated figures side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import leeway
from leeway.lab import Setting
from leeway.lab.cache import Cache
from leeway.lab.driver import run_cases
from leeway.lab.engines import Engine
from leeway.lab.progress import Progress
from leeway.papers.dimogerontakis2017.live import LIVE, MEAN, P99, PER_S, SHORT, WITHIN, Pair, pairs, points
from leeway.papers.dimogerontakis2017.measure import cases, seeds

COMMAND = "python -m leeway.papers.dimogerontakis2017"
BETWEEN = re.compile(
    rf"(<!-- made by {re.escape(COMMAND)} --full --write docs/testbed.md -->\n).*(<!-- end -->)", re.DOTALL
)
FIRST = (MEAN, P99, PER_S)
"""The figures that have a column of their own."""


def table(setting: Setting, cache: Cache, engine: Engine, progress: Progress | None = None) -> str:
    """Runs what is missing, and returns the table as Markdown."""
    rows = LIVE if setting.full else SHORT
    results = run_cases(cases(points(rows), setting), engine, cache, progress, title="live")
    return rendered(pairs(rows, results), len(seeds(setting)))


def rendered(found: Iterable[Pair], runs: int) -> str:
    """The pairs: a line for each setup and mechanism, each figure as `live / simulated`."""
    found = list(found)
    agree = sum(pair.agrees for pair in found)
    lines = [
        f"{agree} of {len(found)} figures are within {100 * WITHIN:.0f} %; the others are in bold.",
        f"Engine {leeway.ENGINE}, means over {runs} seeds.",
        "",
        "| setup | mechanism | home, x mean | home, x p99 | neighbours / s | other | differs because |",
        "|---|---|---|---|---|---|---|",
    ]
    for (setup, mechanism), group in groupby(found, lambda pair: (pair.setup, pair.mechanism)):
        members = list(group)
        cells = [_cell(next((p for p in members if p.figure == figure), None)) for figure in FIRST]
        others = [f"{pair.figure}: {_cell(pair)}" for pair in members if pair.figure not in FIRST]
        causes = dict.fromkeys(_cause(pair) for pair in members if not pair.agrees)
        lines.append("| " + " | ".join([setup, mechanism, *cells, ", ".join(others), ", ".join(causes)]) + " |")
    return "\n".join(lines) + "\n"


def _cell(pair: Pair | None) -> str:
    if pair is None:
        return ""
    text = f"{pair.live:g} / {_short(pair.simulated.mean)}"
    text = text if pair.agrees else f"**{text}**"
    # What a gateway makes of it that sees each packet, where that is something else.
    other = pair.packets
    if other is not None and abs(other.mean - pair.simulated.mean) > 0.05 * abs(pair.live):
        text += f" ({_short(other.mean)})"
    return text


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _cause(pair: Pair) -> str:
    known = pair.cause.split(" ")[0].rstrip(":")
    return f"`{known.split(':')[1]}`" if known else "unknown"


def write(text: str, path: Path) -> None:
    """Puts the table between the marks of a page.

    Raises
    ------
    ValueError
        If the page has no marks.
    """
    page = path.read_text(encoding="utf-8")
    if not BETWEEN.search(page):
        raise ValueError(f"{path} has no place for the table: {BETWEEN.pattern}")
    path.write_text(BETWEEN.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page), encoding="utf-8")
