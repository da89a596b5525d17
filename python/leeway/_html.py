"""Scenarios, runs and sweeps as notebooks show them: tables, and a small chart of a run with
series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING

from leeway import units

if TYPE_CHECKING:
    from leeway.results import Run, WindowSummary
    from leeway.scenario import Channel, Scenario
    from leeway.sweeps import Sweep

COLOURS = ("#2a6fbb", "#d1631f", "#3f8f4f", "#a0459b", "#8a6d1f", "#4c8c9c")
"""Colours of lines, one for each flow; readable on a light and on a dark ground."""
LINES = 8
"""Most flows that a chart shows."""
POINTS = 400
"""Most points of a line."""
ROWS = 60
"""Most rows of a sweep's table."""
SIZE = (560, 160)
"""Width and height of a chart, pixels."""


def scenario(of: Scenario) -> str:
    """A scenario as a table of its links and one of its flows."""
    title = f"<b>{escape(of.title)}</b><br>" if of.title else ""
    head = f"{title}{escape(of.duration)}, {escape(of.profile)} profile"
    links = [(name, _rate(channel), channel.delay, channel.buffer, channel.queue) for name, channel in _channels(of)]
    flows = [
        (flow.name, flow.role, flow.law, flow.count, flow.app.get("kind", ""), flow.start or "") for flow in of.flow
    ]
    return (
        f"<div>{head}</div>"
        + _table(("link", "rate", "delay", "buffer", "queue"), links)
        + _table(("flow", "role", "law", "count", "app", "start"), flows)
    )


def _rate(channel: Channel) -> str:
    return channel.rate or ("trace" if channel.trace else "varies" if channel.rates else "no limit")


def _channels(of: Scenario) -> Iterator[tuple[str, Channel]]:
    named = [("bottleneck", of.dumbbell.bottleneck, of.dumbbell.reverse)] if of.dumbbell else []
    for name, forward, reverse in [*named, *((link.name, link.forward, link.reverse) for link in of.link)]:
        yield name, forward
        if reverse is not None:
            yield f"{name} (reverse)", reverse


def run(of: Run) -> str:
    """A run as a table of the groups in each window, and its windows over time."""
    return f"<div>seed {of.seed}, {of.work.events:,} events</div>{groups(of.windows)}{_chart(of)}"


def groups(windows: Iterable[WindowSummary]) -> str:
    """The groups of some windows as a table."""
    rows = [
        (
            window.name,
            group.name,
            group.role,
            group.law or "",
            units.text("throughput_bps", group.throughput_bps),
            "" if group.share is None else units.text("share", group.share),
            units.text("loss", group.loss),
            "" if group.rtt is None else units.text("rtt_p50_s", group.rtt.p50_s),
        )
        for window in windows
        for group in window.groups
    ]
    return _table(("window", "flow", "role", "law", "throughput", "share", "loss", "median RTT"), rows)


def sweep(of: Sweep) -> str:
    """The groups of each point of a sweep in its first window, as means over the seeds."""
    points: dict[tuple[str, ...], list[WindowSummary]] = {}
    for each in of:
        points.setdefault(tuple(map(str, each.labels.values())), []).append(each.run().window())
    rows = [
        (
            *values,
            group.name,
            *(
                _mean(name, [getattr(window.groups[place], name) for window in windows])
                for name in ("throughput_bps", "share", "loss")
            ),
            _mean("rtt_p50_s", [rtt and rtt.p50_s for rtt in (window.groups[place].rtt for window in windows)]),
        )
        for values, windows in points.items()
        for place, group in enumerate(windows[0].groups)
    ]
    paths = list(of[0].labels) if len(of) else []
    more = f"<div>and {len(rows) - ROWS:,} more rows: table()</div>" if len(rows) > ROWS else ""
    head = (*paths, "flow", "throughput", "share", "loss", "median RTT")
    return f"<div>{escape(repr(of)[1:-1])}; means over the seeds</div>{_table(head, rows[:ROWS])}{more}"


def _mean(name: str, values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return units.text(name, fmean(known)) if known else ""


def summary(name: str, fields: Iterable[tuple[str, str]]) -> str:
    """A summary as a table, a row for each field."""
    return _table((name, ""), fields)


def _table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _chart(of: Run) -> str:
    """The windows of the first flows over time, as SVG; nothing without series."""
    if len(of.flows) == 0:
        return ""
    data = of.flows.select(["time_s", "flow", "cwnd_pkt"]).combine_chunks()
    times, values = (data[name].to_numpy() for name in ("time_s", "cwnd_pkt"))
    column = data["flow"].chunk(0)
    indices, names = column.indices.to_numpy(), column.dictionary.to_pylist()
    width, height = SIZE
    most, until = max(float(values.max()), 1.0), float(times.max()) or 1.0
    lines, legend = [], []
    for place, index in enumerate(sorted(set(indices.tolist()))[:LINES]):
        chosen = indices == index
        t, v = times[chosen], values[chosen]
        step = max(1, len(t) // POINTS)
        points = " ".join(
            f"{width * a / until:.1f},{height * (1 - b / most):.1f}" for a, b in zip(t[::step], v[::step], strict=True)
        )
        colour = COLOURS[place % len(COLOURS)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        legend.append(f'<span style="color:{colour}">&#9632;</span> {escape(names[index])}')
    return (
        f"<div>window, packets (0 to {most:.0f}) over time (0 to {until:g} s): {' '.join(legend)}</div>"
        f'<svg width="{width}" height="{height}" viewBox="0 -2 {width} {height + 4}" '
        f'style="border-left:1px solid gray;border-bottom:1px solid gray">{"".join(lines)}</svg>'
    )
