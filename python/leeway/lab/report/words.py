"""Numbers, times and names in words."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from typing import Any

from leeway.lab.experiment import Setting, Table
from leeway.lab.statistics import Interval


def slug(name: str) -> str:
    """For an anchor or a file: ``trang2014:fig3.4`` becomes ``trang2014-fig3.4``."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "x"


def paper(name: str) -> str:
    """``trang2014`` becomes ``Trang 2014``."""
    found = re.fullmatch(r"([a-z]+)(\d{4})", name)
    return f"{found[1].capitalize()} {found[2]}" if found else name.capitalize()


def duration(seconds: float) -> str:
    """``0.4 s``, ``35 s``, ``12 min 5 s``, ``3 h 20 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def count(number: int, one: str, many: str = "") -> str:
    """``1 run``, ``30,000 runs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(setting: Setting) -> str:
    """``at full size``, ``in quick form, sample of 500 runs``."""
    parts = ["at full size" if setting.full else "in quick form"]
    if setting.sample is not None:
        parts.append(f"sample of {setting.sample:,} runs")
    return ", ".join(parts)


def common_count(table: Table) -> int | None:
    """Number of runs behind the intervals of a table if it is the same for all of them."""
    counts = {value.count for row in table.rows for value in row if isinstance(value, Interval) and value.count}
    return counts.pop() if len(counts) == 1 else None


def cell(value: Any, runs: int | None = None) -> str:
    """A cell of a table; an interval over `runs` runs is shown without their number."""
    match value:
        case None:
            return "-"
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case Interval():
            if value.count == 0 or math.isnan(value.mean):
                return "-"
            text = value.text()
            return text.rpartition(" (")[0] if value.count == runs else text
        case float() if math.isnan(value):
            return "-"
        case float() if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        case float() if value.is_integer() and abs(value) < 1e6:
            return f"{value:.0f}"
        case float() if abs(value) >= 1e4:
            return f"{value:.0f}"
        case _ if hasattr(value, "item"):
            return cell(value.item(), runs)
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)


def is_number(text: str) -> bool:
    """Whether a cell holds a number, with an interval or a unit of one character perhaps, or
    nothing."""
    return bool(re.fullmatch(r"(-?([\d.,]+(e[-+]?\d+)?|∞)( ± [\d.e+-]+)?( ?%| \(.*run\)| \(n = \d+\))?|-|)", text))


def column_kind(cells: Sequence[str]) -> str:
    """What a column holds: "number", short "word", or "text" that wraps."""
    if all(map(is_number, cells)):
        return "number"
    return "text" if max(map(len, cells)) > 14 else "word"


def command(name: str, setting: Setting) -> str:
    """The command that runs one experiment at this size."""
    parts = ["leeway-lab run", name]
    if setting.full:
        parts.append("--full")
    if setting.seed_count is not None:
        parts.append(f"--seeds {setting.seed_count}")
    if setting.sample is not None:
        parts.append(f"--sample {setting.sample}")
    parts += [f"--law {shlex.quote(law)}" for law in setting.laws]
    if setting.half != Setting().half:
        parts.append(f"--half {setting.half}")
    return " ".join(parts)
