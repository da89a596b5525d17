"""Windows and queues against time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway import Run
from leeway.papers.common import PALETTE, frame, history, look, queue_history, thin
from leeway.papers.rossi2010.network import TARGET_PKT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


def windows(canvas: Canvas, run: Run, flows: dict[str, str], end: float, buffer: int) -> None:
    """Windows of two flows and their sum above, the queue below."""
    top, bottom = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _cwnds(top, run, flows, end)
    frame(top, "", "window (packets)", (0, end), (0, 90))
    _queue(bottom, run, end, buffer)
    frame(bottom, "time (s)", "queue (packets)", (0, end), (0, 1.1 * buffer))
    canvas.tight_layout()


def three(canvas: Canvas, runs: dict[tuple[int, int], Run], end: float) -> None:
    """The same for several runs side by side, by the second flow's start (s) and the buffer
    (packets)."""
    rows = canvas.subplots(2, len(runs), sharex=True, sharey="row", height_ratios=(3, 2))
    for column, ((delay, buffer), run) in enumerate(runs.items()):
        top, bottom = rows[0][column], rows[1][column]
        _cwnds(top, run, {"first": "first", "second": "second"}, end, total=False)
        left = column == 0
        frame(top, "", "window (packets)" if left else "", (0, end), (0, 150), left, f"{delay} s, {buffer} packets")
        _queue(bottom, run, end, buffer)
        frame(bottom, "time (s)", "queue (packets)" if left else "", (0, end), (0, 110), left)
    canvas.tight_layout()


def _cwnds(axes: Axes, run: Run, flows: dict[str, str], end: float, total: bool = True) -> None:
    looks = [look("newreno"), look("ledbat")] if "tcp" in flows else [look("ledbat"), {"color": PALETTE["purple"]}]
    histories = [history(run, name).between(0, end) for name in flows]
    if total:
        grid = np.arange(0, end, 0.02)
        steps = [h.cwnd[np.maximum(np.searchsorted(h.time, grid, side="right") - 1, 0)] for h in histories]
        axes.plot(grid, sum(steps), color=PALETTE["grey"], linewidth=1, label="sum")
    for (_, label), past, keywords in zip(flows.items(), histories, looks, strict=True):
        axes.plot(*thin(past.time, past.cwnd), linewidth=1.4, label=label, **keywords)


def _queue(axes: Axes, run: Run, end: float, buffer: int) -> None:
    time, length = queue_history(run)
    part = time <= end
    axes.plot(*thin(time[part], length[part]), color=PALETTE["grey"], linewidth=0.8)
    axes.axhline(TARGET_PKT, color=PALETTE["orange"], linewidth=1, linestyle="--", label="target")
    axes.axhline(buffer, color=PALETTE["red"], linewidth=1, linestyle=":", label="buffer")
