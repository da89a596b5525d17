"""A disk that is full: a clear error, nothing lost, and the same command goes on from there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leeway.lab.cache import Cache

OWN = str(Path(__file__).with_name("own_experiments.py"))
ROOM = 400_000  # bytes; less than the results need


@dataclass
class Disk:
    """A folder with little room; `limits` are those of processes that write there."""

    path: Path
    limits: dict[int, int] = field(default_factory=dict)

    def lab(self, *arguments: str, limited: bool = True) -> subprocess.CompletedProcess[str]:
        def limit() -> None:
            for kind, most in self.limits.items() if limited else ():
                resource.setrlimit(kind, (most, most))

        place = [] if "--cache" in arguments else ["--cache", str(self.path / "results.sqlite")]
        command = [sys.executable, "-m", "leeway.lab", *arguments, *place]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=limit)

    def free(self) -> None:
        """Makes room."""
        if not self.limits:
            subprocess.run(["mount", "-o", "remount,size=64m", str(self.path)], check=True)


@pytest.fixture(params=["small disk", "limit of the size of a file"])
def disk(request, tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param != "small disk":
        yield Disk(folder, {resource.RLIMIT_FSIZE: ROOM})
        return
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "leeway-test", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_the_cache_says_so_keeps_what_was_done_and_goes_on(disk):
    command = ["run", "own:share", "--seeds", "100", "--load", OWN]
    full = disk.lab(*command)
    assert full.returncode == 3, full
    assert "no room is left for" in full.stderr
    assert str(disk.path) in full.stderr
    assert "the same command" in full.stderr
    assert "Traceback" not in full.stderr

    disk.free()
    with Cache(disk.path / "results.sqlite") as cache:
        done = len(cache)
    assert 20 < done < 200
    again = disk.lab(*command, limited=False)
    assert again.returncode == 0, again
    assert f"200 runs ({done} from the cache)" in again.stdout
    assert "damaged" not in again.stderr


@pytest.mark.parametrize("disk", ["small disk"], indirect=True)
@pytest.mark.parametrize("command", ["run", "report"])
def test_a_folder_for_output_without_room_is_named(disk, tmp_path, command):
    (disk.path / "ballast").write_bytes(b"x" * (ROOM - 20_000))
    place = ["--out", str(disk.path / "out"), "--cache", str(tmp_path / "results.sqlite")]
    full = disk.lab(command, "own:share", "--load", OWN, *place)
    assert full.returncode == 3, full
    assert "the disk is full" in full.stderr
    assert str(disk.path / "out") in full.stderr
    assert "Traceback" not in full.stderr
    disk.free()
    again = disk.lab(command, "own:share", "--load", OWN, *place)
    assert again.returncode == 0, again
    assert "6 runs (6 from the cache)" in again.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"], ["list"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output_is_an_error(arguments: list[str], unbuffered: str):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "leeway.lab", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert ended.stderr == "leeway-lab: error: a file or the output: No space left on device\n"
    assert ended.returncode == 3
