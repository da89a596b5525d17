"""What is simulated on a network, and what is read from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from leeway import Flow, Run, Scenario, Window
from leeway.lab import Case, Results, jain
from leeway.papers.scoreboard.networks import Network
from leeway.papers.scoreboard.rows import Row

NOBODY = "(alone)"
"""In place of a law: the primaries without any background."""

BULK = {"NewReno": "newreno", "CUBIC": "cubic"}
PRIMARIES = (*BULK, "web", "voice")
OWN = {"one": 1, "two": 2, "five": 5, "late": 2}
LATE_S = 20
CLIENTS = 5


def web(network: Network) -> Flow:
    """Clients that ask for answers of heavy-tailed sizes: 0.1 s of the link each in the mean, a third of it in all."""
    mean_bytes = max(1500, round(network.rate_bps * 0.1 / 8))
    size = {"pareto": {"mean": f"{mean_bytes} B", "shape": 1.5}}
    app = {"kind": "request", "size": size, "think": {"exponential": "1 s"}}
    return Flow(name="primary", law="cubic", count=CLIENTS, app=app, tcp={"sack": True})


def primaries(network: Network, kind: str) -> Flow:
    """The traffic to protect."""
    if kind == "web":
        return web(network)
    if kind == "voice":
        return Flow(name="primary", app={"kind": "voice", "codec": "g729"})
    start = {"uniform": ["0 s", "10 s"]}
    return Flow(name="primary", law=BULK[kind], count=network.bulk, start=start, tcp={"sack": True})


def background(law: str, count: int, name: str = "background", start: object = None) -> Flow:
    """Bulk flows of the law that is judged."""
    start = start or {"uniform": ["0 s", "10 s"]}
    return Flow(name=name, law=law, count=count, role="background", start=start, tcp={"sack": True})


def scenario(network: Network, flows: Iterable[Flow], baseline: bool = False) -> Scenario:
    """These flows on the network; the first third of the time is not counted."""
    window = Window(name="counted", from_=f"{network.duration_s / 3:g} s", to=f"{network.duration_s} s")
    return Scenario(
        duration=f"{network.duration_s} s",
        profile="ns2",
        dumbbell=network.dumbbell(),
        flow=list(flows),
        window=[window],
        baseline=baseline,
    )


def own(network: Network, law: str, what: str) -> Scenario:
    """The law with nobody but itself."""
    if what == "late":
        late = background(law, 1, "late", f"{LATE_S} s")
        return scenario(network, [background(law, 1, "first", "0 s"), late])
    return scenario(network, [background(law, OWN[what])])


def cases(network: Network, rows: Iterable[Row], seeds: Iterable[int]) -> Iterator[Case]:
    """Everything that is needed about these laws on one network."""
    for seed in seeds:
        for kind in PRIMARIES:
            labels = {"network": network.name, "with": kind}
            yield Case(scenario(network, [primaries(network, kind)]), seed, labels | {"row": NOBODY})
            count = network.bulk if kind in BULK else 1
            for row in rows:
                made = scenario(network, [primaries(network, kind), background(row.law, count)], baseline=True)
                yield Case(made, seed, labels | {"row": row.name})
        for row in rows:
            for what in OWN:
                labels = {"network": network.name, "with": what, "row": row.name}
                yield Case(own(network, row.law, what), seed, labels)


@dataclass(slots=True)
class Score:
    """What a law does on one network, means over the seeds; not-a-number where something does not exist.

    Attributes
    ----------
    newreno, cubic
        Harm to the throughput of bulk primaries.
    delay
        Harm to the delay (95th percentile) of a web primary's answers.
    web
        Harm to the completion time of a web primary's answers.
    spare
        Spare use beside the web primary.
    alone
        Utilisation by one flow alone.
    two, five
        Jain's index of two and of five flows.
    late
        Share of a flow that comes 20 s late.
    loss
        Loss of the link beside bulk primaries, minus that of the primaries alone; of the two kinds the larger one.
    voice_ms, mos
        95th percentile of the one-way delay of a call minus that of the call alone (ms), and its mean opinion score.
    """

    newreno: float = math.nan
    cubic: float = math.nan
    delay: float = math.nan
    web: float = math.nan
    spare: float = math.nan
    alone: float = math.nan
    two: float = math.nan
    five: float = math.nan
    late: float = math.nan
    loss: float = math.nan
    voice_ms: float = math.nan
    mos: float = math.nan
    _values: dict[str, list[float]] = field(default_factory=dict, repr=False)

    def add(self, name: str, value: float | None) -> None:
        """One seed's value; None where it does not exist."""
        if value is not None:
            self._values.setdefault(name, []).append(value)
            setattr(self, name, float(np.mean(self._values[name])))

    @property
    def bulk(self) -> float:
        """Harm to throughput, of the two kinds of bulk primaries the larger one."""
        return float(np.fmax(self.newreno, self.cubic))


COLUMNS = {
    "newreno": "harm to NewReno",
    "cubic": "harm to CUBIC",
    "delay": "harm to delay",
    "web": "harm to answers",
    "spare": "spare use",
    "alone": "use alone",
    "two": "F of 2",
    "five": "F of 5",
    "late": "late-comer",
    "loss": "loss added",
    "voice_ms": "call: delay added (ms)",
    "mos": "call: MOS",
}
"""Fields of `Score` and what they are called in tables."""


def scores(results: Results) -> dict[tuple[str, str], Score]:
    """By row and network."""
    found: dict[tuple[str, str], Score] = {}
    alone: dict[tuple[str, str, int], Run] = {}
    for result in results:
        network, kind, row = (result.labels[name] for name in ("network", "with", "row"))
        run = result.run()
        if row == NOBODY:
            alone[network, kind, result.case.seed] = run
            continue
        score = found.setdefault((row, network), Score())
        if kind in OWN:
            add_own(score, kind, run)
        else:
            add_beside(score, kind, run, alone[network, kind, result.case.seed])
    for score in found.values():
        score._values.clear()
    return found


def add_own(score: Score, kind: str, run: Run) -> None:
    """A run with nobody but the law."""
    window = run.window()
    if kind == "one":
        score.add("alone", window.link().utilisation)
    elif kind == "late":
        first, late = (window.group(name).throughput_bps for name in ("first", "late"))
        score.add("late", late / (first + late) if first + late > 0 else None)
    else:
        score.add(kind, window.jain if window.jain is not None else jain([]))


def add_beside(score: Score, kind: str, run: Run, alone: Run) -> None:
    """A run beside a primary, and the same primary alone."""
    window, before = run.window(), alone.window()
    harm = window.harm.groups[0]
    if kind in BULK:
        score.add(kind.lower(), harm.throughput)
        more = window.link().loss - before.link().loss
        score.loss = float(np.fmax(score.loss, more)) if not math.isnan(score.loss) else more
    elif kind == "web":
        score.add("web", harm.completion)
        score.add("delay", harm.delay)
        score.add("spare", window.harm.spare_use)
    else:
        call, call_alone = window.group("primary"), before.group("primary")
        if call.owd and call_alone.owd:
            score.add("voice_ms", 1e3 * (call.owd.p95_s - call_alone.owd.p95_s))
        score.add("mos", call.mos)
