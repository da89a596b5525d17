"""The progress bar: on a terminal, and only there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

OWN = str(Path(__file__).with_name("own_experiments.py"))


def lab(cache: Path, **streams) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "leeway.lab", "run", "other:many", "--load", OWN, "--cache", str(cache)]
    return subprocess.Popen(command, **streams)


def test_a_terminal_shows_runs_rate_and_time_left(tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 110, 0, 0))
    each = os.environ | {"TQDM_MININTERVAL": "0", "TQDM_MINITERS": "0"}  # the bar is drawn after each run
    process = lab(tmp_path / "results.sqlite", stdout=subprocess.DEVNULL, stderr=theirs, env=each)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert process.wait(60) == 0
    lines = re.split(r"[\r\n]+", shown.decode())
    form = re.compile(r"other:many +(\d+)% .*?(\d+)/60 runs, ([\d.]+|\?) runs/s, [\d:]+ so far, ([\d:]+|\?) left")
    found = [match for match in map(form.search, lines) if match]
    assert [int(match[2]) for match in found] == list(range(61)), lines
    assert lines[-1].strip() == ""  # it is wiped when it is done


def test_elsewhere_there_is_none(tmp_path):
    process = lab(tmp_path / "results.sqlite", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
