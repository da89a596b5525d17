"""The tables of docs/testbed.md: the live figures, and live and simulated figures side by side."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

import leeway
from leeway.lab import Setting
from leeway.lab.cache import Cache
from leeway.lab.driver import run_cases
from leeway.lab.engines import Engine
from leeway.lab.progress import Progress
from leeway.papers.dimogerontakis2017.live import (
    LIVE,
    MEAN,
    P99,
    PER_S,
    SHORT,
    WITHIN,
    Pair,
    measured_live,
    pairs,
    points,
)
from leeway.papers.dimogerontakis2017.measure import LEAST_PER_S, MOST_MEAN, MOST_P99, cases, seeds
from leeway.papers.dimogerontakis2017.network import ALONE, AT_LINE, BEST, BORROWING

COMMAND = "python -m leeway.papers.dimogerontakis2017"


def _marks(of: str) -> re.Pattern[str]:
    """The marks of a page between which something of that name stands."""
    made = re.escape(f"made by {COMMAND} --full --write docs/testbed.md")
    return re.compile(rf"(<!-- {of}, {made} -->\n).*?(<!-- end -->)", re.DOTALL)


LIVE_TABLE, BETWEEN = _marks("live"), _marks("live beside simulated")
MOST_PING_S = 0.015
"""By how much the primary's ping may be longer, in the 99th percentile."""
FIRST = (MEAN, P99, PER_S)
"""The figures that have a column of their own."""


def table(setting: Setting, cache: Cache, engine: Engine, progress: Progress | None = None) -> str:
    """Runs what is missing, and returns the table as Markdown."""
    rows = LIVE if setting.full else SHORT
    results = run_cases(cases(points(rows), setting), engine, cache, progress, title="live")
    return rendered(pairs(rows, results), len(seeds(setting)))


FULL = ("overload", "deep", "changing", "users 1", "users 10", "users 100", "greedy", "call")
"""The setups in which the secondaries are to get ten requests a second."""


def live_table() -> str:
    """The live figures of every setup and mechanism; what misses a target is in bold."""
    measured = measured_live()
    rows = measured["rows"]
    late_ms = 1e3 * statistics.median(row["late_p99_s"] for row in rows)
    lines = [
        f"Medians of {measured['rounds']} rounds, each as long as the second column says, "
        f"{measured['jobs']} lines at a time on {measured['cores']} cores.",
        _programs(rows),
        f"The emulator is late by {late_ms:.2f} ms (99th percentile, median of rows).",
        "",
        "| line or load; primary alone | seconds | mechanism | primary, x mean | x p99 | ping p99 | secondaries, "
        "requests/s | part of the line |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (setup, seconds), group in groupby(rows, lambda row: (row["setup"], row["seconds"])):
        alone, *others = group
        assert alone["mechanism"] == ALONE
        names = [f"{setup}; {1e3 * alone['alone_s']:.0f} ms" if "alone_s" in alone else setup, str(seconds)]
        for row in others:
            judged = row["mechanism"] not in (BEST, BORROWING, AT_LINE)
            least_per_s = LEAST_PER_S if judged and setup in FULL else 0.0
            cells = [
                _judged(row.get("mean"), most=MOST_MEAN if judged else inf),
                _judged(row.get("p99"), most=MOST_P99 if judged else inf),
                _judged(row.get("ping_p99_added_s"), most=MOST_PING_S if judged else inf, spelled=_added_ms),
                _judged(row.get("per_s"), least=least_per_s),
                _judged(row.get("part_of_line")),
            ]
            lines.append("| " + " | ".join([*names, row["mechanism"], *cells]) + " |")
            names = ["", ""]
    return "\n".join(lines) + "\n"


def _programs(rows: list[dict[str, Any]]) -> str:
    """The programs that were measured: the first row's, and the setups of each other one."""
    setups: dict[str, list[str]] = {}
    for row in rows:
        setups.setdefault(row["program"], []).append(row["setup"])
    first, *others = setups
    named = (f"{', '.join(dict.fromkeys(setups[other]))} with {other}" for other in others)
    return "; ".join([f"Program {first}", *named]) + "."


def _judged(
    value: float | None, *, most: float = inf, least: float = 0.0, spelled: Callable[[float], str] | None = None
) -> str:
    """A figure, in bold where it misses its target."""
    if value is None:
        return ""
    text = (spelled or _short)(value)
    return f"**{text}**" if value > most or (least and value < least) else text


def _added_ms(added_s: float) -> str:
    return f"{round(1e3 * added_s):+d} ms"


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
    text = f"{_short(pair.live)} / {_short(pair.simulated.mean)}"
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


def write(text: str, path: Path, between: re.Pattern[str] = BETWEEN) -> None:
    """Puts a table between its marks on a page.

    Raises
    ------
    ValueError
        If the page has no marks.
    """
    page = path.read_text(encoding="utf-8")
    if not between.search(page):
        raise ValueError(f"{path} has no place for the table: {between.pattern}")
    path.write_text(between.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page), encoding="utf-8")
