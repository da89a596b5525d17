"""Figures of runs and sweeps, drawn with matplotlib: `Run.plot` and `Sweep.plot`.

A notebook shows a figure in the colours of its page, light or dark. A file that is made of it has a white ground, or a
dark one where `dark` is asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

try:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from leeway.lab import figures
    from leeway.lab.statistics import Interval
except ImportError as missing:
    _name = (missing.name or "matplotlib").partition(".")[0]
    raise ImportError(
        f"plot() needs {_name}, which is not installed; pip install 'leeway[lab]' brings what figures need", name=_name
    ) from missing

from leeway import tables, units

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from leeway.results import Run

PANELS = {
    "rate": ("flows", "rate_bps"),
    "window": ("flows", "cwnd_pkt"),
    "delay": ("flows", "queuing_delay_ms"),
    "rtt": ("flows", "srtt_ms"),
    "queue": ("links", "queue_pkt"),
}
"""What a panel of a run's figure shows: a column of `Run.flows` or `Run.links`, by the name that `plot` takes."""

BINS = 250
"""Spans of a run that rates are averaged over: a rate between two close samples is a packet or none."""

DARK_PAGES = (
    'html[theme="dark"]',
    '[data-theme="dark"]',
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    '[data-md-color-scheme="slate"]',
)
"""How JupyterLab, VS Code, Colab and the book say that their page is dark."""


class Figure(figures.Sheet):
    """A figure of matplotlib that a notebook shows in the colours of its page.

    Parameters
    ----------
    caption
        What there is to see, for those who cannot see it.
    dark
        Whether the ground is dark, everywhere.
    size
        Width and height in inches.
    """

    def __init__(self, caption: str, dark: bool, size: tuple[float, float]):
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)
        self._caption, self._is_dark = caption, dark

    def _repr_html_(self) -> str:
        drawing = figures.Drawing.of(self, self._caption, self._is_dark)
        return f'<div class="leeway-figure">{drawing.svg()}</div>' if self._is_dark else html(drawing)


def html(drawing: figures.Drawing) -> str:
    """A drawing for a notebook, in the colours of its page."""
    prefix = f"f{zlib.crc32(drawing.inline('').encode()):08x}-"  # ids of several figures of a page differ
    return f'<div class="leeway-figure"><style>{_STYLE}</style>{drawing.inline(prefix)}</div>'


def _style() -> str:
    """Colours of figures for light and dark pages."""

    def rule(selectors: Iterable[str], colours: Sequence[str], line: str) -> str:
        values = [f"--line:{line}", *(f"--c{i}:{colour}" for i, colour in enumerate(colours))]
        return f"{','.join(selectors)}{{{';'.join(values)}}}"

    own = ".leeway-figure"
    return (
        f"{own} svg{{max-width:100%;height:auto}}"
        + rule([own], figures.LIGHT, figures.GRID)
        + rule([f"{page} {own}" for page in DARK_PAGES], figures.DARK, figures.DARK_GRID)
    )


_STYLE = _style()


def run(
    of: Run,
    panels: Sequence[str] = ("rate", "window", "queue"),
    groups: Sequence[str] | None = None,
    dark: bool = False,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Draws how a run went over time, a panel for each quantity.

    Parameters
    ----------
    of
        A run of a scenario with `series`.
    panels
        Any of "rate", "window", "delay" (queuing delay as the law sees it), "rtt" (smoothed) and "queue".
    groups
        Groups of flows to draw; all where None.
    dark
        On a dark ground; otherwise on white, and in a notebook in the colours of its page.
    size
        Width and height in inches.

    Raises
    ------
    ValueError
        If the run has no series, or there is no such panel or group.
    """
    if len(of.flows) == 0:
        raise ValueError("the run has no series to plot; the scenario needs some, such as series=Series(every='20 ms')")
    panels = list(panels)
    _known("panel", panels, list(PANELS))
    members = _members(of)
    _known("group", groups or [], list(members))
    shown = list(groups or members)
    flows = {flow: (group, place) for place, group in enumerate(shown) for flow in members[group]}
    laws = {group.name: group.law for group in of.windows[0].groups}
    with figures.style(dark):
        what = " and ".join(units.words(PANELS[panel][1]) for panel in panels)
        canvas = Figure(f"{what} of {', '.join(shown)} over time", dark, size or (7.0, 1.0 + 1.6 * len(panels)))
        every = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        handles = []
        if any(PANELS[panel][0] == "flows" for panel in panels):
            handles = [
                mpl.lines.Line2D(
                    [], [], color=_colour(place), label=f"{group}, {laws[group]}" if laws[group] else group
                )
                for place, group in enumerate(shown)
            ]
        for axes, panel in zip(every, panels, strict=True):
            source, column = PANELS[panel]
            if source == "links":
                handles += _links(axes, _lines(of.links, "link", column))
            else:
                _flows(axes, column, _lines(of.flows, "flow", column), flows)
            axes.set_ylim(bottom=0)
        every[-1].set_xlabel("time, s")
        every[-1].set_xlim(of.windows[0].from_s if len(of.windows) == 1 else 0, max(w.to_s for w in of.windows))
        canvas.align_ylabels(every)
        if handles:
            longest = max(len(handle.get_label()) for handle in handles)
            columns = max(1, min(len(handles), int(13 * canvas.get_figwidth()) // (longest + 7)))
            canvas.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)
    return canvas


def _flows(
    axes: Axes,
    column: str,
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]],
    flows: Mapping[str, tuple[str, int]],
) -> None:
    """A line for each flow, in the colour of its group."""
    lines = {flow: lines[flow] for flow in flows if flow in lines}
    if column == "srtt_ms":  # 0 until there is a sample
        lines = {flow: (times, np.where(values > 0, values, np.nan)) for flow, (times, values) in lines.items()}
    if column == "rate_bps":
        span = max((times[-1] for times, _ in lines.values()), default=0.0) / BINS
        lines = {flow: _binned(*line, span) for flow, line in lines.items()}
    scale = units.scale(column, [float(np.nanmax(values, initial=0)) for _, values in lines.values()])
    company = {group: sum(1 for other, _ in flows.values() if other == group) for group, _ in flows.values()}
    for flow, (times, values) in lines.items():
        group, place = flows[flow]
        many = company[group] > 1
        axes.plot(
            times,
            values / scale.size,
            color=_colour(place),
            linewidth=0.8 if many else 1.4,
            alpha=0.6 if many else 1.0,
        )
    axes.set_ylabel(scale.label)


def _colour(place: int) -> str:
    """A colour of the style, resolved now: matplotlib resolves "C0" when it writes the file, under another style."""
    colours = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    return colours[place % len(colours)]


def _links(axes: Axes, lines: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[Line2D]:
    """A line for each link with a queue: the name of a single one is at the axis, others are for the legend."""
    ink = mpl.rcParams["text.color"]
    drawn = []
    for place, (link, (times, values)) in enumerate(lines.items()):
        style = ("-", "--", ":", "-.")[place % 4]
        drawn += axes.plot(times, values, style, color=ink, linewidth=1.0, alpha=0.8, label=f"queue of {link}")
    only = next(iter(lines)) if len(lines) == 1 else ""
    axes.set_ylabel(f"queue of\n{only}, pkt" if only else "queue, pkt")
    return [] if only else drawn


def _lines(table: pa.Table, name: str, column: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Times and values by flow or link."""
    data = table.select(["time_s", name, column]).combine_chunks()
    times, values = (data[each].to_numpy().astype(float) for each in ("time_s", column))
    codes = data[name].chunk(0)
    found = {}
    for code, each in enumerate(codes.dictionary.to_pylist()):
        chosen = codes.indices.to_numpy() == code
        if chosen.any():
            found[each] = (times[chosen], values[chosen])
    return found


def _binned(times: np.ndarray, rates: np.ndarray, span: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of rates over spans of this many seconds: each rate holds since the sample before it."""
    count = round((times[-1] - times[0]) / span) if span > 0 else 0
    if not 0 < count < len(times):
        return times, rates
    sums = np.concatenate([[0.0], np.cumsum(rates[1:] * np.diff(times))])
    edges = np.linspace(times[0], times[-1], count + 1)
    return (edges[:-1] + edges[1:]) / 2, np.diff(np.interp(edges, times, sums)) / np.diff(edges)


def _members(of: Run) -> dict[str, list[str]]:
    """Names of flows by group, as the series have them."""
    return {
        group.name: [group.name] if group.flows == 1 else [f"{group.name}.{i + 1}" for i in range(group.flows)]
        for group in of.windows[0].groups
    }


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
    """Draws a metric against a swept value: means over the seeds with their 95 % confidence intervals.

    Of one swept path, each group of flows is a line. Of several, each group has a panel, and the values of the other
    paths are its lines.

    Parameters
    ----------
    runs
        Runs with labels.
    metric
        A column of `leeway.summaries` with numbers: "throughput_bps", "rtt_p95_s", "harm_throughput".
    x
        Path along the axis; where None the last one whose values are numbers, otherwise the last one.
    groups
        Groups of flows to draw; all that have the metric where None.
    window
        Window that the metric is of; the first where None.
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
    _known("metric", [metric], numbers)
    grid = _Grid(runs, metric, window)
    _known("group", groups or [], grid.groups)
    _known("path", [x] if x else [], grid.paths)
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
            ends = [end for axes in every for end in _ends(axes)]
            low, high = min(0.0, *ends), max(0.0, *ends)
            every[0].set_ylim(low - (0.05 * (high - low) if low < 0 else 0), high + 0.05 * (high - low or 1.0))
        if len(panels[0][1]) > 1:
            handles, labels = every[0].get_legend_handles_labels()
            title = " and ".join(_short(path) for path in others) if by_panel else None
            canvas.legend(handles, labels, title=title, loc="outside right upper", frameon=False, alignment="left")
    return canvas


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
    """Where the values of a path stand on an axis: at their numbers where they have some, otherwise side by side."""

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


def _known(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for each in asked:
        if each not in known:
            near = get_close_matches(each, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"there is no {what} {each!r}; {hint}there are: {', '.join(known) or 'none'}")
