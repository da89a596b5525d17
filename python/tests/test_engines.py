"""Engines: the same results everywhere, few runs in advance, and a clear end when something goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import leeway
from leeway.lab.driver import run_key
from leeway.lab.engines import Done, Job, Local
from leeway.lab.errors import RunError


def jobs(make, seeds: int = 5, **fields) -> list[Job]:
    scenarios = [make(buffer=buffer, **fields) for buffer in ("5 pkt", "20 pkt")]
    return [Job(run_key(s, seed), s, seed) for s in scenarios for seed in range(1, seeds + 1)]


def results(engine, work) -> dict[str, bytes]:
    done = list(engine.map(work))
    found = {each.key: each.data for each in done}
    assert len(found) == len(done)
    return found


def test_one_worker_and_several_give_what_run_gives(make):
    work = jobs(make)
    expected = {job.key: leeway.run(job.scenario, job.seed).encode() for job in work}
    assert len(set(expected.values())) == len(work)
    assert results(Local(1), work) == expected
    assert results(Local(3), work) == expected


def test_seconds_are_those_of_the_run(make):
    short, long = make(), make(duration="50 s")
    seconds = {done.key: done.seconds for done in Local(1).map([Job("short", short, 1), Job("long", long, 1)])}
    assert 0 < seconds["short"] < seconds["long"] < 30


def test_nothing_to_do_is_soon_done():
    assert list(Local(2).map([])) == []


def test_few_jobs_are_looked_at_in_advance(make):
    looked = 0

    def source() -> Iterator[Job]:
        nonlocal looked
        for i in range(500):
            looked += 1
            yield Job(str(i), make(duration="200 ms"), i)

    running = Local(2).map(source())
    for taken in range(1, 30):
        assert isinstance(next(running), Done)
        time.sleep(0.01)
        assert looked <= taken + 4 * 2 + 2
    running.close()
    assert looked < 50


def test_closing_stops_runs_that_are_under_way(make):
    endless = make(duration="10 h", rate="100 Mbit/s")
    running = Local(2).map([Job("quick", make(), 1), Job("endless-1", endless, 1), Job("endless-2", endless, 2)])
    assert next(running).key == "quick"
    begin = time.perf_counter()
    running.close()
    assert time.perf_counter() - begin < 20  # to their end they take a minute
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("leeway-")]


def test_a_run_that_fails_is_named_and_ends_the_others(make):
    broken = make(title="of no law", law="lebdat")
    endless = make(duration="10 h", rate="100 Mbit/s")
    begin = time.perf_counter()
    with pytest.raises(RunError, match=r"seed 7 of 'of no law'(.|\n)*lebdat"):
        list(Local(2).map([Job("endless", endless, 1), Job("broken", broken, 7)]))
    assert time.perf_counter() - begin < 20  # the endless one takes a minute


def test_an_error_of_the_source_comes_through(make):
    def source() -> Iterator[Job]:
        yield Job("a", make(), 1)
        raise LookupError("no more scenarios")

    with pytest.raises(LookupError, match="no more scenarios"):
        list(Local(2).map(source()))
