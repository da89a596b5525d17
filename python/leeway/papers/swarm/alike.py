"""Swarms whose homes all have one law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import curve, frame, look
from leeway.papers.swarm.network import ACCESS, LAWS, METRICS, homes, metric, scenario, unfinished

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

TCP = next(iter(LAWS))
DURATION_S = 240


def against(results: Results, access: str, law: str, name: str) -> Interval:
    """A metric over that of the swarm of TCP with the same seed."""
    ours, tcp = (results.where(access=access, law=each).values(metric(name)) for each in (law, TCP))
    return Interval.of(np.array(ours) / np.array(tcp))


def lines(setting: Setting) -> list[str]:
    """The quick form leaves out the fibre with fq_codel, which differs little from the one
    without."""
    return list(ACCESS) if setting.full else list(ACCESS)[:3]


@experiment("swarm:alike", title="Swarms of one law: completion, fairness, and what a home feels")
def alike(setting: Setting) -> Steps:
    """A flash crowd: all homes want the file within 2 s and stay when they have it; two seeds.

    Published: in a simulated swarm it makes no difference to the completion time whether all peers use TCP or uTP (P2P
    2011); on a cluster uTP alone was faster (TMA 2012).
    """
    names = lines(setting)
    results = yield [
        Case(
            scenario(ACCESS[access], {"home": (spec, homes(setting))}, DURATION_S),
            seed,
            {"access": access, "law": law},
        )
        for access in names
        for law, spec in LAWS.items()
        for seed in setting.seeds(quick=3, full=10)
    ]
    claims = [
        Claim.number("peers that did not get the file", "0", results.interval(unfinished), (0, 0)),
    ]
    for access in names:
        for law in ("LEDBAT 100 ms", "LEDBAT 25 ms"):
            claims.append(
                Claim.number(
                    f"{access}: completion time of {law} over that of TCP",
                    "1 (P2P 2011: no difference); below 1 (TMA 2012)",
                    against(results, access, law, "completion (s)"),
                    (0.7, 1.1),
                )
            )
        for law in list(LAWS)[3:]:
            found = against(results, access, law, "completion (s)")
            claims.append(Claim.open(f"{access}: completion time of {law} over that of TCP", found))
    rows = [
        [access, law, *(group.interval(metric(name)) for name in METRICS)]
        for (access, law), group in results.groups("access", "law")
    ]
    points = {
        law: [
            [results.where(access=access, law=law).interval(metric(name)) for access in names]
            for name in ("completion (s)", "page (s)", "MOS of the call")
        ]
        for law in LAWS
    }
    labels = ("completion, mean (s)", "a page, mean (s)", "the call's MOS")

    def draw(canvas) -> None:
        axes_of = canvas.subplots(1, 3)
        for column, (axes, label) in enumerate(zip(axes_of, labels, strict=True)):
            for at, (law, spec) in enumerate(LAWS.items()):
                places = [place + (at - 2) * 0.12 for place in range(len(names))]
                style = look(spec, marker=True) | {"linestyle": "none"}
                if law.endswith("25 ms"):
                    style["markerfacecolor"] = "none"
                curve(axes, places, points[law][column], label=law, **style)
            frame(axes, "", label, (-0.5, len(names) - 0.5), legend=False)
            axes.set_xticks(range(len(names)), [name.replace(", ", "\n").replace(" ", "\n", 1) for name in names])
            axes.set_ylim(0)
        handles, texts = axes_of[0].get_legend_handles_labels()
        canvas.legend(handles, texts, loc="lower center", ncols=len(LAWS), frameon=False, fontsize="small")
        canvas.tight_layout(rect=(0, 0.08, 1, 1))

    caption = (
        "Swarms of one law behind lines of three kinds: time to fetch the file, and what the home feels meanwhile."
    )
    notes = (
        f"{homes(setting)} homes, each behind a line of its own; the file has 4 MiB behind ADSL and 64 MiB behind "
        "fibre. Every home makes a call of G.729 (the best score is 4.1) and reads pages of 50 kB. Both are judged "
        "from 5 s to 20 s, when all download. `served` is the part of the time in which a peer wanted "
        "something of a neighbour and was unchoked by it.",
    )
    table = Table("alike", "Means over runs.", ("line", "law", *METRICS), rows)
    return Outcome(claims, [Figure("alike", caption, draw, (10.0, 4.2))], [table], notes)
