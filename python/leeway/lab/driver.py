"""Runs an experiment: steps through its generator, takes known results from the cache, simulates
the others."""

from __future__ import annotations

import hashlib
import logging
import time
import traceback
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import leeway
from leeway.lab.cache import Cache
from leeway.lab.engines import Engine, Job, timed_run
from leeway.lab.errors import CacheError, EngineError
from leeway.lab.experiment import Case, Experiment, Outcome, Result, Results, Setting
from leeway.lab.progress import Progress
from leeway.lab.subjects import kind

if TYPE_CHECKING:
    from leeway.lab.subjects import Subject

log = logging.getLogger("leeway.lab")


@dataclass(frozen=True, slots=True)
class Finished:
    """An experiment that was run, and the work it took.

    Attributes
    ----------
    experiment, setting
        The experiment, and its size.
    outcome
        The outcome; None if the experiment failed.
    error
        Reason of the failure; empty if there was none.
    runs
        Number of different runs; identical cases count once.
    cached
        Number of these runs that came from the cache.
    simulated_s
        Time that all these runs took when they were simulated, in seconds of one core; runs from
        the cache count.
    wall_s
        Time from beginning to end, in seconds.
    seeds
        Number of different seeds among the runs.
    """

    experiment: Experiment
    setting: Setting
    outcome: Outcome | None
    error: str
    runs: int
    cached: int
    simulated_s: float
    wall_s: float
    seeds: int


@dataclass
class Tally:
    """The runs so far: the seconds of each key; keys that came from the cache; seeds."""

    seconds: dict[str, float] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    seeds: set[int] = field(default_factory=set)


def run_experiment(
    experiment: Experiment, setting: Setting, engine: Engine, cache: Cache, progress: Progress | None = None
) -> Finished:
    """Runs an experiment to its end.

    An error inside the experiment, or in one of its runs, becomes the `error` of the result. The
    outcome reads its runs from the cache, which has to be open while figures are drawn.

    Raises
    ------
    CacheError, EngineError
        If results cannot be kept, or nothing can be run. Earlier results are kept.
    """
    begin = time.perf_counter()
    tally = Tally()
    outcome, error = None, ""
    try:
        steps = experiment.steps(setting)
        with closing(steps):
            cases = next(steps)
            while True:
                cases = steps.send(run_cases(cases, engine, cache, progress, tally, experiment.id))
    except StopIteration as end:
        outcome = end.value
        if not isinstance(outcome, Outcome):
            outcome, error = None, f"{experiment.id} returned {end.value!r} where an Outcome is expected"
    except (CacheError, EngineError):
        raise
    except Exception as failure:
        error = _described(failure)
        log.debug("%s failed", experiment.id, exc_info=True)
    return Finished(
        experiment=experiment,
        setting=setting,
        outcome=outcome,
        error=error,
        runs=len(tally.seconds),
        cached=len(tally.cached),
        simulated_s=sum(tally.seconds.values()),
        wall_s=time.perf_counter() - begin,
        seeds=len(tally.seeds),
    )


def run_cases(
    cases: Iterable[Case],
    engine: Engine,
    cache: Cache,
    progress: Progress | None = None,
    tally: Tally | None = None,
    title: str = "",
) -> Results:
    """Results of `cases`, in their order: from the cache, or simulated if the cache does not have
    them.

    Identical cases are run once. Each result goes to the cache as soon as it arrives, and is read
    from there when it is needed. So memory does not grow with the number of results.
    """
    progress = progress or Progress()
    tally = tally if tally is not None else Tally()
    cases = list(cases)
    keys = _keys(cases, cache.engine)
    jobs = {key: Job(key, case.scenario, case.seed) for key, case in zip(keys, cases, strict=True)}
    tally.seeds.update(job.seed for job in jobs.values())
    new = [key for key in jobs if key not in tally.seconds]
    found = cache.seconds(new)
    tally.seconds.update(found)
    tally.cached.update(found)
    packets = {key: kind(jobs[key].scenario).work(jobs[key].scenario) for key in new if key not in found}
    missing = sorted(
        packets, key=packets.__getitem__, reverse=True
    )  # long runs first, so that no core waits for them at the end
    if missing:
        progress.begin(title, len(missing), sum(packets.values()))
        try:
            with closing(engine.map(jobs[key] for key in missing)) as results:
                for done in results:
                    cache.put(done.key, done.data, done.seconds)
                    tally.seconds[done.key] = done.seconds
                    progress.advance(packets[done.key])
        finally:
            progress.end()
    return Results(Result(case, partial(_decoded, jobs[key], cache)) for key, case in zip(keys, cases, strict=True))


def run_key(scenario: Subject, seed: int, engine: str | None = None) -> str:
    """Key of a run; runs with equal keys have equal results."""
    return _key(scenario.key(), seed, engine or leeway.ENGINE)


def _keys(cases: list[Case], engine: str) -> list[str]:
    known: dict[int, str] = {}  # by identity: seeds of one case mostly share the scenario
    for case in cases:
        if id(case.scenario) not in known:
            known[id(case.scenario)] = case.scenario.key()
    return [_key(known[id(case.scenario)], case.seed, engine) for case in cases]


def _key(scenario: str, seed: int, engine: str) -> str:
    return hashlib.blake2b(f"{scenario} {seed} {engine}".encode(), digest_size=20).hexdigest()


def _decoded(job: Job, cache: Cache) -> Any:
    """The run, from the cache; simulated again if it was damaged or removed meanwhile."""
    entry = cache.get(job.key)
    if entry is not None:
        try:
            return kind(job.scenario).decode(entry.data)
        except ValueError as error:
            cache.drop(job.key, str(error))
    data, seconds = timed_run(job.scenario, job.seed)
    cache.put(job.key, data, seconds)
    return kind(job.scenario).decode(data)


def _described(failure: Exception) -> str:
    """The error with the place it comes from."""
    place = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__}: {failure} ({place.filename.rpartition('/')[2]}:{place.lineno})"
