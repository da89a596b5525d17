"""A community, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway import units
from leeway.lab import figures
from leeway.plotting.figure import Figure

if TYPE_CHECKING:
    from leeway.community import CommunityRun

PANELS = (
    ("rate", {"wanted_bps": "wanted", "bound_bps": "one gateway each, at best", "served_bps": "got"}),
    ("to spare", {"spare_bps": ""}),
    ("moves of a user\nin an hour of use", {"moves": ""}),
)
"""What the panels show: their words, and the fields of `Hour` with their names in the legend."""


def community(of: CommunityRun, dark: bool = False, size: tuple[float, float] | None = None) -> Figure:
    """Draws the hours of a community: what users wanted and got, what was to spare, and changes of
    gateway.

    Parameters
    ----------
    of
        A run of a community.
    dark
        On a dark ground; otherwise on white, and in a notebook in the colours of its page.
    size
        Width and height in inches.
    """
    with figures.style(dark):
        canvas = Figure("what users wanted and got, spare capacity and moves by hour", dark, size or (7.0, 5.8))
        every = canvas.subplots(len(PANELS), 1, sharex=True, height_ratios=(2, 1, 1))
        edges = list(range(len(of.hours) + 1))
        for axes, (words, lines) in zip(every, PANELS, strict=True):
            values = {field: [getattr(hour, field) for hour in of.hours] for field in lines}
            scale = units.scale(next(iter(lines)), [value for line in values.values() for value in line])
            for field, label in lines.items():
                axes.stairs([value / scale.size for value in values[field]], edges, baseline=None, label=label, lw=1.6)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(f"{words}, {scale.unit}" if scale.unit else words)
        every[0].legend(loc="upper left", frameon=False)
        every[-1].set_xlabel("hours since midnight")
        every[-1].set_xlim(0, len(of.hours))
        every[-1].set_xticks(edges[:: 1 if len(of.hours) <= 12 else 3 if len(of.hours) <= 36 else 24])
        canvas.align_ylabels(every)
    return canvas
