"""What the selector finds as users want more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Figure, Outcome, Setting, Table, experiment
from leeway.papers.common import PALETTE, curve, frame, with_causes
from leeway.papers.community.town import LEAST, METRICS, NEAREST, SELECTOR, named, seeds, sizes, town

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

CAUSE = (
    "community:difference-changes: what users want changes every two minutes, and a client that moves less than once "
    "an hour does not follow"
)
DEMANDS = (0.5, 1.0, 2.0, 4.0)
"""Factors on what users want."""


@experiment("community:load", title="Many gateways: light load to overload")
def load(setting: Setting) -> Steps:
    """The day of `community:schemes`, with half to four times the demand.

    Asked for: fewer than one move of a user in an hour, and 90 % of what a scheduler that knows
    everything would find.
    """
    shown = {SELECTOR: "blue", NEAREST: "orange"} | setting.pick({}, {LEAST: "red"})
    size = sizes(setting)[0]
    results = yield [
        Case(town(*size, scheme, demand=demand), seed, {"demand": demand, "scheme": scheme})
        for demand in DEMANDS
        for scheme in shown
        for seed in seeds(setting, quick=1, full=10)
    ]
    claims = []
    for demand in DEMANDS:
        ours = results.where(demand=demand, scheme=SELECTOR)
        text = f"{named(*size)}, demand {demand:g}"
        moves = ours.interval(lambda run: run.moves_per_user_hour)
        claims += [
            Claim.number(f"{text}: moves of a user in an hour of use", "below 1 (asked for)", moves, (0, 1)),
            Claim.number(
                f"{text}: what users get, of the bound",
                "0.90 (asked for)",
                ours.interval(lambda run: run.found),
                (0.9, 1),
                why=CAUSE,
            ),
        ]
    columns = ("demand / spare", "feasible", *METRICS)
    extra = (lambda run: run.demand, lambda run: run.feasible)
    rows = [
        [demand, scheme, *(group.interval(metric) for metric in (*extra, *METRICS.values()))]
        for (demand, scheme), group in results.groups("demand", "scheme")
    ]

    def draw(canvas) -> None:
        axes = canvas.subplots()
        loads = [results.where(demand=demand).interval(lambda run: run.demand).mean for demand in DEMANDS]
        for scheme, colour in shown.items():
            found = [results.where(demand=d, scheme=scheme).interval(lambda run: run.found) for d in DEMANDS]
            curve(axes, loads, found, color=PALETTE[colour], marker="o", label=scheme)
        sure = [results.where(demand=d, scheme=SELECTOR).interval(lambda run: run.feasible) for d in DEMANDS]
        curve(axes, loads, sure, color=PALETTE["purple"], linestyle=":", label="a choice that knows everything")
        frame(axes, "demand over spare capacity, mean of the day", "what users get, of the bound")
        axes.set_ylim(0, 1.02)

    caption = "What users get of the upper bound of any choice, as they want more. The bound maximises the sum alone."
    table = Table("load", "Means over days.", ("demand", "choice", *columns), rows)
    return Outcome(with_causes(claims), [Figure("load", caption, draw)], [table])
