"""Two LEDBAT flows with TCP's slow start, and without."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from leeway import Window
from leeway.lab import Case, Claim, Figure, Outcome, Setting, Table, experiment
from leeway.papers.common import PALETTE, frame
from leeway.papers.rossi2010.network import LEDBAT, fairness, flow, scenario, utilisation

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab.experiment import Steps

SLOW_STARTS = {"off": LEDBAT, "on": LEDBAT.replace("slow_start=none", "slow_start=standard")}


@experiment("rossi2010:slowstart", title="Two LEDBAT flows with TCP's slow start")
def slowstart(setting: Setting) -> Steps:
    """Two LEDBAT flows, the second U(0, 10) s later; 2 and 10 Mbit/s, buffers of 10 and 50
    packets, 100 runs each.

    Fairness, efficiency and loss, with TCP's slow start and without. Published: open.
    """
    grid = [(rate, buffer) for rate in (2, 10) for buffer in (10, 50)]
    results = yield [
        Case(
            scenario(
                [flow("first", law), flow("second", law, 0, 10)],
                buffer,
                60,
                rate_mbps=rate,
                window=Window(name="both", from_="10 s", to="60 s"),
                series=False,
            ),
            seed,
            {"rate": rate, "buffer": buffer, "slow start": mode},
        )
        for rate, buffer in grid
        for mode, law in SLOW_STARTS.items()
        for seed in setting.seeds(quick=10, full=100)
    ]
    metrics = {
        "fairness F": fairness,
        "efficiency": utilisation,
        "loss (%)": lambda run: 100 * run.windows[0].link().loss,
    }
    found = {
        (rate, buffer, mode): {name: part.interval(metric) for name, metric in metrics.items()}
        for (rate, buffer, mode), part in results.groups("rate", "buffer", "slow start")
    }
    claims = [
        Claim.open(
            f"{rate} Mbit/s, {buffer} packets: {name} with slow start, and without",
            f"{found[rate, buffer, 'on'][name]}; {found[rate, buffer, 'off'][name]}",
        )
        for rate, buffer in grid
        for name in metrics
    ]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "slowstart",
                "Fairness, efficiency and loss of two LEDBAT flows from 10 to 60 s, with slow start and without.",
                lambda canvas: _bars(canvas, grid, list(metrics), found),
                (9.0, 3.6),
            )
        ],
        tables=[
            Table(
                "slowstart",
                "From 10 to 60 s",
                ("rate (Mbit/s)", "buffer (packets)", "slow start", *metrics),
                [[rate, buffer, mode, *values.values()] for (rate, buffer, mode), values in found.items()],
            )
        ],
        notes=[
            "The length of a run is not given: 60 s, as in figure 3. Metrics are of 10 to 60 s, when both flows have "
            "started. The window starts at one packet either way, and the first threshold is unlimited.",
        ],
    )


def _bars(canvas: Canvas, grid: list[tuple[int, int]], metrics: list[str], found: dict) -> None:
    places = np.arange(len(grid))
    for axes, metric in zip(canvas.subplots(1, len(metrics)), metrics, strict=True):
        for shift, mode, colour in ((-0.2, "off", "orange"), (0.2, "on", "purple")):
            values = [found[rate, buffer, mode][metric] for rate, buffer in grid]
            halves = [0.0 if math.isinf(value.half) else value.half for value in values]
            axes.bar(
                places + shift,
                [value.mean for value in values],
                0.36,
                yerr=halves,
                capsize=2,
                color=PALETTE[colour],
                ecolor=PALETTE["grey"],
                label=f"slow start {mode}",
            )
        axes.set_xticks(places, [f"{rate} Mb/s\n{buffer} pkt" for rate, buffer in grid], fontsize="x-small")
        frame(axes, "", metric, legend=False, ylim=None if "loss" in metric else (0, 1.05))
        axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    canvas.legend(handles, labels, frameon=False, fontsize="small", ncols=2, loc="upper center")
    canvas.tight_layout(rect=(0, 0, 1, 0.94))
