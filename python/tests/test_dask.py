"""The engine on Dask: the same results, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask import config
from distributed import Client, LocalCluster

import leeway
from leeway.lab import Case
from leeway.lab.cache import Cache
from leeway.lab.driver import Tally, run_cases, run_key
from leeway.lab.engines import Dask, Job, Local, simulate
from leeway.lab.errors import EngineError, RunError


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with (
        config.set({"distributed.comm.timeouts.connect": "1s"}),  # how long a dead worker is asked for its results
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client


def jobs(make, seeds: int, **fields) -> list[Job]:
    return [Job(run_key(make(**fields), seed), make(**fields), seed) for seed in range(1, seeds + 1)]


def results(engine, work) -> dict[str, bytes]:
    done = list(engine.map(work))
    assert max(Counter(each.key for each in done).values()) == 1
    return {each.key: each.data for each in done}


def pids(client: Client) -> set[int]:
    return set(client.run(os.getpid).values())


def test_gives_the_bytes_that_this_machine_gives(make, client):
    work = jobs(make, 30)
    assert results(Dask(client), work) == results(Local(2), work)


def test_an_address_is_as_good_as_a_client(make, cluster, tmp_path):
    work = jobs(make, 3)
    with Dask(cluster.scheduler_address) as engine:
        assert results(engine, work) == results(Local(1), work)


def test_a_worker_that_is_killed_costs_nothing_but_time(make, client, tmp_path):
    puts: Counter[str] = Counter()

    class Noting(Cache):
        def put(self, key: str, data: bytes, seconds: float) -> None:
            puts[key] += 1
            super().put(key, data, seconds)
            if puts.total() == 20:
                os.kill(min(before), signal.SIGKILL)

    cases = [Case(make(duration="60 s"), seed, {"seed": seed}) for seed in range(1, 101)]
    before = pids(client)
    tally = Tally()
    with Noting(tmp_path / "dask.sqlite") as cache:
        runs = [result.run() for result in run_cases(cases, Dask(client), cache, tally=tally)]
        assert len(cache) == 100
        assert set(puts) == set(tally.seconds)
        assert set(puts.values()) == {1}
    with Cache(tmp_path / "local.sqlite") as cache:
        assert runs == [result.run() for result in run_cases(cases, Local(2), cache)]
    for _ in range(100):  # the nurse of the worker starts another
        if len(now := pids(client)) == 2:
            break
        time.sleep(0.1)
    assert min(before) not in now


def test_few_jobs_are_under_way_and_closing_takes_them_back(make, client):
    work = jobs(make, 400, duration="5 s")
    looked = 0

    def source():
        nonlocal looked
        for job in work:
            looked += 1
            yield job

    running = Dask(client).map(source())
    for taken in range(1, 50):
        next(running)
        assert looked <= 16 + taken
    running.close()
    time.sleep(0.5)
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) <= 2


def test_a_run_that_fails_is_named(make, client):
    work = [*jobs(make, 3), Job("wrong", make(law="lebdat", title="misspelt"), 7)]
    with pytest.raises((RunError, ValueError), match="lebdat"):
        list(Dask(client).map(work))


def test_an_engine_of_another_version_is_refused(make, client, monkeypatch):
    monkeypatch.setattr(leeway, "ENGINE", "0.0.0+other")
    with pytest.raises(EngineError, match=r"another version of leeway.*here it is 0\.0\.0\+other"):
        list(Dask(client).map(jobs(make, 1)))


def test_a_trace_with_other_contents_on_the_worker_is_noticed(make, client, tmp_path: Path):
    trace = tmp_path / "link.trace"
    trace.write_text("1\n2\n3\n")
    scenario = make()
    scenario.dumbbell.bottleneck.rate = None
    scenario.dumbbell.bottleneck.trace = str(trace)
    scenario.dumbbell.bottleneck.buffer = "20 pkt"
    assert results(Dask(client), [Job("same", scenario, 1)]) == results(Local(1), [Job("same", scenario, 1)])
    text, key = scenario.to_toml(), scenario.key()
    trace.write_text("1\n5\n9\n")
    with pytest.raises(ValueError, match="not the same on the worker"):
        simulate(text, 1, key, leeway.ENGINE)


def test_a_cluster_that_goes_away_is_said_to_be_gone(make):
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        client = Client(cluster)
        running = Dask(client).map(jobs(make, 50, duration="30 s"))
        next(running)
        client.close()
        with pytest.raises(EngineError, match="is gone"):
            list(running)


def test_an_address_where_nothing_answers_is_an_error():
    with (
        config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(EngineError, match="no Dask cluster at"),
    ):
        Dask("tcp://127.0.0.1:1")
