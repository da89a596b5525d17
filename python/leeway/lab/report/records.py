"""The claims as JSON, for scripts."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from leeway.lab.experiment import Table
from leeway.lab.report.model import Report, Section
from leeway.lab.report.words import slug
from leeway.lab.statistics import Interval


def render(report: Report) -> str:
    """All experiments with their claims and tables, as indented JSON."""
    record = {
        "context": dataclasses.asdict(report.context),
        "counts": {standing.name.lower(): number for standing, number in report.counts.shown},
        "experiments": [_experiment(section) for section in report.sections],
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def figures(path: Path) -> set[str]:
    """Names of the figures that a file written by `render` lists; none if it is not such a
    file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        names = {name for each in record["experiments"] for name in each["figures"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if isinstance(name, str) and name == slug(name)}


def _experiment(section: Section) -> dict[str, Any]:
    done = section.finished
    return {
        "id": section.id,
        "title": section.title,
        "kind": done.experiment.kind,
        "setting": dataclasses.asdict(done.setting),
        "error": done.error,
        "runs": done.runs,
        "cached": done.cached,
        "seeds": done.seeds,
        "simulated_s": _number(done.simulated_s),
        "wall_s": _number(done.wall_s),
        "claims": [
            {
                "text": row.claim.text,
                "published": row.claim.published,
                "found": row.claim.found,
                "accept": row.claim.accept,
                "verdict": row.claim.verdict,
                "cause": row.cause_id or None,
                "why": row.why,
            }
            for row in section.rows
        ],
        "figures": [picture.name for picture in section.pictures if not picture.error],
        "tables": [_table(grid.table) for grid in section.grids],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "caption": table.caption,
        "columns": list(table.columns),
        "rows": [[_number(value) for value in row] for row in table.rows],
    }


def _number(value: Any) -> Any:
    """JSON knows neither infinity nor not-a-number: they become null."""
    if isinstance(value, Interval):
        return {"mean": _number(value.mean), "half": _number(value.half), "count": value.count}
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
