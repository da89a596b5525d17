"""Swarms whose peers come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway import Scenario
from leeway.lab import Case, Claim, Interval, Outcome, Setting, Table, experiment
from leeway.papers.swarm.network import ACCESS, LAWS, homes, metric, scenario

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

TCP = next(iter(LAWS))
LINES = ("ADSL 8/0.6", "ADSL 8/0.6, fq_codel", "fibre 100/20")
ARRIVALS_PER_S = 0.4
STAY_S = 20
"""How long a home stays when it has the file."""
WAVES = 4
"""Groups of homes that give up, each at a time of its own."""
PATIENCE_S = 30
"""The longest time after which a home that gives up leaves."""
SHOWN = ("completion (s)", "p95 (s)", "fairness", "share ratio", "least ratio", "served")


def changing(access: str, law: str, count: int) -> Scenario:
    """A swarm of `count` homes that arrive one by one and leave when they have the file.

    A quarter of them, in waves, give up before. The two seeds stay.
    """
    arrivals_s = count / ARRIVALS_PER_S
    each = count // 4 // WAVES
    leaves = {f"wave {wave}": arrivals_s * (wave + 1) / WAVES for wave in range(WAVES)}
    kinds = {"home": (law, count - WAVES * each)} | dict.fromkeys(leaves, (law, each))
    made = scenario(ACCESS[access], kinds, arrivals_s + 240)
    for flow in made.flow:
        if flow.name == "peers home":
            flow.start = {"uniform": ["0 s", f"{arrivals_s:g} s"]}
            flow.app = {"kind": "peer", "stay": f"{STAY_S} s"}
        elif flow.name.startswith("peers "):
            at_s = leaves[flow.name.removeprefix("peers ")]
            flow.start = {"uniform": [f"{at_s - PATIENCE_S:g} s", f"{at_s - 1:g} s"]}
            flow.stop = f"{at_s:g} s"
    return made


def waiting(run) -> float:
    """Homes that wait for the file until the end."""
    return float(run.window("all").group("peers home").swarm.unfinished)


@experiment("swarm:churn", title="Swarms whose peers come and go")
def churn(setting: Setting) -> Steps:
    """Homes arrive one by one, two in 5 s, and leave 20 s after they have the file.

    A quarter of the homes give up before they have it. Published: what `swarm:alike` compares
    with. Testbeds and simulations of flash crowds do not show what arrivals and departures change.
    """
    count = 3 * homes(setting)
    results = yield [
        Case(changing(access, spec, count), seed, {"access": access, "law": law})
        for access in LINES
        for law, spec in LAWS.items()
        for seed in setting.seeds(quick=3, full=10)
    ]

    def against(access: str, law: str) -> Interval:
        ours, tcp = (
            np.array(results.where(access=access, law=each).values(metric("completion (s)"))) for each in (law, TCP)
        )
        return Interval.of(ours / tcp)

    claims = [Claim.number("homes that wait for the file until the end", "0", results.interval(waiting), (0, 0))]
    for access in LINES:
        for law in list(LAWS)[1:]:
            text = f"{access}: completion time of {law} over that of TCP"
            claims.append(Claim.open(text, against(access, law)))
    rows = [
        [access, law, *(group.interval(metric(name)) for name in SHOWN)]
        for (access, law), group in results.groups("access", "law")
    ]
    notes = (
        f"{count} homes arrive during {count / ARRIVALS_PER_S:g} s. A quarter of them leave without the file, in "
        f"{WAVES} waves, at most {PATIENCE_S} s after they came. The table has those that stay. The lines, the seeds, "
        "the calls and the pages are those of `swarm:alike`.",
    )
    return Outcome(claims, (), [Table("churn", "Means over runs.", ("line", "law", *SHOWN), rows)], notes)
