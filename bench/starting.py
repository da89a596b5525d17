#!/usr/bin/env python3
"""Measures the time of `leeway run -- true`: cold, and with its law loaded. Needs root.

usage: starting.py LEEWAY [ROUNDS]
"""

import os
import resource
import statistics
import subprocess
import sys
import time

LAW = "ebb"


def once(leeway: str) -> tuple[float, float]:
    """Runs the command once. Returns the seconds until its end, and the seconds of processor
    time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run([leeway, "run", "--no-report", "--", "true"], check=True)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(leeway: str, what: str, rounds: int) -> None:
    walls, processor = zip(*(once(leeway) for _ in range(rounds)), strict=True)
    print(f"{what:12}  {statistics.median(walls):5.2f} s  {statistics.median(processor):5.2f} s of processor time")


def main() -> None:
    leeway, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 11
    print(f"leeway run -- true, medians of {rounds}")
    measure(leeway, "cold", rounds)
    name = f"b{os.getpid():x}"
    subprocess.run([leeway, "kernel", "load", LAW, "--name", name], check=True, stdout=subprocess.DEVNULL)
    try:
        measure(leeway, "law loaded", rounds)
    finally:
        subprocess.run([leeway, "kernel", "unload", name], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
