"""Engines run jobs and return encoded results. One engine uses this machine's cores, another one a
Dask cluster."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import leeway
from leeway.lab.errors import EngineError, RunError
from leeway.lab.subjects import KINDS, kind
from leeway.running import cores

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

    from leeway.lab.subjects import Subject

log = logging.getLogger("leeway.lab")


@dataclass(frozen=True, slots=True)
class Job:
    """A run to do; `key` identifies it in the cache and on the workers."""

    key: str
    scenario: Subject
    seed: int


@dataclass(frozen=True, slots=True)
class Done:
    """A finished run: the result of ``Run.encode()``, and the seconds of a core that it took."""

    key: str
    data: bytes
    seconds: float


class Engine:
    """Runs jobs; a context manager."""

    def map(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
        """Results in the order in which they arrive. Few jobs are taken from the iterable in
        advance.

        Closing the iterator stops the unfinished runs.

        Raises
        ------
        RunError
            If a run fails; the others are stopped.
        EngineError
            If nothing can be run any more.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Releases the engine's threads or connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Local(Engine):
    """The cores of this machine.

    Parameters
    ----------
    workers
        Number of runs at a time; the number of cores if None.
    """

    def __init__(self, workers: int | None = None):
        self.workers = workers or cores()

    def __repr__(self) -> str:
        return f"Local({self.workers})"

    def map(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
        shared = _Shared(jobs, room=4 * self.workers)
        threads = [
            threading.Thread(target=_work, args=(shared,), name=f"leeway-{i}", daemon=True) for i in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                result = shared.results.get()
                if result is None:
                    running -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    shared.room.release()
                    yield result
        finally:
            shared.stop()
            shared.room.release(self.workers)
            for thread in threads:
                thread.join()


class Dask(Engine):
    """A Dask cluster: ``Dask("tcp://host:8786")``, ``Dask(client)``, or ``Dask()`` for processes
    on this machine.

    Workers need this package in the same version, and trace files under the same paths. A lost
    worker costs only its unfinished runs. Results go to the client, which alone keeps them.

    Parameters
    ----------
    cluster
        Address of a scheduler, path of its scheduler file (``.json``), or a client; without it a
        `LocalCluster` is started, and stopped by `close`.
    workers
        Number of processes of that `LocalCluster`; the number of cores if None.

    Raises
    ------
    EngineError
        If no scheduler responds at the address.
    """

    def __init__(self, cluster: str | os.PathLike[str] | Client | None = None, workers: int | None = None):
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise EngineError("the engine dask needs the package distributed: pip install distributed") from error
        self._owned: list[Any] = []  # to be closed, in this order
        self._threads, self._looked_at = 0, 0.0
        try:
            if cluster is None:
                with _interrupts_ignored():  # by the workers; the client gets them and ends these
                    local = LocalCluster(
                        n_workers=workers or cores(),
                        threads_per_worker=1,
                        dashboard_address=":0",
                        silence_logs=logging.CRITICAL,
                    )
                self.client = Client(local)
                self._owned = [self.client, local]
            elif isinstance(cluster, Client):
                self.client = cluster
            else:
                place = os.fspath(cluster)
                self.client = Client(scheduler_file=place) if place.endswith(".json") else Client(place)
                self._owned = [self.client]
        except (OSError, ValueError) as error:
            raise EngineError(f"no Dask cluster at {cluster}: {error}") from error

    def __repr__(self) -> str:
        return f"Dask({self.client.scheduler.address!r})"

    def close(self) -> None:
        for what in self._owned:
            what.close(timeout=5)
        self._owned = []

    def map(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
        from distributed import as_completed

        waiting = iter(jobs)
        completed = as_completed()
        under_way: dict[Future, Job] = {}
        try:
            self._fill(completed, waiting, under_way)
            while under_way:
                future = next(completed)
                result = self._result(future, under_way[future])
                del under_way[future]
                future.release()
                self._fill(completed, waiting, under_way)
                yield result
        finally:
            if under_way and self.client.status == "running":
                self.client.cancel(list(under_way))

    def _result(self, future: Future, job: Job) -> Done:
        """The result of a completed future. If its worker was just lost, the result is computed
        again."""
        from distributed import CancelledError, KilledWorker

        try:
            engine, data, seconds = future.result()
        except (CancelledError, OSError) as error:
            raise EngineError(GONE) from error
        except ImportError as error:
            raise EngineError(f"a Dask worker cannot use leeway: {error}. {SAME_VERSION}") from error
        except KilledWorker as error:
            raise EngineError(
                f"several Dask workers died one after the other during the run with seed {job.seed} of "
                f"{_called(job.scenario)}: perhaps their memory is short"
            ) from error
        except Exception as error:
            raise _failed(job, error) from error
        if engine != leeway.ENGINE:
            raise EngineError(
                f"a Dask worker has another version of leeway: {engine}, here it is {leeway.ENGINE}. {SAME_VERSION}"
            )
        return Done(job.key, data, seconds)

    def _fill(self, completed: as_completed, waiting: Iterator[Job], under_way: dict[Future, Job]) -> None:
        """Submits jobs, so that every worker always has a next one."""
        for job in itertools.islice(waiting, self._window() - len(under_way)):
            subject = job.scenario
            text, name = kind(subject).write(subject), type(subject).__name__
            task = (simulate, text, job.seed, subject.key(), leeway.ENGINE, name)
            try:
                future = self.client.submit(*task, key=f"leeway-{job.key}")
            except OSError as error:
                raise EngineError(GONE) from error
            under_way[future] = job
            completed.add(future)

    def _window(self) -> int:
        """Number of jobs to submit at a time; counts the workers again every second."""
        if time.monotonic() > self._looked_at + 1:
            try:
                threads = sum(self.client.nthreads().values())
            except OSError as error:
                raise EngineError(GONE) from error
            if not threads and not self._looked_at:
                log.warning("the Dask cluster has no workers yet; waiting for them")
            self._threads, self._looked_at = threads, time.monotonic()
        return max(16, 4 * self._threads)


GONE = "the Dask cluster is gone. Everything done so far is kept: start it, and run the same command again"
SAME_VERSION = "Install the same version everywhere"


def simulate(scenario: str, seed: int, key: str, engine: str, name: str = "Scenario") -> tuple[str, bytes, float]:
    """What a Dask worker does, from the text of a subject of the kind `name`: its engine version,
    the encoded result, seconds.

    There is no result if the version is not the one that was asked for.

    Raises
    ------
    ValueError
        If the scenario has another `key` here: a trace file that it names has other contents.
    """
    if engine != leeway.ENGINE:
        return leeway.ENGINE, b"", 0.0
    here = KINDS[name].read(scenario)
    if here.key() != key:
        raise ValueError("the scenario is not the same on the worker; do its trace files have the same contents there?")
    return leeway.ENGINE, *timed_run(here, seed)


def timed_run(scenario: Subject, seed: int, cancel: leeway.Cancel | None = None) -> tuple[bytes, float]:
    """The encoded result of a run, and the seconds of a core that it took."""
    begin = time.thread_time()
    data = kind(scenario).run(scenario, seed, cancel).encode()
    return data, time.thread_time() - begin


class _Shared:
    """What the threads of `Local` share: jobs to take, results to hand over, and the wish to
    stop."""

    def __init__(self, jobs: Iterable[Job], room: int):
        self.results: queue.SimpleQueue[Done | BaseException | None] = queue.SimpleQueue()  # None: a thread has ended
        self.room = threading.Semaphore(room)  # for results that nobody has fetched yet
        self.cancel = leeway.Cancel()
        self._jobs = iter(jobs)
        self._lock = threading.Lock()

    def next(self) -> Job | None:
        with self._lock:
            return None if self.cancel.is_set() else next(self._jobs, None)

    def stop(self) -> None:
        self.cancel.set()


def _work(shared: _Shared) -> None:
    """The loop of a thread of `Local`."""
    try:
        while True:
            shared.room.acquire()
            job = shared.next()
            if job is None:
                break
            try:
                shared.results.put(Done(job.key, *timed_run(job.scenario, job.seed, shared.cancel)))
            except leeway.CancelledError:
                break
            except Exception as error:
                failed = _failed(job, error)
                failed.__cause__ = error
                shared.results.put(failed)
    except BaseException as error:  # of the iterator over the jobs
        shared.results.put(error)
    finally:
        shared.results.put(None)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Keeps Ctrl-C from processes that start inside this context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _failed(job: Job, error: Exception) -> RunError:
    return RunError(f"the run with seed {job.seed} of {_called(job.scenario)} failed: {error}")


def _called(scenario: Subject) -> str:
    name = type(scenario).__name__.lower()
    return f"'{scenario.title}'" if scenario.title else f"a {name} without a title"
