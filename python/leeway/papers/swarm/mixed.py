"""Swarms in which half of the homes have a law that yields and the others TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway import Run
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import curve, frame, look
from leeway.papers.swarm.network import ACCESS, LAWS, METRICS, homes, mean_of_all, metric, scenario

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

TCP, *YIELDING = LAWS
DURATION_S = 240
LINES = ("ADSL 8/0.6", "ADSL 8/0.6, fq_codel")


def pair(name: str):
    """Of the homes that yield, over those with TCP in the same swarm."""

    def over(run: Run) -> float:
        return METRICS[name](run, "yielding") / METRICS[name](run, "tcp")

    return over


@experiment("swarm:mixed", title="Swarms of two laws: who is served, and who completes first")
def mixed(setting: Setting) -> Steps:
    """Half of the homes yield in all that they send, the others use TCP; the seeds use TCP.

    Published: in mixed swarms uTP peers may complete earlier, because what they ask for does not
    wait in their uplink's queue (P2P 2011). Open since 2010: whether peers that yield are chosen
    less often.
    """
    half = homes(setting) // 2
    names = LINES if setting.full else LINES[:1]
    seeds = setting.seeds(quick=5, full=20)
    mixtures = [
        Case(
            scenario(ACCESS[access], {"tcp": (LAWS[TCP], half), "yielding": (LAWS[law], half)}, DURATION_S),
            seed,
            {"access": access, "law": law, "swarm": "half"},
        )
        for access in names
        for law in YIELDING
        for seed in seeds
    ]
    pure = [
        Case(
            scenario(ACCESS[access], {"home": (spec, 2 * half)}, DURATION_S),
            seed,
            {"access": access, "law": law, "swarm": "pure"},
        )
        for access in names
        for law, spec in LAWS.items()
        for seed in seeds
    ]
    results = yield [*mixtures, *pure]
    claims = []
    for access in names:
        for law in YIELDING:
            group = results.where(access=access, law=law, swarm="half")
            where = f"{access}, {law} beside TCP"
            earlier = group.interval(pair("completion (s)"))
            if law.startswith("LEDBAT"):
                text = f"{where}: completion time, yielding homes over the others"
                claims.append(Claim.number(text, "below 1 (P2P 2011)", earlier, (0.0, 1.0)))
            else:
                claims.append(Claim.open(f"{where}: completion time, yielding homes over the others", earlier))
            claims.append(
                Claim.open(f"{where}: time served of the time wanted, over the others'", group.interval(pair("served")))
            )
        ratio = faster(results.where(access=access), "LEDBAT 100 ms")
        text = f"{access}: mean completion time of the mixture with LEDBAT 100 ms over that of the better pure swarm"
        claims.append(Claim.open(text, ratio))
    rows = [
        [access, law, kind, *(group.interval(metric(name, node)) for name in METRICS)]
        for (access, law), group in results.where(swarm="half").groups("access", "law")
        for kind, node in ((law, "yielding"), (TCP, "tcp"))
    ]
    shown = names[0]
    points = {
        node: {
            name: [results.where(access=shown, law=law, swarm="half").interval(metric(name, node)) for law in YIELDING]
            for name in ("completion (s)", "served")
        }
        for node in ("yielding", "tcp")
    }

    def draw(canvas) -> None:
        axes_of = canvas.subplots(1, 2)
        labels = {"completion (s)": "completion, mean (s)", "served": "part of the wanted time that is served"}
        for axes, (name, label) in zip(axes_of, labels.items(), strict=True):
            for shift, (node, text, law) in enumerate((("yielding", "homes that yield", "ebb"), ("tcp", TCP, "cubic"))):
                places = [at + 0.16 * shift - 0.08 for at in range(len(YIELDING))]
                style = look(law, marker=True) | {"linestyle": "none"}
                curve(axes, places, points[node][name], label=text, **style)
            frame(axes, "", label, (-0.5, len(YIELDING) - 0.5))
            axes.set_xticks(range(len(YIELDING)), [law.replace(" ", "\n", 1) for law in YIELDING])
            axes.set_ylim(0)
        canvas.tight_layout()

    caption = f"{shown}: homes of two laws in one swarm, half of each. Left who completes when, right who is served."
    notes = (
        f"{2 * half} homes. A peer's law governs all that it sends; what it receives is sent by the laws of others. A "
        "request travels behind the blocks that the asking peer uploads, and so waits in its own uplink's queue.",
        "TMA 2012 found mixtures faster than a swarm of either transport. Its mixtures are also within one client, as "
        "the clients' defaults are; here a client has one law. The figure is recorded, and not judged.",
    )
    table = Table("mixed", "Means over runs, by kind of home.", ("line", "mixture", "homes", *METRICS), rows)
    return Outcome(claims, [Figure("mixed", caption, draw, (8.0, 3.8))], [table], notes)


def faster(results: Results, law: str) -> Interval:
    """Mean time of the half-and-half swarm over the smaller one of the two pure swarms, seed by
    seed."""
    half = np.array(results.where(law=law, swarm="half").values(mean_of_all))
    pure = [np.array(results.where(law=each, swarm="pure").values(mean_of_all)) for each in (law, TCP)]
    best = min(pure, key=lambda times: times.mean())
    return Interval.of(half / best)
