"""Fields and columns in words, and numbers with their units: for texts about results, and for axes
of figures.

The end of a name says the unit (``_bps``, ``_s``, ``_ms``, ``_us``, ``_pkt``, ``_bytes``); parts
of a whole, which have no unit, are listed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

PARTS = {
    "share",
    "capacity_share",
    "utilisation",
    "loss",
    "queue_fill",
    "spare_use",
    "harm_throughput",
    "harm_delay",
    "harm_completion",
    "found",
    "feasible",
    "demand",
    "least_tenth",
    "after_over_before",
    "without_service",
}
"""Parts of a whole, shown in percent."""

WORDS = {
    "capacity_share": "share of the capacity",
    "cwnd": "window",
    "cwnd_mean": "mean window",
    "harm_completion": "harm to the completion time",
    "harm_delay": "harm to the delay",
    "harm_throughput": "harm to the throughput",
    "inflight": "in flight",
    "jain": "Jain's index",
    "mos": "MOS",
    "owd": "one-way delay",
    "queue_fill": "fill of the queue",
    "queue_mean": "mean queue",
    "retransmitted": "sent again",
    "rtt": "RTT",
    "slowest": "slowest flow",
    "spare_use": "use of the spare capacity",
    "srtt": "smoothed RTT",
    "ssthresh": "slow-start threshold",
    "window_jain": "Jain's index of all flows",
}
"""Names, without unit, whose words are not the name itself."""

STATISTICS = {
    "count": "samples of",
    "mean": "mean",
    "max": "largest",
    "p50": "median",
    "p95": "95th percentile of",
    "p99": "99th percentile of",
}

UNITS = {
    "bps": ((1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")),
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s")),
    "ms": ((1e-3, "µs"), (1.0, "ms"), (1e3, "s")),
    "us": ((1.0, "µs"), (1e3, "ms"), (1e6, "s")),
    "pkt": ((1.0, "pkt"),),
    "bytes": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")),
}
"""By the end of a name: sizes of units and how they are written, smallest first."""

_PERCENT = (0.01, "%")
_PLAIN = (1.0, "")


@dataclass(frozen=True, slots=True)
class Scale:
    """How the values of a field are shown.

    Attributes
    ----------
    words
        What the field is: "throughput".
    unit
        "Mbit/s"; empty for a plain number.
    size
        Number of the field's own units that one such unit has.
    """

    words: str
    unit: str
    size: float

    @property
    def label(self) -> str:
        """For an axis: "throughput, Mbit/s"."""
        return f"{self.words}, {self.unit}" if self.unit else self.words


def scale(name: str, values: Iterable[float | None] = ()) -> Scale:
    """How to show a field or column whose largest value is in `values`."""
    sizes = _sizes(name)
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0:
        largest = 1.0  # the unit of the name
    size, unit = next((each for each in reversed(sizes) if each[0] <= largest), sizes[0])
    return Scale(words(name), unit, size)


def text(name: str, value: float | None) -> str:
    """A value with its unit: "3.92 Mbit/s", "41 ms", "39.2 %", "1,024"; "none" where there is no
    value."""
    if value is None:
        return "none"
    if isinstance(value, int):
        return f"{value:,}"
    shown = scale(name, [value])
    return f"{number(value / shown.size)} {shown.unit}".rstrip()


def number(value: float) -> str:
    """A number with three significant digits, without an exponent if it is not too long."""
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.3g}"


def quantity(value: object) -> tuple[float, str] | None:
    """A number and its unit: (20, "pkt") of "20 pkt", (4, "") of 4; None for what is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value), ""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ/%]+)\s*", str(value))
    return (float(found[1]), found[2]) if found else None


def ratio(unit: str, other: str) -> float | None:
    """How many of the other unit one of this unit is; None where they measure different things."""
    if unit == other:
        return 1.0
    for sizes in UNITS.values():
        known = {written: size for size, written in sizes}
        if unit in known and other in known:
            return known[unit] / known[other]
    return None


def words(name: str) -> str:
    """A field or column in words: "throughput" for ``throughput_bps``, "median RTT" for
    ``rtt_p50_s``."""
    stem = bare(name)
    if stem in WORDS:
        return WORDS[stem]
    if found := re.fullmatch(rf"(\w+)_({'|'.join(STATISTICS)})", stem):
        return f"{STATISTICS[found[2]]} {words(found[1])}"
    if stem.startswith("link_"):
        return f"{words(stem.removeprefix('link_'))} of the link"
    return stem.replace("_", " ")


def bare(name: str) -> str:
    """A name without its unit: "throughput" for ``throughput_bps``."""
    return name.removesuffix(f"_{_suffix(name)}") if _suffix(name) else name


def _sizes(name: str) -> tuple[tuple[float, str], ...]:
    if name.removeprefix("link_") in PARTS:
        return (_PERCENT,)
    return UNITS.get(_suffix(name), (_PLAIN,))


def _suffix(name: str) -> str:
    end = name.rpartition("_")[2]
    return end if end in UNITS and end != name else ""
