"""The pictures of a board."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap

from leeway.lab import Figure
from leeway.papers.common import PALETTE, frame, look
from leeway.papers.scoreboard.line import MARGIN, Line

STEPS = (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1)
SHADES = ("#2166ac", "#67a9cf", "#c6dcec", "#fdd9a8", "#f1a340", "#cf5f1c", "#8a2f08")
"""Blues up to the margin, then yellow to dark brown; distinct with any colour vision."""


def figures(made: list[Line]) -> list[Figure]:
    """The map of harm, and harm against spare use."""
    made = [line for line in made if line.row.sends]
    picture = Figure(
        "map",
        "Harm to the throughput of bulk primaries (NewReno or CUBIC, the larger), law by network, best law first: "
        f"blue is up to {MARGIN:g}. A dot: answers to web-like requests are harmed by more than {MARGIN:g}.",
        draw_map(made),
        (min(40.0, max(7.0, 2.5 + 0.24 * len(made[0].scores))), 4.8),
    )
    scatter = Figure(
        "scatter",
        "Harm against use of spare capacity: a good law is at the upper left. The line leads to the harm on the "
        "worst network.",
        draw_scatter(made),
        (8.0, 4.6),
    )
    return [picture, scatter]


def draw_map(made: list[Line]) -> Callable:
    """Law by network, the larger harm to throughput of NewReno and CUBIC."""

    def draw(canvas) -> None:
        axes = canvas.subplots()
        values = np.array([line.values("bulk") for line in made])
        colours = ListedColormap(SHADES)
        image = axes.pcolormesh(
            values, cmap=colours, norm=BoundaryNorm(STEPS, colours.N), edgecolors="#7f879255", linewidth=0.4
        )
        answers = np.argwhere(np.array([line.values("web") for line in made]) > MARGIN) + 0.5
        axes.scatter(answers[:, 1], answers[:, 0], s=9, color="#ffffff", edgecolors="#101418", linewidths=0.6)
        axes.set_yticks(np.arange(len(made)) + 0.5, [line.row.name for line in made], fontsize="small")
        axes.set_xticks(np.arange(values.shape[1]) + 0.5, list(made[0].scores), rotation=90, fontsize="x-small")
        axes.invert_yaxis()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        canvas.colorbar(image, ax=axes, label="harm to throughput", pad=0.02, ticks=STEPS)
        canvas.tight_layout()

    return draw


def draw_scatter(made: list[Line]) -> Callable:
    """Median harm against median spare use; a thin line goes on to the worst network."""

    def draw(canvas) -> None:
        axes = canvas.subplots()
        axes.axvline(MARGIN, color=PALETTE["grey"], linestyle=":", linewidth=1.2)
        for rank, line in enumerate(made, start=1):
            style = look(line.row.law, marker=True)
            x, y = line.median("bulk"), line.median("spare")
            axes.plot([x, line.worst("bulk")[0]], [y, y], color=style["color"], linewidth=0.8, alpha=0.5)
            label = f"{rank}  {line.row.name}"
            axes.plot(x, y, marker=style["marker"], color=style["color"], markersize=7, linestyle="none", label=label)
            axes.annotate(str(rank), (x, y), xytext=(6, 3), textcoords="offset points", fontsize="x-small")
        across = "harm to bulk primaries, median (line: to the worst network)"
        frame(axes, across, "spare use beside web, median", legend=False)
        axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(0)
        canvas.tight_layout()

    return draw
