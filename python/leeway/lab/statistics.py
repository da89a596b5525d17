"""Means with confidence intervals, and Jain's index."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over runs with its 95 % confidence interval (Student's t): mean ± half.

    `half` is infinite for a single run, and zero for a number without variation.
    """

    mean: float
    half: float
    count: int

    @staticmethod
    def of(values: Iterable[float]) -> Interval:
        """Interval of the values of several runs; not-a-number without values."""
        array = np.asarray(list(values), dtype=float)
        n = len(array)
        if n == 0:
            return Interval(math.nan, math.inf, 0)
        if n == 1:
            return Interval(float(array[0]), math.inf, 1)
        half = float(stdtrit(n - 1, 0.975) * array.std(ddof=1) / math.sqrt(n))
        return Interval(float(array.mean()), half, n)

    def __repr__(self) -> str:
        return f"<Interval {self.text()}>"

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half

    def meets(self, low: float, high: float) -> bool:
        """Whether the interval and the range from `low` to `high` overlap."""
        return self.low <= high and low <= self.high

    def scaled(self, factor: float) -> Interval:
        """The interval in another unit."""
        return Interval(self.mean * factor, self.half * abs(factor), self.count)

    def text(self, unit: str = "", digits: int = 3) -> str:
        """``0.652 ± 0.004 (n = 30)``."""
        unit = f" {unit}" if unit else ""
        if self.count == 0:
            return "nothing"
        mean = f"{self.mean:.{digits}g}" if abs(self.mean) < 10**digits else f"{self.mean:.0f}"
        if math.isinf(self.half):
            return f"{mean}{unit} (one run)"
        if self.half <= 1e-9 * abs(self.mean):  # only rounding errors
            return f"{mean}{unit} (n = {self.count})"
        half = f"{self.half:.2g}" if self.half < 99.5 else f"{self.half:.0f}"
        return f"{mean} ± {half}{unit} (n = {self.count})"

    def __str__(self) -> str:
        return self.text()


def jain(values: Iterable[float]) -> float:
    """Jain's fairness index (sum x)² / (n sum x²); 1 where nobody got anything."""
    x = np.asarray(list(values), dtype=float)
    squares = float((x**2).sum()) * len(x)
    return float(x.sum()) ** 2 / squares if squares > 0 else 1.0
