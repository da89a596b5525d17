"""A metric against swept values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl

from leeway import tables, units
from leeway.lab import figures
from leeway.lab.statistics import Interval
from leeway.plotting.figure import Figure, check_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leeway.results import Run


class Labelled(Protocol):
    """A run and where it stands in a grid: `SweepRun`, or a `Result` of the lab."""

    @property
    def labels(self) -> Mapping[str, Any]: ...
    def run(self) -> Run: ...


def sweep(
    runs: Iterable[Labelled],
    metric: str = "throughput_bps",
    x: str | None = None,
    groups: Sequence[str] | None = None,
    window: str | None = None,
    dark: bool = False,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Draws a metric against a swept value: means over the seeds with their 95 % confidence
    intervals.

    Of one swept path, each group of flows is a line. Of several, each group has a panel, and the
    values of the other paths are its lines.

    Parameters
    ----------
    runs
        Runs with labels.
    metric
        A column of `leeway.summaries` with numbers: "throughput_bps", "rtt_p95_s",
        "harm_throughput".
    x
        Path along the axis; if None the last one whose values are numbers, otherwise the last one.
    groups
        Groups of flows to draw; all that have the metric if None.
    window
        Window that the metric is of; the first if None.
    dark
        On a dark ground; otherwise on white, and in a notebook in the colours of its page.
    size
        Width and height in inches.

    Raises
    ------
    ValueError
        If there is nothing to draw, or no such metric, path or group.
    KeyError
        If there is no such window.
    """
    numbers = [name for name, kind in tables.columns().items() if not str(kind).startswith("string")]
    check_known("metric", [metric], numbers)
    grid = _Grid(runs, metric, window)
    check_known("group", groups or [], grid.groups)
    check_known("path", [x] if x else [], grid.paths)
    shown = [group for group in (groups or grid.groups) if grid.has(group)]
    if not shown:
        raise ValueError(f"no run has a value of {metric!r} here; it may not exist for these flows")
    x = x or grid.axis()
    places = _Places(grid.choices(x)) if x else _Places([])
    others = [path for path in grid.paths if path != x]
    combinations = list(dict.fromkeys(tuple(labels[path] for path in others) for labels, _, _ in grid.points))
    scale = units.scale(metric, [value for _, _, value in grid.points])
    by_panel = len(combinations) > 1
    panels: list[tuple[str, list[tuple[str, str, tuple[Any, ...]]]]] = [("", [(group, group, ()) for group in shown])]
    if by_panel:
        lines = [(", ".join(str(value) for value in combination), combination) for combination in combinations]
        panels = [(group, [(label, group, values) for label, values in lines]) for group in shown]
    with figures.style(dark):
        caption = f"{scale.words} by {' and '.join(grid.paths) or 'seed'}"
        canvas = Figure(caption, dark, size or (min(3.6 + 3.2 * (len(panels) - 1) + 1.6, 9.0), 3.6))
        every = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, lines_of) in zip(every, panels, strict=True):
            for place, (label, group, values) in enumerate(lines_of):
                found = [
                    (choice, Interval.of(grid.values(group, {x: choice} if x else {}, others, values)))
                    for choice in places.choices or [None]
                ]
                found = [(choice, interval) for choice, interval in found if interval.count]
                shift = places.shift(place, len(lines_of))
                axes.errorbar(
                    [places.of(choice) + shift for choice, _ in found],
                    [interval.mean / scale.size for _, interval in found],
                    yerr=[interval.half / scale.size if interval.count > 1 else 0.0 for _, interval in found],
                    fmt="o-" if places.numbers else "o",
                    capsize=2.5,
                    label=label,
                )
            axes.set_title(title)
            places.mark(axes)
            axes.set_xlabel(places.label(x) if x else "")
        every[0].set_ylabel(scale.label)
        if scale.unit:  # indices and scores do not begin at 0
            _from_zero(every)
        if len(panels[0][1]) > 1:
            handles, labels = every[0].get_legend_handles_labels()
            title = " and ".join(_short(path) for path in others) if by_panel else None
            canvas.legend(handles, labels, title=title, loc="outside right upper", frameon=False, alignment="left")
    return canvas


def _from_zero(every: Sequence[Axes]) -> None:
    """Lets the shared axis begin at 0, or below the lowest value where that is negative."""
    ends = [end for axes in every for end in _ends(axes)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    every[0].set_ylim(low - (0.05 * (high - low) if low < 0 else 0), high + 0.05 * (high - low or 1.0))


def _ends(axes: Axes) -> list[float]:
    """Lowest and highest value that is drawn, confidence intervals included."""
    box = axes.dataLim
    return [box.y0, box.y1]


class _Grid:
    """Values of a metric: (labels, group, value) of each run and group that has one."""

    def __init__(self, runs: Iterable[Labelled], metric: str, window: str | None):
        self.points: list[tuple[dict[str, Any], str, float]] = []
        paths: dict[str, None] = {}
        groups: dict[str, None] = {}
        for each in runs:
            labels = dict(each.labels)
            paths |= dict.fromkeys(labels)
            for row in tables.rows_of(each.run().window(window)):
                groups[row["group"]] = None
                if row[metric] is not None:
                    self.points.append((labels, row["group"], row[metric]))
        self.paths = [path for path in paths if len({str(labels.get(path)) for labels, _, _ in self.points}) > 1]
        self.paths = self.paths or list(paths)
        self.points = [({path: labels.get(path) for path in self.paths}, *rest) for labels, *rest in self.points]
        self.groups = list(groups)

    def has(self, group: str) -> bool:
        return any(of == group for _, of, _ in self.points)

    def choices(self, path: str) -> list[Any]:
        """Values of a path, in the order in which they first occur."""
        return list(dict.fromkeys(labels[path] for labels, _, _ in self.points))

    def axis(self) -> str | None:
        """The path that is best put along the axis."""
        numbers = [path for path in self.paths if _Places(self.choices(path)).numbers]
        return next(iter(reversed(numbers or self.paths)), None)

    def values(self, group: str, at: Mapping[str, Any], others: Sequence[str], values: Sequence[Any]) -> list[float]:
        """Values of a group over the seeds of one point."""
        wanted = {**at, **(dict(zip(others, values, strict=True)) if values else {})}
        return [
            value
            for labels, of, value in self.points
            if of == group and all(labels[path] == choice for path, choice in wanted.items())
        ]


class _Places:
    """Where the values of a path stand on an axis: at their numbers where they have some,
    otherwise side by side."""

    def __init__(self, choices: Sequence[Any]):
        self.choices = list(choices)
        self.unit = ""
        parsed = [units.quantity(choice) for choice in self.choices]
        self.numbers: list[float] = []
        if parsed and len(parsed) > 1 and all(parsed):
            self.unit = parsed[0][1]
            sizes = [units.ratio(unit, self.unit) for _, unit in parsed]
            if all(sizes):
                self.numbers = [value * size for (value, _), size in zip(parsed, sizes, strict=True)]

    def of(self, choice: Any) -> float:
        place = self.choices.index(choice) if self.choices else 0
        return self.numbers[place] if self.numbers else float(place)

    def shift(self, place: int, count: int) -> float:
        """Lines side by side where there is no order along the axis."""
        return 0.0 if self.numbers else (place - (count - 1) / 2) * min(0.12, 0.6 / count)

    def mark(self, axes: Axes) -> None:
        """Ticks at the values."""
        if not self.numbers:
            axes.set_xticks(range(len(self.choices)), [str(choice) for choice in self.choices])
            axes.set_xlim(-0.5, max(len(self.choices), 1) - 0.5)
            if sum(len(str(choice)) for choice in self.choices) > 36:
                axes.tick_params(axis="x", rotation=25)
            return
        if min(self.numbers) > 0 and max(self.numbers) / min(self.numbers) >= 8:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        if len(self.numbers) <= 8:
            axes.set_xticks(self.numbers, [units.number(number) for number in self.numbers])

    def label(self, path: str) -> str:
        return f"{_short(path)}, {self.unit}" if self.numbers and self.unit else _short(path)


def _short(path: str) -> str:
    """A path as an axis names it: without the table that every scenario of one link has."""
    return path.removeprefix("dumbbell.").removeprefix("flow.").replace(".", " ").replace("_", " ")
