"""Why users get less than 90 % of the bound when they want much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Interval, Outcome, Setting, Table, experiment
from leeway.papers.community.town import EAGER, SELECTOR, named, seeds, sizes, town

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

WAYS = {
    "as it is": (SELECTOR, 120.0),
    "no hysteresis": (EAGER, 120.0),
    "transfers of 40 min": (SELECTOR, 2400.0),
    "both": (EAGER, 2400.0),
}
"""How clients choose, and the mean length of a transfer (s)."""


@experiment("community:difference-changes", title="What steadiness costs at twice the demand", kind="difference")
def changes(setting: Setting) -> Steps:
    """At twice the demand of `community:schemes`, one thing is changed at a time.

    If users' wishes change slowly and clients follow each of them, they get nearly what a choice
    of one gateway for each user surely gives.
    """
    size = sizes(setting)[0]
    results = yield [
        Case(town(*size, scheme, demand=2.0, transfer_s=transfer_s), seed, {"way": way})
        for way, (scheme, transfer_s) in WAYS.items()
        for seed in seeds(setting, quick=1, full=10)
    ]

    def of_feasible(way: str) -> Interval:
        return results.where(way=way).interval(lambda run: run.found / run.feasible)

    claims = [
        Claim.number(
            f"{named(*size)}, demand 2, both: what users get, of what a choice that knows everything surely gives",
            "",
            of_feasible("both"),
            (0.9, 1),
        )
    ]
    rows = [
        [
            way,
            group.interval(lambda run: run.found),
            of_feasible(way),
            group.interval(lambda run: run.moves_per_user_hour),
        ]
        for (way,), group in results.groups("way")
    ]
    columns = ("what is changed", "of the bound", "of what surely is possible", "moves / user / h")
    return Outcome(claims, (), [Table("changes", "Means over days.", columns, rows)])
