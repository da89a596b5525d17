"""Texts for a terminal: experiments, their claims, tables, amounts."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from leeway.lab.cache import Cache
from leeway.lab.driver import Finished
from leeway.lab.experiment import Claim, Table, registered

COLUMN = 10  # width of a verdict, with the blank after it


def finished_text(finished: Finished) -> str:
    """A finished experiment: title, claims with their verdicts, work."""
    lines = [f"{finished.experiment.id}  {finished.experiment.title}"]
    if finished.outcome is None:
        lines += _hanging("failed", finished.error)
    else:
        for claim in finished.outcome.claims:
            lines += _claim_lines(claim)
        for table in finished.outcome.tables:
            if table.shown:
                lines += _shown(table)
    lines += _hanging("", took(finished))
    return "\n".join(lines)


def took(finished: Finished) -> str:
    """``120 runs (80 from the cache) over 10 seeds, 45 s of simulation, 24 s on the clock``."""
    cached = f" ({finished.cached:,} from the cache)" if finished.cached else ""
    seeds = f" over {count(finished.seeds, 'seed')}" if finished.seeds > 1 else ""
    clocks = f"{span(finished.simulated_s)} of simulation, {span(finished.wall_s)} on the clock"
    return f"{count(finished.runs, 'run')}{cached}{seeds}, {clocks}"


def summary_text(finished: Sequence[Finished]) -> str:
    """Numbers of experiments, and of claims by verdict."""
    claims = [claim for each in finished if each.outcome is not None for claim in each.outcome.claims]
    failed = sum(each.outcome is None for each in finished)
    parts = [
        f"{_number(claims, 'holds')} hold",
        f"{_number(claims, 'differs')} differ"
        + (f" ({len(unexplained(finished))} of them without a cause)" if unexplained(finished) else ""),
        *([f"{undecided} undecided"] if (undecided := _number(claims, "undecided")) else []),
        f"{_number(claims, 'open')} open in the paper",
    ]
    text = f"{count(len(finished), 'experiment')}, {count(len(claims), 'claim')}: {', '.join(parts)}"
    return text + (f"; {count(failed, 'experiment')} failed" if failed else "")


def unexplained(finished: Iterable[Finished]) -> list[Claim]:
    """Claims that differ without an experiment that shows the cause."""
    claims = [claim for each in finished if each.outcome is not None for claim in each.outcome.claims]
    return [claim for claim in claims if claim.verdict == "differs" and not claim.cause(registered())[0]]


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> str:
    """A table in plain text; columns from the one with the index `right` on are aligned to the
    right."""
    widths = [max([len(column), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    lines = []
    for row in [columns, *rows]:
        cells = [
            cell.rjust(w) if i >= right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def cache_text(cache: Cache) -> str:
    """What a cache holds."""
    versions = cache.versions()
    if not versions:
        return f"{cache.path}: empty"
    size = cache.path.stat().st_size
    lines = [f"{cache.path}: {count(sum(v.results for v in versions), 'result')}, {amount(size)} on disk"]
    for v in versions:
        which = "this engine " if v.engine == cache.engine else "other engine"
        lines.append(
            f"  {which} {v.engine}: {count(v.results, 'result')}, {amount(v.size)}, {span(v.seconds)} of simulation"
        )
    if len(versions) > 1 or versions[0].engine != cache.engine:
        lines.append("  `leeway-lab cache prune` removes those of other engines")
    return "\n".join(lines)


def count(number: int, what: str) -> str:
    """``1 run``, ``30,000 runs``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def span(seconds: float) -> str:
    """``0.4 s``, ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def amount(size: float) -> str:
    """``12 kB``, ``3.4 MB``."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _shown(table: Table) -> list[str]:
    """A table with a line for each of its columns, so that it fits where columns are many and rows
    are few."""
    text = [["-" if cell is None else str(cell) for cell in row] for row in table.rows]
    head, *turned = zip(table.columns, *text, strict=True)
    return ["", *textwrap.wrap(table.caption, 100), *table_text(head, turned, right=1).splitlines()]


def _claim_lines(claim: Claim) -> list[str]:
    facts = [f"published: {claim.published}"] if claim.published else []
    facts.append(f"here: {claim.found}")
    if claim.accept:
        facts.append(f"accepted: {claim.accept}")
    lines = _hanging(claim.verdict, claim.text) + _hanging("", " · ".join(facts))
    return lines + (_hanging("", f"why: {claim.why}") if claim.why else [])


def _hanging(head: str, text: str) -> list[str]:
    indent = 2 + COLUMN
    width = max(40, min(120, shutil.get_terminal_size((100, 24)).columns) - indent)
    has_form = "\n" in text  # of its own
    lines = text.splitlines() if has_form else textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    return [" " * 2 + head.ljust(COLUMN) + lines[0], *(" " * indent + line for line in lines[1:])]


def _number(claims: Iterable[Claim], verdict: str) -> int:
    return sum(claim.verdict == verdict for claim in claims)
