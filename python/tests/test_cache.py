"""The cache: nothing that was put in is lost, and nothing damaged comes out."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from leeway.lab.cache import Cache, Entry, default_path
from leeway.lab.errors import CacheError

WRITER = """
import sys
from leeway.lab.cache import Cache
with Cache(sys.argv[1], engine="test") as cache:
    for i in range(100_000):
        cache.put(f"key-{i}", f"key {i} ".encode() * 100, float(i))
        print(f"key-{i}", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def fill(path: Path, count: int, size: int = 900) -> dict[str, Entry]:
    """A closed cache with so many results."""
    entries = {f"key-{i}": Entry(bytes([i % 256]) * size, i / 10) for i in range(count)}
    with Cache(path, engine="test") as cache:
        for key, entry in entries.items():
            cache.put(key, entry.data, entry.seconds)
    return entries


def test_gives_back_what_was_put(path):
    with Cache(path, engine="test") as cache:
        cache.put("a", b"\0one", 1.5)
        cache.put("b", b"", 0.0)
        cache.put("a", b"newer", 2.5)
        assert cache.get("a") == Entry(b"newer", 2.5)
        assert cache.get("c") is None
    with Cache(path, engine="test") as cache:
        assert cache.get_many(["c", "b", "a"]) == {"a": Entry(b"newer", 2.5), "b": Entry(b"", 0.0)}
        assert cache.seconds(["a", "c"]) == {"a": 2.5}
        assert len(cache) == 2


def test_looks_up_more_keys_than_a_query_takes(path):
    entries = fill(path, 1700, size=10)
    with Cache(path, engine="test") as cache:
        assert cache.get_many([*entries, "missing"]) == entries


def test_threads_may_share_it(path):
    with Cache(path, engine="test") as cache:

        def put(name: int) -> None:
            for i in range(50):
                cache.put(f"{name}-{i}", b"x" * i, 1.0)
                assert cache.get(f"{name}-{i}") == Entry(b"x" * i, 1.0)

        threads = [threading.Thread(target=put, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(cache) == 200


PROCESSES, ROUNDS = 4, 10


def take_part(folder: Path, name: int, together: Barrier) -> None:
    """One of several processes that use the same caches from their first moment on."""
    for number in range(ROUNDS):
        together.wait(60)
        with Cache(folder / f"{number}.sqlite", engine="test") as cache:
            for i in range(5):
                cache.put(f"{name}-{i}", b"x", 1.0)


def test_processes_may_share_a_file_that_none_of_them_has_made(path):
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(PROCESSES)
    processes = [context.Process(target=take_part, args=(path.parent, i, together)) for i in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    for number in range(ROUNDS):
        with Cache(path.parent / f"{number}.sqlite", engine="test") as cache:
            assert len(cache) == 5 * PROCESSES


def test_what_was_reported_done_outlives_a_kill(path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    reported = [process.stdout.readline().strip() for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    reported += [line.strip() for line in process.stdout]  # from the same buffer: no line is cut
    assert process.wait(timeout=60) == -signal.SIGKILL
    with Cache(path, engine="test") as cache:
        found = cache.get_many(reported)
    assert len(found) == len(reported) >= 200
    assert all(found[key].data.startswith(key.replace("-", " ").encode()) for key in reported)


def test_a_damaged_row_is_dropped_counted_and_said(path, caplog):
    fill(path, 3)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE results SET data = X'00' || substr(data, 2) WHERE key = 'key-1'")
    with Cache(path, engine="test") as cache, caplog.at_level(logging.WARNING):
        assert sorted(cache.seconds(["key-0", "key-1", "key-2"])) == ["key-0", "key-2"]
        assert cache.damaged == 1
        assert len(cache) == 2
        assert str(path) in caplog.text
        assert "computed again" in caplog.text
        assert cache.get("key-1") is None
        assert cache.damaged == 1


@pytest.mark.parametrize(
    "column", ["seconds = seconds + 1", "seconds = 'soon'", "data = CAST(X'FF' AS TEXT)", "key = 'key-7'"]
)
def test_damage_is_noticed_wherever_it_is(path, column):
    fill(path, 1)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE results SET {column}")
    with Cache(path, engine="test") as cache:
        assert cache.get_many(["key-0", "key-7"]) == {}
        assert cache.damaged == 1


def test_a_damaged_file_is_moved_aside_and_what_is_readable_is_rescued(path, caplog):
    entries = fill(path, 2000)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for at in range(size // 4 // 4096 * 4096, size // 2, 4096):  # pages of the table and of the index
            file.seek(at)
            file.write(b"\xa5" * 4096)
    with Cache(path, engine="test") as cache, caplog.at_level(logging.WARNING):
        found = cache.get_many(entries)
        assert 800 < len(found) < 2000
        assert all(entries[key] == entry for key, entry in found.items())
        for key, entry in entries.items():
            cache.put(key, entry.data, entry.seconds)
        assert cache.get_many(entries) == entries
    assert (path.parent / "results.sqlite.corrupt-1").exists()
    assert "results.sqlite.corrupt-1" in caplog.text
    assert f"{len(found)} results were rescued" in caplog.text


def test_damage_that_comes_while_it_is_open_is_noticed_too(path):
    entries = fill(path, 2000)
    with Cache(path, engine="test") as cache:
        assert cache.get("key-5") == entries["key-5"]
        data = bytearray(path.read_bytes())
        data[4096 * 5 :: 4096] = b"\0" * len(data[4096 * 5 :: 4096])  # the kind of every later page
        path.write_bytes(data)
        for key, entry in entries.items():
            cache.put(key, entry.data, entry.seconds)
        assert cache.get_many(entries) == entries
    assert (path.parent / "results.sqlite.corrupt-1").exists()


def test_what_is_no_database_is_moved_aside_under_a_free_name(path):
    (path.parent / "results.sqlite.corrupt-1").write_text("of an earlier day")
    path.write_text("this is not a database\n" * 1000)
    with Cache(path, engine="test") as cache:
        cache.put("a", b"1", 1.0)
        assert len(cache) == 1
    assert (path.parent / "results.sqlite.corrupt-1").read_text() == "of an earlier day"
    assert (path.parent / "results.sqlite.corrupt-2").read_text().startswith("this is not")


def test_the_database_of_another_program_is_left_alone(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE letters (x)")
    before = path.read_bytes()
    with pytest.raises(CacheError, match="another program"):
        Cache(path, engine="test")
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.glob("results*")] == ["results.sqlite"]


def test_a_later_format_is_left_alone(path):
    fill(path, 1)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(CacheError, match="its format is 99"):
        Cache(path, engine="test")


def test_errors_name_the_place_and_what_would_be_right(tmp_path):
    with pytest.raises(CacheError, match=r"there is no folder .*/nowhere for the cache.*--cache FILE"):
        Cache(tmp_path / "nowhere" / "results.sqlite", engine="test")
    with pytest.raises(CacheError, match="cannot be written"):
        Cache(tmp_path, engine="test")  # a folder
    with pytest.raises(CacheError, match=r"/proc/results\.sqlite.*--cache FILE"):
        Cache("/proc/results.sqlite", engine="test")  # where nobody can make files


def test_the_default_place_is_made(tmp_path, monkeypatch):
    assert default_path() == tmp_path / "cache-home" / "leeway" / "results.sqlite"
    with Cache(engine="test") as cache:
        cache.put("a", b"1", 1.0)
    assert default_path().exists()
    monkeypatch.setenv("LEEWAY_CACHE", str(tmp_path / "mine.sqlite"))
    with Cache(engine="test") as cache:
        assert cache.path == tmp_path / "mine.sqlite"
        assert len(cache) == 0


def test_prune_removes_other_engines_and_clear_all(path):
    fill(path, 300, size=4000)
    size = path.stat().st_size
    with Cache(path, engine="newer") as cache:
        cache.put("new", b"1", 3.0)
        versions = {v.engine: v for v in cache.versions()}
        assert (versions["test"].results, versions["test"].size) == (300, 1_200_000)
        assert (versions["newer"].results, versions["newer"].seconds) == (1, 3.0)
        assert cache.prune() == 300
        assert cache.get("new") == Entry(b"1", 3.0)
        assert cache.clear() == 1
        assert len(cache) == 0
    assert path.stat().st_size < size / 10
