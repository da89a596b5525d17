"""The selector beside simple ways to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import PALETTE, frame
from leeway.papers.community.town import (
    EAGER,
    LEAST,
    METRICS,
    NEAREST,
    SCHEMES,
    SELECTOR,
    named,
    seeds,
    sizes,
    town,
)

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

COLOURS = dict(zip(SCHEMES, ("blue", "teal", "orange", "grey", "red"), strict=True))


@experiment("community:schemes", title="Many gateways: the selector beside simple ways to choose")
def schemes(setting: Setting) -> Steps:
    """A day of a community: homes use their own lines, gateways fail and pause, each client
    chooses by itself.

    Asked for: fewer than one move of a user in an hour, and 90 % of what a scheduler that knows
    everything would find. Published: clients that all take the least loaded server by old
    information herd (Mitzenmacher 2000; Dahlin 2000).
    """
    results = yield [
        Case(town(*size, scheme), seed, {"size": named(*size), "scheme": scheme})
        for size in sizes(setting)
        for scheme in SCHEMES
        for seed in seeds(setting, quick=3, full=10)
    ]
    claims = [claim for size in sizes(setting) for claim in judged(results, named(*size))]
    rows = [
        [size, scheme, *(group.interval(metric) for metric in METRICS.values())]
        for (size, scheme), group in results.groups("size", "scheme")
    ]
    first = results.where(size=named(*sizes(setting)[0]))
    caption = (
        "A day of a community of 50 gateways and 2,000 users. Left: what users got by how their clients chose, below "
        "the upper bound of any choice. Right: moves of a user in an hour of use."
    )
    notes = (
        "The bound is the dual of the linear program in which a scheduler that knows everything gives each user one "
        "gateway at each instant, for the greatest sum. On average some choice of whole users is within "
        f"{100 - 100 * results.interval(lambda run: run.feasible).mean:.1f} % of it. An outage is the time from the "
        "failure of a gateway to the first byte through another one, in steps of 5 s, which is also what a client "
        "takes to notice. `docs/selection.md` says what is modelled.",
    )
    table = Table("schemes", "Means over days.", ("community", "choice", *METRICS), rows)
    return Outcome(
        claims, [Figure("schemes", caption, lambda canvas: draw(canvas, first), (10.0, 4.0))], [table], notes
    )


def judged(results: Results, size: str) -> list[Claim]:
    """The claims for communities of a size."""
    ours = results.where(size=size, scheme=SELECTOR)

    def over(scheme: str, metric) -> Interval:
        other = np.array(results.where(size=size, scheme=scheme).values(metric))
        return Interval.of(other / np.array(ours.values(metric)))

    inf = float("inf")
    beyond = max(run.run().beyond_spare_bps for run in results.where(size=size))
    return [
        Claim.number(
            f"{size}: moves of a user in an hour of use",
            "below 1 (asked for)",
            ours.interval(lambda run: run.moves_per_user_hour),
            (0, 1),
        ),
        Claim.number(
            f"{size}: what users get, of the bound",
            "0.90 (asked for)",
            ours.interval(lambda run: run.found),
            (0.9, 1),
        ),
        Claim.number(
            f"{size}: moves with the least loaded gateway, over the selector's",
            "clients herd (Mitzenmacher 2000; Dahlin 2000)",
            over(LEAST, lambda run: run.moves_per_user_hour),
            (10, inf),
        ),
        Claim.number(
            f"{size}: what users get with the nearest gateway, over the selector's",
            "below 1 (IM 2017)",
            over(NEAREST, lambda run: run.found),
            (0, 0.95),
        ),
        Claim.open(
            f"{size}: what users get without hysteresis, over the selector's", over(EAGER, lambda run: run.found)
        ),
        Claim.open(f"{size}: Jain's index over users", ours.interval(lambda run: run.jain)),
        Claim.open(
            f"{size}: seconds without service after a failure, mean", ours.interval(lambda run: run.outage_mean_s), "s"
        ),
        Claim.fact(
            f"{size}: neighbours take no more than the home leaves, in any step of any run",
            "0",
            f"{beyond:g} bit/s beyond",
            beyond == 0,
        ),
    ]


def draw(canvas, results: Results) -> None:
    """What users got over the day, and the moves."""
    left, right = canvas.subplots(1, 2)
    any_run = results.where(scheme=SELECTOR)

    def mean(found: Results, of) -> np.ndarray:
        return np.mean([[of(hour) for hour in each.run().hours] for each in found], axis=0)

    hours = np.arange(len(any_run[0].run().hours)) + 0.5
    left.plot(
        hours, mean(any_run, lambda hour: hour.bound_bps) / 1e6, color=PALETTE["purple"], linestyle=":", label="bound"
    )
    for scheme, colour in COLOURS.items():
        found = results.where(scheme=scheme)
        if scheme != EAGER:
            served = mean(found, lambda hour: hour.served_bps) / 1e6
            left.plot(hours, served, color=PALETTE[colour], label=scheme)
        moves = mean(found, lambda hour: hour.moves)
        right.plot(hours, np.maximum(moves, 1e-2), color=PALETTE[colour], label=scheme)
    frame(left, "hour of the day", "all users together (Mbit/s)", (0, 24))
    left.set_ylim(0, 1.15 * float(max(mean(any_run, lambda hour: hour.bound_bps)) / 1e6))
    right.axhline(1, color=PALETTE["purple"], linestyle=":")
    right.set_yscale("log")
    frame(right, "hour of the day", "moves of a user in an hour of use", (0, 24), (1e-2, 1e3), legend=False)
    right.legend(frameon=False, fontsize="small", ncols=2, loc="upper left")
    canvas.tight_layout()
