"""The testbed's figures of a run: what the home and its neighbours get, beside the home alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from leeway import Run
from leeway.lab import Case, Claim, Interval, Results, Setting, Table
from leeway.papers.common import PALETTE, frame
from leeway.papers.dimogerontakis2017.network import (
    ALL,
    ALONE,
    BEST,
    CALL,
    HOME,
    NEIGHBOURS,
    PACKETS,
    PING,
    PROXY,
    STEADY,
    Setup,
    asked_at,
    numbered,
    scenario,
)
from leeway.papers.dimogerontakis2017.setups import SETUPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Points = dict[str, Sequence[str]]
"""Mechanisms for each setup."""

MOST_MEAN, MOST_P99, LEAST_PER_S = 1.35, 1.6, 10.0
"""What docs/testbed.md asks for at 1.72 Mbit/s."""
INF = math.inf


def seeds(setting: Setting) -> range:
    """A run takes a tenth of a second, so the short form differs from the full one in the number
    of seeds alone."""
    return setting.seeds(quick=3, full=20)


def cases(points: Points, setting: Setting) -> list[Case]:
    """All setups with their mechanisms, and each setup with the home alone."""
    return [
        Case(scenario(SETUPS[name], mechanism), seed, {"setup": name, "mechanism": mechanism})
        for name, mechanisms in points.items()
        for mechanism in dict.fromkeys((ALONE, *mechanisms))
        for seed in seeds(setting)
    ]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run; not-a-number where there is nothing to measure.

    Attributes
    ----------
    mean_s, p99_s
        Times of the home's answers (s), from the intended time of the request to the last byte.
        The 99th percentile is the least value that 99 % of the times do not exceed, as live.
    per_s
        Objects a second of the neighbours.
    goodput
        Part of the line that these objects are, heads included.
    service_s
        Mean time of the neighbours' answers (s).
    ping_mean_s, ping_p99_s
        Delay of the home's ping in the direction of the neighbours' objects (s).
    mos
        Mean opinion score of the home's call.
    retransmitted
        Segments that were sent again.
    """

    mean_s: float
    p99_s: float
    per_s: float
    goodput: float
    service_s: float
    ping_mean_s: float
    ping_p99_s: float
    mos: float
    retransmitted: float

    @staticmethod
    def of(run: Run, setup: Setup) -> Figures:
        """The figures of `run`, which is one of `setup`."""
        whole, steady = run.window(ALL), run.window(STEADY)
        groups = {group.name: group for group in whole.groups}
        home = times(run, setup)
        objects = next((group for group in steady.groups if group.name == NEIGHBOURS), None)
        ping, load = groups[PING].owd, setup.neighbours
        per_s = goodput = service_s = math.nan
        if objects is not None:
            # The line is as fast in both directions.
            goodput = objects.goodput_bps / steady.link().capacity_bps
            per_s = objects.completed / (steady.to_s - steady.from_s)
            if load.upload:
                per_s = objects.goodput_bps / (8 * load.sent_bytes)
            service_s = objects.completion.mean_s if objects.completion else math.nan
        return Figures(
            mean_s=float(np.mean(home)) if home else math.nan,
            p99_s=float(np.quantile(home, 0.99, method="inverted_cdf")) if home else math.nan,
            per_s=per_s,
            goodput=goodput,
            service_s=service_s,
            ping_mean_s=ping.mean_s if ping else math.nan,
            ping_p99_s=ping.p99_s if ping else math.nan,
            mos=(groups[CALL].mos or math.nan) if CALL in groups else math.nan,
            retransmitted=float(sum(group.retransmitted for group in whole.groups)),
        )


def times(run: Run, setup: Setup) -> list[float]:
    """Times of the home's answers (s).

    Of a home whose requests come at their own times: of those that are asked in the part that
    counts. What has no answer at the end counts with the time that it has waited. Of a home that
    asks as soon as it may: of those that are answered in the part that counts, as a hundred values
    with their mean and their 99th percentile; where there are none, the length of that part.
    """
    load = setup.home
    if load is None:
        return []
    if load.per_s is None:
        steady = run.window(STEADY)
        found = steady.group(HOME).completion
        if found is None:
            return [steady.to_s - steady.from_s]
        return [(100 * found.mean_s - 2 * found.p99_s) / 98] * 98 + [found.p99_s] * 2
    answers = {group.name: group.completion for group in run.window(ALL).groups}
    end_s = run.window(ALL).to_s
    return [
        end_s - at_s if (answer := answers[numbered(number)]) is None else answer.mean_s
        for number, at_s in enumerate(asked_at(load, setup.warmup_s, setup.end_s))
    ]


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of `cases`; of other cases with the labels "setup" and "mechanism" if `setups`
    has their setups."""

    results: Results
    setups: dict[str, Setup] = field(default_factory=lambda: SETUPS)
    known: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def figures(self, setup: str, mechanism: str) -> list[Figures]:
        """The figures of each seed."""
        if (setup, mechanism) not in self.known:
            found = self.results.where(setup=setup, mechanism=mechanism)
            self.known[setup, mechanism] = [Figures.of(each.run(), self.setups[setup]) for each in found]
        return self.known[setup, mechanism]

    def values(self, setup: str, mechanism: str, figure: str) -> np.ndarray:
        """One figure, seed by seed."""
        return np.array([getattr(each, figure) for each in self.figures(setup, mechanism)])

    def of(self, setup: str, mechanism: str, figure: str) -> Interval:
        """One figure."""
        return Interval.of(self.values(setup, mechanism, figure))

    def beside(
        self,
        setup: str,
        mechanism: str,
        figure: str,
        how: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.divide,
        other: str = ALONE,
    ) -> Interval:
        """One figure compared with that of another mechanism with the same seed."""
        return Interval.of(how(self.values(setup, mechanism, figure), self.values(setup, other, figure)))

    def mean(self, setup: str, mechanism: str) -> Interval:
        """The home's mean service time, as a multiple of that of the home alone."""
        return self.beside(setup, mechanism, "mean_s")

    def p99(self, setup: str, mechanism: str) -> Interval:
        """The same of the 99th percentile."""
        return self.beside(setup, mechanism, "p99_s")

    def per_s(self, setup: str, mechanism: str) -> Interval:
        """Objects a second of the neighbours."""
        return self.of(setup, mechanism, "per_s")

    def of_best(self, setup: str, mechanism: str) -> Interval:
        """The same, of those under best effort."""
        return self.beside(setup, mechanism, "per_s", other=BEST)

    def ping_ms(self, setup: str, mechanism: str) -> Interval:
        """By how much the 99th percentile of the home's ping is longer than that of the home alone
        (ms)."""
        return self.beside(setup, mechanism, "ping_p99_s", np.subtract).scaled(1e3)

    def table(self, points: Points, caption: str = "Means over runs.") -> Table:
        """All setups with their mechanisms."""
        columns = ("setup", "mechanism", "home, x mean", "x p99", "neighbours / s", "of the line", "ping p99 (ms)")
        rows = [self._row(setup, mechanism) for setup, mechanisms in points.items() for mechanism in mechanisms]
        return Table("figures", caption, columns, rows)

    def _row(self, setup: str, mechanism: str) -> list[str | Interval | None]:
        home = self.setups[setup].home is not None
        return [
            setup,
            mechanism,
            self.mean(setup, mechanism) if home else None,
            self.p99(setup, mechanism) if home else None,
            self.per_s(setup, mechanism),
            self.of(setup, mechanism, "goodput"),
            self.ping_ms(setup, mechanism),
        ]

    def targets(self, setup: str, mechanisms: Iterable[str] = (PROXY, PACKETS), requests: bool = True) -> list[Claim]:
        """What docs/testbed.md asks of a gateway at 1.72 Mbit/s."""
        asked = []
        for mechanism in mechanisms:
            text = f"{setup}, {mechanism}"
            asked += [
                at_most(f"{text}: the home's mean, x alone", self.mean(setup, mechanism), MOST_MEAN),
                at_most(f"{text}: the home's 99th percentile, x alone", self.p99(setup, mechanism), MOST_P99),
            ]
            if requests:
                asked.append(
                    at_least(f"{text}: neighbours' objects a second", self.per_s(setup, mechanism), LEAST_PER_S)
                )
        return asked

    def draw(self, canvas: Canvas, points: Points) -> None:
        """As the paper draws service times: bars for the home's mean, dots for its 99th
        percentile."""
        panels = np.atleast_1d(canvas.subplots(1, len(points)))
        for axes, (setup, mechanisms) in zip(panels, points.items(), strict=True):
            places = np.arange(len(mechanisms))
            means = [self.mean(setup, mechanism).mean for mechanism in mechanisms]
            tails = [self.p99(setup, mechanism).mean for mechanism in mechanisms]
            axes.bar(places, means, 0.6, color=PALETTE["blue"], label="mean")
            axes.plot(places, tails, "o", color=PALETTE["purple"], label="99 %")
            axes.set_xticks(places, mechanisms, fontsize="x-small", rotation=45)
            axes.set_yscale("log")
            first = axes is panels[0]
            frame(axes, "", "home's service time, x alone" if first else "", legend=first)
            axes.set_ylim(0.8)
            axes.set_title(setup, fontsize="small")
        canvas.tight_layout()


def at_most(text: str, found: Interval, most: float, why: str = "") -> Claim:
    """A claim that a figure is as small as docs/testbed.md asks."""
    return Claim.number(text, f"at most {most:g} (asked for)", found, (-INF, most), why=why)


def at_least(text: str, found: Interval, least: float, why: str = "") -> Claim:
    """A claim that a figure is as large as docs/testbed.md asks."""
    return Claim.number(text, f"at least {least:g} (asked for)", found, (least, INF), why=why)
