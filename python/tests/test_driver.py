"""The driver: what is in the cache is not run again, what is twice in a grid is run once; the order is the grid's."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest

import leeway
from leeway.lab import Case, Claim, Experiment, Outcome, Setting
from leeway.lab.cache import Cache
from leeway.lab.driver import Tally, run_cases, run_experiment, run_key
from leeway.lab.engines import Done, Engine, Job, Local
from leeway.lab.errors import CacheError, EngineError
from leeway.lab.progress import Progress


class Counting(Local):
    """Notes which runs it was asked for, and gives results in the opposite order."""

    def __init__(self) -> None:
        super().__init__(2)
        self.asked: list[Job] = []

    def map(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
        self.asked += (jobs := list(jobs))
        yield from list(super().map(jobs))[::-1]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with Cache(tmp_path / "results.sqlite") as cache:
        yield cache


def grid(make, seeds: int = 3) -> list[Case]:
    return [
        Case(make(buffer=f"{buffer} pkt", duration=duration), seed, {"buffer": buffer, "duration": duration})
        for buffer in (5, 20)
        for duration in ("1 s", "3 s")
        for seed in range(1, seeds + 1)
    ]


def test_results_are_in_the_order_of_the_grid(make, cache):
    cases = grid(make)
    results = run_cases(cases, Counting(), cache)
    assert [result.case for result in results] == cases
    for result in results:
        assert result.run().to_dict() == leeway.run(result.case.scenario, result.case.seed).to_dict()


def test_nothing_is_run_twice(make, cache):
    engine, cases = Counting(), grid(make)
    twice = [*cases, *(Case(case.scenario.set("title", "another"), case.seed) for case in cases)]
    first, second = Tally(), Tally()
    run_cases(twice, engine, cache, tally=first)
    assert len(engine.asked) == len({job.key for job in engine.asked}) == len(cases) == len(first.seconds)
    assert not first.cached
    run_cases(twice, engine, cache, tally=second)
    assert len(engine.asked) == len(cases)
    assert second.cached == set(second.seconds) == set(first.seconds)
    assert second.seconds == first.seconds
    assert second.seeds == {1, 2, 3}


def test_the_key_is_that_of_what_decides_the_result(make):
    key = run_key(make(), 1)
    assert key == run_key(make(title="x", description="y", seed=9, repetitions=5), 1)
    assert len({key, run_key(make(), 2), run_key(make(buffer="21 pkt"), 1), run_key(make(), 1, "other")}) == 4


def test_long_runs_come_first(make, cache):
    engine = Counting()
    run_cases(grid(make), engine, cache)
    assert [job.scenario.duration for job in engine.asked] == ["3 s"] * 6 + ["1 s"] * 6


def test_another_engine_version_recomputes(make, tmp_path):
    engine, cases = Counting(), grid(make)
    for version in ("1", "2"):
        with Cache(tmp_path / "results.sqlite", engine=version) as cache:
            run_cases(cases, engine, cache)
    assert len(engine.asked) == 2 * len(cases)


def test_a_damaged_result_is_computed_again(make, cache, caplog):
    engine, cases = Counting(), grid(make)
    expected = [result.run() for result in run_cases(cases, engine, cache)]
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE results SET data = X'00' || data WHERE id IN (2, 5)")
    with caplog.at_level(logging.WARNING):
        again = run_cases(cases, engine, cache)
    assert len(engine.asked) == len(cases) + 2
    assert cache.damaged == 2
    assert [result.run() for result in again] == expected


def test_what_vanishes_or_cannot_be_decoded_later_is_computed_again(make, cache, caplog):
    results = run_cases(grid(make), Counting(), cache)
    expected = [result.run() for result in results]
    key = run_key(results[0].case.scenario, results[0].case.seed)
    cache.clear()
    cache.put(key, b"of another format", 1.0)
    assert [result.run() for result in results] == expected
    assert cache.damaged == 1
    assert len(cache) == len(results)


def test_progress_is_told_of_every_run_and_of_the_end(make, cache):
    class Told(Progress):
        def __init__(self) -> None:
            self.told: list[object] = []
            self.packets = 0.0

        def begin(self, title: str, runs: int, packets: float) -> None:
            self.told += [title, runs]
            self.packets = packets

        def advance(self, packets: float) -> None:
            self.packets -= packets

        def end(self) -> None:
            self.told.append("end")

    progress = Told()
    run_cases(grid(make), Local(2), cache, progress, title="grid")
    assert progress.told == ["grid", 12, "end"]
    assert progress.packets == pytest.approx(0, abs=1e-3)
    run_cases(grid(make), Local(2), cache, progress, title="grid")
    assert progress.told == ["grid", 12, "end"]


def test_an_experiment_goes_on_from_its_results(make, cache):
    """Halves the buffer until the link is not full any more."""

    def steps(setting: Setting):
        """What it does."""
        buffer, used = 64, 1.0
        while used > 0.95 and buffer > 1:
            buffer //= 2
            cases = [Case(make(buffer=f"{buffer} pkt", duration="5 s"), seed) for seed in setting.seeds(2, 20)]
            results = yield cases
            used = results.interval(lambda run: run.window().link().utilisation).mean
        return Outcome(claims=[Claim.fact("it ends", "yes", str(buffer), buffer > 0)])

    finished = run_experiment(Experiment("own:half", "Half", steps), Setting(), Local(2), cache)
    assert finished.error == ""
    assert finished.outcome.claims[0].holds
    assert finished.runs >= 4
    assert finished.runs % 2 == 0
    assert (finished.cached, finished.seeds) == (0, 2)
    assert finished.simulated_s > 0
    assert finished.wall_s > 0
    again = run_experiment(Experiment("own:half", "Half", steps), Setting(), Local(2), cache)
    assert again.cached == again.runs == finished.runs
    assert again.simulated_s == pytest.approx(finished.simulated_s)


def test_an_experiment_may_need_no_runs(cache):
    def steps(setting: Setting):
        return Outcome(notes=["nothing to run"])
        yield []

    finished = run_experiment(Experiment("own:none", "None", steps), Setting(), Local(1), cache)
    assert (finished.outcome.notes, finished.runs, finished.error) == (["nothing to run"], 0, "")


def test_an_experiment_that_fails_says_where(make, cache):
    def steps(setting: Setting):
        results = yield [Case(make())]
        return Outcome(claims=[Claim.open("x", str(results.one(law="none")))])

    finished = run_experiment(Experiment("own:wrong", "Wrong", steps), Setting(), Local(1), cache)
    assert finished.outcome is None
    assert finished.error.startswith("LookupError: 0 results with {'law': 'none'}, not one (")
    assert finished.runs == 1


def test_a_run_that_fails_is_an_error_of_its_experiment(make, cache):
    def steps(setting: Setting):
        yield [Case(make()), Case(make(law="lebdat", title="misspelt"))]
        return Outcome()

    finished = run_experiment(Experiment("own:misspelt", "Misspelt", steps), Setting(), Local(1), cache)
    assert finished.outcome is None
    assert "lebdat" in finished.error


def test_what_is_no_outcome_is_an_error(cache):
    def steps(setting: Setting):
        yield []
        return "fine"

    finished = run_experiment(Experiment("own:text", "Text", steps), Setting(), Local(1), cache)
    assert finished.outcome is None
    assert "'fine'" in finished.error


@pytest.mark.parametrize("error", [CacheError("disk full"), EngineError("cluster gone"), KeyboardInterrupt()])
def test_what_concerns_all_experiments_is_not_an_error_of_one(make, cache, error):
    class Failing(Engine):
        def map(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
            yield from Local(1).map(list(jobs)[:1])
            raise error

    def steps(setting: Setting):
        yield grid(make)
        return Outcome()

    with pytest.raises(type(error)):
        run_experiment(Experiment("own:x", "X", steps), Setting(), Failing(), cache)
    assert len(cache) == 1


MEMORY = """
import sys
from pathlib import Path
from leeway import Channel, Dumbbell, Flow, Scenario, Series
from leeway.lab import Case
from leeway.lab.cache import Cache
from leeway.lab.driver import run_cases
from leeway.lab.engines import Local

scenario = Scenario(
    duration="20 s",
    dumbbell=Dumbbell(bottleneck=Channel(rate="5 Mbit/s", delay="10 ms", buffer="20 pkt")),
    flow=[Flow(name="tcp"), Flow(name="lbe", law="ledbat", role="background")],
    series=Series(every="5 ms"),
)

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def used(seeds):
    results = run_cases([Case(scenario, seed) for seed in seeds], Local(2), cache)
    points = sum(result.run().flows.num_rows for result in results)
    return resident(), points

with Cache(sys.argv[1]) as cache:
    few, _ = used(range(20))
    many, points = used(range(20, 320))
    stored = sum(version.size for version in cache.versions())
print(many - few, stored, points)
"""


def test_memory_does_not_grow_with_the_results(tmp_path):
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "results.sqlite")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    growth, stored, points = map(int, output.split())
    assert points > 300 * 2 * 3000
    assert stored > 20e6
    assert growth < stored / 3
