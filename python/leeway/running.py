"""Runs of scenarios: one, or many on all cores."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from leeway import _core
from leeway._core import Cancel
from leeway.results import Run
from leeway.scenario import Scenario

AHEAD = 4
"""Runs for each worker that may wait for an earlier one, so that memory does not grow with the
number of runs."""


def run(
    scenario: Scenario,
    seed: int | None = None,
    cancel: Cancel | None = None,
    threads: int | None = None,
) -> Run:
    """Runs a scenario. Other threads continue meanwhile; Ctrl-C stops the run at once.

    Parameters
    ----------
    scenario
        What to simulate.
    seed
        Seed of the run, below 2^63; the scenario's own if None.
    cancel
        Stops the run when it is set, from any thread.
    threads
        Threads at most, for parts of the scenario that share no link (docs/simulator.md). The
        number of cores if None. Give 1 where many runs go on at a time.

    Returns
    -------
    Run
        The same whatever the number of threads, bit by bit, for the same scenario, seed and
        `leeway.ENGINE`.

    Raises
    ------
    ScenarioError
        If the scenario cannot be run.
    ValueError
        If the seed is negative, or 2^63 or more, or `threads` is less than 1.
    SimulationError
        If the run fails.
    CancelledError
        If `cancel` was set.
    """
    seed = scenario.seed if seed is None else int(seed)
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"the seed is {seed}, not from 0 to 2^63 - 1")
    threads = cores() if threads is None else threads
    if threads < 1:
        raise ValueError(f"threads is {threads}, not 1 or more")
    summary, flows, links, _ = _core.run(scenario.to_dict(), seed, cancel, threads)
    return Run.from_summary(json.loads(summary), flows if len(flows) else None, links if len(links) else None)


def run_many(
    scenarios: Iterable[Scenario | tuple[Scenario, int]], workers: int | None = None, cancel: Cancel | None = None
) -> Generator[Run, None, None]:
    """Runs many scenarios on many cores.

    Scenarios are taken from the iterable as they are needed, and few results wait to be taken. So
    memory does not grow with the number of scenarios or results.

    Parameters
    ----------
    scenarios
        What to simulate: scenarios, each with its own seed, or pairs of a scenario and a seed.
    workers
        Number of runs at a time; the number of cores if None.
    cancel
        Stops all runs when it is set, from any thread.

    Yields
    ------
    Run
        In the order of `scenarios`, whatever the number of workers.

    Raises
    ------
    ScenarioError, SimulationError, CancelledError
        As `run`; the other runs are stopped.
    """
    workers = cores() if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers is {workers}, not 1 or more")
    return _run_many(iter(scenarios), workers, Cancel(cancel))


def _run_many(
    scenarios: Iterator[Scenario | tuple[Scenario, int]], workers: int, cancel: Cancel
) -> Generator[Run, None, None]:
    def play(item: Scenario | tuple[Scenario, int]) -> Run:
        scenario, seed = (item, None) if isinstance(item, Scenario) else item
        return run(scenario, seed, cancel, threads=1)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="leeway")
    try:
        begun: deque[Future[Run]] = deque()
        for item in scenarios:
            begun.append(pool.submit(play, item))
            if len(begun) >= workers * AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        # After the last result this stops nothing.
        cancel.set()
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
