"""Sweeps: a scenario with every combination of some values, each with several seeds."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leeway.running import run_many
from leeway.tables import summaries

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from leeway._core import Cancel
    from leeway.results import Run
    from leeway.scenario import Scenario


@dataclass(frozen=True, slots=True, repr=False)
class SweepRun:
    """One run of a sweep.

    Attributes
    ----------
    labels
        The swept values of this run, by path: ``{"flow.backup.law": "ledbat"}``.
    scenario
        What was simulated.
    seed
        Seed of the run.
    """

    labels: Mapping[str, Any]
    scenario: Scenario
    seed: int
    _run: Run

    def run(self) -> Run:
        """The result."""
        return self._run

    def __repr__(self) -> str:
        values = ", ".join(f"{path} {value}" for path, value in self.labels.items())
        return f"<SweepRun {values}{'; ' if values else ''}{repr(self._run).removeprefix('<Run ')}"


class Sweep(Sequence[SweepRun]):
    """The runs of a sweep, the last path changing fastest, and below it the seeds. `leeway.sweep`
    makes one."""

    def __init__(self, runs: Iterable[SweepRun]):
        self._runs = list(runs)

    def __getitem__(self, index):
        return Sweep(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[SweepRun]:
        return iter(self._runs)

    def where(self, labels: Mapping[str, Any]) -> Sweep:
        """The runs that have these values, by path.

        Raises
        ------
        KeyError
            If a path was not swept.
        """
        known = self._runs[0].labels if self._runs else {}
        for path in labels:
            if self._runs and path not in known:
                raise KeyError(f"{path!r} was not swept; there are: {', '.join(known) or 'none'}")
        return Sweep(each for each in self._runs if all(each.labels[path] == value for path, value in labels.items()))

    def table(self) -> pa.Table:
        """All metrics as `leeway.summaries` arranges them: a row for each run, window and
        group."""
        return summaries(self._runs)

    def plot(self, metric: str = "throughput_bps", **options: Any) -> Figure:
        """Draws a metric against the swept values: means over the seeds with their 95 % confidence
        intervals.

        Parameters
        ----------
        metric
            A column of `table` with numbers: "throughput_bps", "rtt_p95_s", "harm_throughput".
        **options
            ``x`` (path along the axis), ``groups`` and ``window`` (those to draw), ``dark``
            (ground) and ``size`` (inches), as `leeway.plotting.sweep` has them.

        Raises
        ------
        ImportError
            If matplotlib is not installed, which the extra ``lab`` brings.
        ValueError
            If there is nothing to draw, or no such metric, path or group.
        """
        from leeway import plotting

        return plotting.sweep(self, metric, **options)

    def __repr__(self) -> str:
        paths = list(self._runs[0].labels) if self._runs else []
        points = {tuple(map(str, each.labels.values())) for each in self._runs}
        seeds = {each.seed for each in self._runs}
        return (
            f"<Sweep of {' and '.join(paths) or 'nothing'}: "
            f"{_count(points, 'point')}, {_count(seeds, 'seed')}, {_count(self._runs, 'run')}>"
        )

    def _repr_html_(self) -> str:
        from leeway._html import sweep

        return sweep(self)


def sweep(
    scenario: Scenario,
    values: Mapping[str, Iterable[Any]] | None = None,
    seeds: int | Iterable[int] | None = None,
    workers: int | None = None,
    cancel: Cancel | None = None,
) -> Sweep:
    """Runs a scenario with every combination of `values`, on many cores.

    All runs are kept in memory. `run_many` takes and gives them one by one, and the lab keeps them
    in a file.

    Parameters
    ----------
    scenario
        What to simulate.
    values
        What to try, by path: ``{"flow.backup.law": ["ledbat", "lp"]}``. The scenario's own `sweep`
        if None.
    seeds
        Seeds of each point, or how many, counted from the scenario's seed. Its `repetitions` if
        None.
    workers, cancel
        As those of `run_many`.

    Raises
    ------
    ScenarioError
        If a point cannot be run.
    SimulationError, CancelledError
        As `run_many`.
    """
    if values is not None:
        scenario = scenario.set("sweep", {path: list(choices) for path, choices in values.items()})
    if seeds is None or isinstance(seeds, int):
        seeds = range(scenario.seed, scenario.seed + (scenario.repetitions if seeds is None else seeds))
    chosen = list(seeds)
    cases = [(labels, point, seed) for labels, point in points(scenario) for seed in chosen]
    runs = run_many(((point, seed) for _, point, seed in cases), workers, cancel)
    return Sweep(SweepRun(*case, run) for case, run in zip(cases, runs, strict=True))


def points(scenario: Scenario) -> Iterator[tuple[dict[str, Any], Scenario]]:
    """Every combination of the values of the scenario's sweep, the last path changing fastest."""
    base = scenario.set("sweep", None)
    for values in itertools.product(*scenario.sweep.values()):
        labels = dict(zip(scenario.sweep, values, strict=True))
        yield labels, base.set(labels) if labels else base


def _count(things: Collection, what: str) -> str:
    return f"{len(things):,} {what}{'' if len(things) == 1 else 's'}"
