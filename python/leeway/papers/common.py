"""Common code of the papers: one look for each law, axes, and reading of series.

Every colour has a contrast of at least 3 to 1 on a white and on a dark page. The page that shows
the figure sets the colours of text and axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from leeway.lab import Claim, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leeway import Run

PALETTE = {
    "blue": "#2f7ed8",
    "orange": "#d9731a",
    "green": "#2e9e5b",
    "purple": "#9a62cf",
    "red": "#d9485f",
    "teal": "#1a98a6",
    "brown": "#a5784a",
    "pink": "#cf5fa6",
    "olive": "#8b8f1f",
    "grey": "#7f8792",
}
"""Colours by name."""

CYCLE = tuple(PALETTE.values())
"""Colours of curves that do not stand for a law, in order."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Markers, in the same order."""

_LOOKS = {
    "newreno": ("NewReno", "blue", "-", "o"),
    "cubic": ("CUBIC", "teal", "-", "s"),
    "bbr": ("BBR", "teal", ":", "p"),
    "ledbat": ("LEDBAT", "orange", "--", "^"),
    "fledbat": ("fLEDBAT", "green", "-.", "D"),
    "ledbatpp": ("LEDBAT++", "brown", "--", "v"),
    "flower": ("FLOWER", "purple", "-", "P"),
    "proteus": ("Proteus-S", "red", "-", "d"),
    "flexis": ("FlexiS", "pink", "-", "h"),
    "ebb": ("Ebb", "grey", "-", "*"),
    "vegas": ("Vegas", "olive", "-.", "X"),
    "nice": ("Nice", "red", ":", "<"),
    "lp": ("TCP-LP", "pink", ":", ">"),
}
_UNKNOWN = ("grey", "-", ".")


def law_name(law: str) -> str:
    """The law's name in prose, without its parameters: ``ledbat:target=5ms`` is LEDBAT."""
    name = law.partition(":")[0]
    return _LOOKS[name][0] if name in _LOOKS else name


def look(law: str, marker: bool = False) -> dict[str, Any]:
    """Look of a curve of this law in every figure, as keywords for matplotlib."""
    _, colour, line, mark = _LOOKS.get(law.partition(":")[0], ("", *_UNKNOWN))
    keywords: dict[str, Any] = {"color": PALETTE[colour], "linestyle": line}
    return keywords | {"marker": mark, "markersize": 4} if marker else keywords


def frame(
    axes: Axes,
    x: str,
    y: str,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    legend: bool = True,
    title: str = "",
) -> None:
    """Labels, ranges, a light grid and a legend without a box."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if xlim:
        axes.set_xlim(*xlim)
    if ylim:
        axes.set_ylim(*ylim)
    if title:
        axes.set_title(title, fontsize="medium")
    axes.set_axisbelow(True)
    axes.grid(True, color=PALETTE["grey"], alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize="small")


def curve(axes: Axes, x: Sequence[float], y: Sequence[Interval], **keywords: Any) -> None:
    """Means with their confidence intervals as error bars; none where there was a single run."""
    halves = [0.0 if math.isinf(value.half) else value.half for value in y]
    axes.errorbar(x, [value.mean for value in y], yerr=halves, capsize=2, elinewidth=1, **keywords)


def with_causes(claims: Iterable[Claim]) -> list[Claim]:
    """The claims, with the causes of those that do not hold."""
    return [claim if claim.holds is False else replace(claim, why="") for claim in claims]


@dataclass(frozen=True, slots=True)
class History:
    """Series of one flow, as arrays of the same length.

    Attributes
    ----------
    time
        Instants (s).
    cwnd
        Windows (packets).
    delay
        Queuing delays as the law estimates them (ms).
    rate
        Delivered rates since the sample before (bit/s).
    """

    time: np.ndarray
    cwnd: np.ndarray
    delay: np.ndarray
    rate: np.ndarray

    def when(self, condition: np.ndarray, after: float = 0.0) -> float:
        """The first instant from `after` on (s) at which `condition`, an array as long as the
        history, holds.

        Infinite if it never does.
        """
        hits = np.flatnonzero(condition & (self.time >= after))
        return float(self.time[hits[0]]) if len(hits) else math.inf

    def halving(self, after: float = 0.0, within: float = 0.1) -> float:
        """The first instant from `after` on (s) from which the window falls by more than a quarter
        `within` seconds."""
        later = np.minimum(np.searchsorted(self.time, self.time + within), len(self.time) - 1)
        return self.when(self.cwnd[later] < 0.75 * self.cwnd, after)

    def between(self, start: float, end: float) -> History:
        """The part from `start` to `end` (s)."""
        part = (self.time >= start) & (self.time <= end)
        return History(self.time[part], self.cwnd[part], self.delay[part], self.rate[part])

    def cwnd_at(self, time: float) -> float:
        """The window at the last sample before `time` (s)."""
        index = int(np.searchsorted(self.time, time, side="right")) - 1
        return float(self.cwnd[index]) if index >= 0 else math.nan


def history(run: Run, flow: str) -> History:
    """Series of the flow with this name.

    Raises
    ------
    LookupError
        If the run has no series of this flow.
    """
    table = run.flows.filter(pc.equal(pc.cast(run.flows["flow"], "string"), flow))
    if not len(table):
        raise LookupError(f"the run has no series of a flow {flow}")
    names = ("time_s", "cwnd_pkt", "queuing_delay_ms", "rate_bps")
    return History(*(table[name].to_numpy().astype(float) for name in names))


def queue_history(run: Run, link: str = "bottleneck") -> tuple[np.ndarray, np.ndarray]:
    """Instants (s) and the length of a link's queue (packets)."""
    table = run.links.filter(pc.equal(pc.cast(run.links["link"], "string"), link))
    return table["time_s"].to_numpy().astype(float), table["queue_pkt"].to_numpy().astype(float)


def thin(*arrays: np.ndarray, points: int = 1500) -> tuple[np.ndarray, ...]:
    """Every n-th element of each, so that a drawing has about this many points."""
    step = max(1, len(arrays[0]) // points)
    return tuple(array[::step] for array in arrays)


def bdp_packets(rate_bps: float, one_way_s: float, packet_bytes: int = 1500) -> int:
    """Rate times twice the one-way delay in packets, rounded up, as all papers count it."""
    return math.ceil(rate_bps * 2 * one_way_s / (8 * packet_bytes) - 1e-9)
