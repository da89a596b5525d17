"""Results of runs, kept by content, so that nothing is simulated twice.

A SQLite file with a row for each run. The key is a hash of the scenario, the seed and the engine
version. Whatever changes the result changes the key, so a row is never outdated. Each row is
committed when its result arrives, and stays however the process ends. Several processes may use
one file, but not over a network file system, where SQLite's locks are not reliable.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from leeway.lab.errors import CacheError

log = logging.getLogger("leeway.lab")

T = TypeVar("T")

APPLICATION_ID = 0x4C574159  # "LWAY": marks the database as one of this package, also for file(1)
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    engine TEXT NOT NULL,
    made_at REAL NOT NULL,  -- seconds since 1970
    seconds REAL NOT NULL,
    checksum BLOB NOT NULL,
    data BLOB NOT NULL
)
"""
BUSY_TIMEOUT_S = 60
LOOKUP = 500  # keys in one query
GIVE_UP = 10_000  # consecutive unreadable rows after which a damaged file is taken to be at its end


@dataclass(frozen=True, slots=True)
class Entry:
    """A result that is kept.

    Attributes
    ----------
    data
        ``Run.encode()``.
    seconds
        How long the simulation took, in seconds of one core.
    """

    data: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Version:
    """Contents of a cache for one engine version: number of results, their bytes, seconds of
    simulation, dates."""

    engine: str
    results: int
    size: int
    seconds: float
    first: float
    last: float


def default_path() -> Path:
    """``$LEEWAY_CACHE``, or ``leeway/results.sqlite`` in ``$XDG_CACHE_HOME`` (``~/.cache``)."""
    if given := os.environ.get("LEEWAY_CACHE"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "leeway" / "results.sqlite"


class Cache:
    """Results of runs in a SQLite file; for use from any thread.

    Parameters
    ----------
    path
        The file, which is made if it does not exist; its folder must exist. If None:
        `default_path`, and its folder.
    engine
        Engine version of new results; the version of this package if None.

    Attributes
    ----------
    damaged
        Number of damaged rows that were dropped since the file was opened.

    Raises
    ------
    CacheError
        By every method, when the file cannot be read or written. Earlier results stay.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, engine: str | None = None):
        if engine is None:
            import leeway

            engine = leeway.ENGINE
        self.path = Path(path) if path is not None else default_path()
        self.engine = engine
        self.damaged = 0
        self._lock = threading.RLock()
        if path is None and "LEEWAY_CACHE" not in os.environ:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CacheError(f"cannot make the folder {self.path.parent}: {error.strerror}. {ELSEWHERE}") from error
        self._db: sqlite3.Connection | None = None
        self._carry_out(lambda db: None)

    def get(self, key: str) -> Entry | None:
        """The result with this key, if it exists and is intact."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Entry]:
        """The results of these keys that exist and are intact."""
        return {key: Entry(data, seconds) for key, seconds, data in self._rows(keys)}

    def seconds(self, keys: Iterable[str]) -> dict[str, float]:
        """Seconds that each existing and intact result took, by key; holds no more than a few
        results in memory."""
        return {key: seconds for key, seconds, _ in self._rows(keys)}

    def put(self, key: str, data: bytes, seconds: float) -> None:
        """Keeps a result, which outlives the process once this returns."""
        row = (key, self.engine, time.time(), seconds, _checksum(key, seconds, data), data)
        self._carry_out(lambda db: db.execute(INSERT, row))

    def drop(self, key: str, why: str) -> None:
        """Removes a damaged result, counts it, and logs the reason."""
        self._drop("key", key, why)

    def versions(self) -> list[Version]:
        """Contents by engine version, newest first."""
        query = """SELECT engine, count(*), sum(length(data)), sum(seconds), min(made_at), max(made_at)
                   FROM results GROUP BY engine ORDER BY max(made_at) DESC"""
        return [Version(*row) for row in self._carry_out(lambda db: db.execute(query).fetchall())]

    def clear(self) -> int:
        """Removes all results and frees the space; returns their number."""
        return self._delete("DELETE FROM results", ())

    def prune(self) -> int:
        """Removes the results of other engine versions and frees the space; returns their
        number."""
        return self._delete("DELETE FROM results WHERE engine <> ?", (self.engine,))

    def __len__(self) -> int:
        return self._carry_out(lambda db: db.execute("SELECT count(*) FROM results").fetchone()[0])

    def close(self) -> None:
        """Closes the file; it opens again when it is used again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r})"

    def _rows(self, keys: Iterable[str]) -> Iterator[tuple[str, float, bytes]]:
        keys = list(keys)
        for start in range(0, len(keys), LOOKUP):
            some = keys[start : start + LOOKUP]
            marks = ",".join("?" * len(some))
            query = f"SELECT id FROM results WHERE key IN ({marks})"
            for (row,) in self._carry_out(lambda db, q=query, k=some: db.execute(q, k).fetchall()):
                found = self._carry_out(lambda db, r=row: db.execute(SELECT + " WHERE id = ?", (r,)).fetchone())
                if found is None:
                    continue
                key, _, _, seconds, checksum, data = found
                if _intact(key, seconds, checksum, data):
                    yield key, seconds, data
                else:
                    self._drop("id", row, "its checksum is wrong")

    def _drop(self, column: str, value: str | int, why: str) -> None:
        self.damaged += 1
        log.warning("%s: a result is damaged (%s); it is dropped and will be computed again", self.path, why)
        self._carry_out(lambda db: db.execute(f"DELETE FROM results WHERE {column} = ?", (value,)))

    def _delete(self, query: str, arguments: Sequence[str]) -> int:
        count = self._carry_out(lambda db: db.execute(query, arguments).rowcount)
        if count:
            with contextlib.suppress(
                sqlite3.OperationalError
            ):  # no room for a copy, or in use: the rows are gone anyway
                self._carry_out(lambda db: db.execute("VACUUM"), explain=False)
        return count

    def _carry_out(self, action: Callable[[sqlite3.Connection], T], explain: bool = True) -> T:
        """`action` on the open database; on a damaged file once more after the rescue."""
        with self._lock:
            try:
                try:
                    return action(self._open())
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._rescue(error)
                    return action(self._open())
            except (sqlite3.Error, OSError) as error:
                if not explain:
                    raise
                raise self._explained(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            with _one_process(self.path.parent):
                self._db = self._opened()
        return self._db

    def _opened(self) -> sqlite3.Connection:
        db = _connect(self.path)
        try:
            self._claim(db)
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise CacheError(f"{self.path} is on a file system without shared memory. {ELSEWHERE}")
            db.execute("PRAGMA synchronous = NORMAL")  # outlives the process; a power cut may take the last ones
        except BaseException:
            db.close()
            raise
        return db

    def _claim(self, db: sqlite3.Connection) -> None:
        """Makes the table in an empty database; leaves alone that of another program or of another
        version."""
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute(SCHEMA)
        elif db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise CacheError(f"{self.path} is the database of another program. {ELSEWHERE}")
        elif (version := db.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA_VERSION:
            raise CacheError(
                f"{self.path} was written by another version of leeway (its format is {version}, this one reads "
                f"{SCHEMA_VERSION}). {ELSEWHERE}"
            )

    def _rescue(self, damage: sqlite3.Error) -> None:
        """Moves a damaged file aside and copies its readable rows into a new file."""
        self.close()
        with _one_process(self.path.parent):
            if not self._is_damaged():
                return  # another process was faster
            aside = _free_name(self.path)
            for end in ("-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self.path}{end}").rename(f"{aside}{end}")
            log.warning("%s is damaged (%s); it was moved to %s", self.path, damage, aside)
            self._db = self._opened()
            with contextlib.closing(_connect(aside)) as old, _transaction(self._db):
                rescued = sum(self._db.execute(INSERT, row).rowcount for row in _readable(old))
            log.warning("%s: %d results were rescued; the others will be computed again", self.path, rescued)

    def _is_damaged(self) -> bool:
        try:
            db = _connect(self.path)
            with contextlib.closing(db):
                return db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok"
        except sqlite3.DatabaseError as error:
            return _is_damage(error)

    def _explained(self, error: sqlite3.Error | OSError) -> CacheError:
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        if not self.path.parent.is_dir():
            return CacheError(f"there is no folder {self.path.parent} for the cache. Make it. {ELSEWHERE}")
        if name in NO_ROOM:
            return CacheError(
                f"no room is left for {self.path} ({error}). Everything done so far is kept: make room and run the "
                f"same command again, and it goes on from there. {ELSEWHERE}"
            )
        if name.startswith("SQLITE_BUSY"):
            return CacheError(
                f"{self.path} was in use by another process for {BUSY_TIMEOUT_S} s. Wait for it to end. {ELSEWHERE}"
            )
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "PermissionError")):
            return CacheError(f"{self.path} cannot be written ({error}). {ELSEWHERE}")
        return CacheError(f"{self.path}: {error} ({name}). {ELSEWHERE}")


ELSEWHERE = "Another file is chosen with --cache FILE or $LEEWAY_CACHE."
COLUMNS = "key, engine, made_at, seconds, checksum, data"
INSERT = f"INSERT OR REPLACE INTO results ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_FSYNC")
SELECT = f"SELECT {COLUMNS} FROM results"


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda data: data.decode(errors="replace")  # damaged text is found out by its checksum
    return db


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _readable(db: sqlite3.Connection) -> Iterator[tuple[str, str, float, float, bytes, bytes]]:
    """Rows of a damaged database that can be read and are intact; steps over the places that
    cannot be read."""
    at, failures = 0, 0
    while failures < GIVE_UP:
        try:
            for number, *row in db.execute(f"SELECT id, {COLUMNS} FROM results WHERE id > ? ORDER BY id", (at,)):
                at, failures = number, 0
                if _intact(row[0], *row[3:]):
                    yield tuple(row)
            return
        except sqlite3.DatabaseError:
            at, failures = at + 1, failures + 1


def _checksum(key: str, seconds: float, data: bytes) -> bytes:
    return hashlib.blake2b(f"{key} {seconds!r} ".encode() + data, digest_size=16).digest()


def _intact(key: object, seconds: object, checksum: object, data: object) -> bool:
    """Whether a row is what was written; a damaged one may hold anything."""
    return (
        isinstance(key, str)
        and isinstance(seconds, float)
        and isinstance(data, bytes)
        and checksum == _checksum(key, seconds, data)
    )


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextlib.contextmanager
def _one_process(folder: Path) -> Iterator[None]:
    """Held by one process at a time for the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return aside
