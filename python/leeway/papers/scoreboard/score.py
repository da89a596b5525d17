"""Numbers of a law on each network, from the runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from leeway import Run
from leeway.lab import Results
from leeway.papers.scoreboard.measure import BULK, NOBODY, NOBODY_PRIORITY, OWN, REACTION, VISIT_S, reference
from leeway.papers.scoreboard.rows import Row

COLUMNS = {
    "newreno": "harm to NewReno",
    "cubic": "harm to CUBIC",
    "bbr": "harm to BBR",
    "delay": "harm to delay",
    "web": "harm to answers",
    "short_iw": "harm to flows of 10 packets",
    "short_medium": "harm to flows of 0.3 s",
    "short_long": "harm to flows of 2 s",
    "spare": "spare use",
    "alone": "use alone",
    "two": "F of 2",
    "worst_two": "worst of 2",
    "use_two": "use by 2",
    "five": "F of 5",
    "worst_five": "worst of 5",
    "use_five": "use by 5",
    "late": "late-comer",
    "yield_s": "yields to CUBIC in (s)",
    "reclaim_s": "reclaims after CUBIC in (s)",
    "yield_bbr_s": "yields to BBR in (s)",
    "reclaim_bbr_s": "reclaims after BBR in (s)",
    "loss": "loss added",
    "voice_ms": "call: delay added (ms)",
    "mos": "call: MOS",
}
"""Names of a score's numbers, and what they are called in tables.

newreno, cubic, bbr
    Harm to the throughput of bulk primaries.
delay, web
    Harm to the delay (95th percentile) of a web primary's answers, and to their completion time.
short_iw, short_medium, short_long
    Harm to the completion time of short flows, by size.
spare
    Throughput of the background beside the web primary, over what that leaves when alone.
alone
    Utilisation by one flow alone.
two, five
    Jain's index of two and of five flows.
worst_two, worst_five
    Throughput of the slowest of them over the mean of all.
use_two, use_five
    Utilisation by all of them.
late
    Share of a flow that comes 20 s late.
yield_s, yield_bbr_s
    Time from the start of a bulk primary until the background has at most a tenth of the link; 30
    s: not before.
reclaim_s, reclaim_bbr_s
    Time from its end until the background has four fifths of the link; 30 s: not before.
loss
    Loss of the link beside bulk primaries, minus that of the primaries alone.
voice_ms, mos
    95th percentile of the one-way delay of a call minus that of the call alone (ms), and its mean
    opinion score.
"""


@dataclass(slots=True)
class Score:
    """Numbers of a law on one network: for each number the values of all seeds, without those that
    do not exist.

    ``score.web`` is the mean over the seeds, and not-a-number where there are none.
    """

    values: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, **values: float | list[float]) -> Score:
        """With these values, one or one a seed."""
        made = cls()
        for name, given in values.items():
            for value in given if isinstance(given, list) else [given]:
                made.add(name, value)
        return made

    def add(self, name: str, value: float | None) -> None:
        """One seed's value; None where it does not exist."""
        if name not in COLUMNS:
            raise AttributeError(name)
        if value is not None and not math.isnan(value):
            self.values.setdefault(name, []).append(float(value))

    def __getattr__(self, name: str) -> float:
        if name not in COLUMNS:
            raise AttributeError(name)
        found = self.values.get(name)
        return float(np.mean(found)) if found else math.nan


def scores(results: Results, rows: Iterable[Row]) -> dict[tuple[str, str], Score]:
    """By row and network."""
    found: dict[tuple[str, str], Score] = {}
    alone: dict[tuple[str, str, str, int], Run] = {}
    by_name = {row.name: row for row in rows}
    for result in results:
        network, kind, name = (result.labels[label] for label in ("network", "with", "row"))
        run, seed = result.run(), result.case.seed
        if name in (NOBODY, NOBODY_PRIORITY):
            alone[name, network, kind, seed] = run
            for row in by_name.values():
                if not row.sends and reference(row) == name:
                    add_beside(found.setdefault((row.name, network), Score()), kind, run, run)
            continue
        score = found.setdefault((name, network), Score())
        if kind in OWN:
            add_own(score, kind, run)
        elif kind in REACTION:
            add_reaction(score, "" if REACTION[kind] == "cubic" else f"_{REACTION[kind]}", run)
        else:
            add_beside(score, kind, run, alone[reference(by_name[name]), network, kind, seed])
    return found


def add_own(score: Score, kind: str, run: Run) -> None:
    """A run of the law alone."""
    window = run.window()
    if kind == "one":
        score.add("alone", window.link().utilisation)
    elif kind == "late":
        first, late = (window.group(name).throughput_bps for name in ("first", "late"))
        score.add("late", late / (first + late) if first + late > 0 else None)
    else:
        group = window.groups[0]
        mean = group.throughput_bps / group.flows
        score.add(kind, group.jain)
        score.add(f"worst_{kind}", group.slowest_bps / mean if mean > 0 else 0.0)
        score.add(f"use_{kind}", window.link().utilisation)


SHORT = ("short_iw", "short_medium", "short_long")
"""Columns of short flows, in the order of `measure.sizes`."""


def add_beside(score: Score, kind: str, run: Run, alone: Run) -> None:
    """A run beside a primary, and the same primary alone."""
    window, before = run.window(), alone.window()
    if kind == "short":
        for name, group, group_alone in zip(SHORT, window.groups, before.groups, strict=False):
            if group.completion and group_alone.completion:
                score.add(name, waits(group_alone.completion.mean_s, group.completion.mean_s))
        return
    primary, primary_alone = window.group("primary"), before.group("primary")
    if kind in BULK:
        score.add(kind.lower(), loses(primary_alone.throughput_bps, primary.throughput_bps))
        score.add("loss", window.link().loss - before.link().loss)
    elif kind == "web":
        if primary.completion and primary_alone.completion:
            score.add("web", waits(primary_alone.completion.mean_s, primary.completion.mean_s))
        if primary.owd and primary_alone.owd:
            score.add("delay", waits(primary_alone.owd.p95_s, primary.owd.p95_s))
        score.add("spare", spare_use(run, alone))
    else:
        if primary.owd and primary_alone.owd:
            score.add("voice_ms", 1e3 * (primary.owd.p95_s - primary_alone.owd.p95_s))
        score.add("mos", primary.mos)


YIELDED, RECLAIMED = 0.1, 0.8
"""Shares of the link at which a background has yielded, and has reclaimed the link."""


def add_reaction(score: Score, suffix: str, run: Run) -> None:
    """A run in which a bulk primary starts and ends."""
    yielded = reclaimed = None
    begin = 0.0
    for window in run.windows:
        name, index = window.name.split()
        begin = window.from_s if index == "0" else begin
        capacity_bps = window.link().capacity_bps
        if not capacity_bps:
            continue  # The link is down: there is nothing to yield or to reclaim.
        share = window.group("background").throughput_bps / capacity_bps
        if name == "visit" and yielded is None and share <= YIELDED:
            yielded = window.to_s - begin
        if name == "after" and reclaimed is None and share >= RECLAIMED:
            reclaimed = window.to_s - begin
    score.add(f"yield{suffix}_s", VISIT_S if yielded is None else yielded)
    score.add(f"reclaim{suffix}_s", VISIT_S if reclaimed is None else reclaimed)


def loses(alone: float, beside: float) -> float | None:
    """Harm where more is better (Ware et al. 2019)."""
    return min(1.0, max(0.0, (alone - beside) / alone)) if alone > 0 else None


def waits(alone: float, beside: float) -> float | None:
    """Harm where less is better (Ware et al. 2019)."""
    return min(1.0, max(0.0, (beside - alone) / beside)) if beside > 0 else None


LEAST_SPARE = 0.01
"""Least spare share of the link for which spare use is computed."""


def spare_use(run: Run, alone: Run) -> float | None:
    """Throughput of the background over the capacity of the link that the primary leaves when it
    is alone."""
    capacity = alone.window().link().capacity_bps
    spare = capacity - alone.window().group("primary").throughput_bps
    if spare <= LEAST_SPARE * capacity:
        return None
    taken = sum(group.throughput_bps for group in run.window().groups if group.role == "background")
    return taken / spare
