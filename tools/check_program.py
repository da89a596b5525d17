#!/usr/bin/env python3
"""Checks what a user notices of the program's size: usage check_program.py PROGRAM

Stripped it has to be below 20 MB, and `leeway --help` has to take less than 10 ms. That is processor
time, and the least of fifty starts, so that other programs on the machine do not matter.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_BYTES = 20_000_000
MOST_S = 0.010
STARTS = 50


def main(program: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "leeway"
        subprocess.run(["strip", "-o", stripped, program], check=True)
        size = stripped.stat().st_size
        seconds = min(start(stripped) for _ in range(STARTS))
    wrong = [
        f"{name} is {value}; it has to be below {most}"
        for name, value, most, holds in [
            ("its stripped size", f"{size / 1e6:.1f} MB", f"{MOST_BYTES / 1e6:.0f} MB", size < MOST_BYTES),
            ("the processor time of --help", f"{seconds * 1e3:.1f} ms", f"{MOST_S * 1e3:.0f} ms", seconds < MOST_S),
        ]
        if not holds
    ]
    print(f"{program}: {size / 1e6:.1f} MB stripped, --help in {seconds * 1e3:.1f} ms")
    print("\n".join(f"{program}: {line}" for line in wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


def start(program: Path) -> float:
    """Processor time of one start in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
