"""A run over time: a panel for each quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from leeway import units
from leeway.lab import figures
from leeway.plotting.figure import Figure, check_known

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
"""What a panel of a run's figure shows: a column of `Run.flows` or `Run.links`, by the name that
`plot` takes."""

BINS = 250
"""Spans of a run that rates are averaged over: a rate between two close samples is a packet or
none."""


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
        Any of "rate", "window", "delay" (queuing delay as the law sees it), "rtt" (smoothed) and
        "queue".
    groups
        Groups of flows to draw; all if None.
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
    check_known("panel", panels, list(PANELS))
    members = _members(of)
    check_known("group", groups or [], list(members))
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
    """A colour of the style, resolved now: matplotlib resolves "C0" when it writes the file, under
    another style."""
    colours = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    return colours[place % len(colours)]


def _links(axes: Axes, lines: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[Line2D]:
    """A line for each link with a queue: the name of a single one is at the axis, others are for
    the legend."""
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
    """Means of rates over spans of this many seconds: each rate holds since the sample before
    it."""
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
