"""Measures the cost of Python: time in addition to the simulator's, and memory over many runs."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import leeway
from leeway import Channel, Dumbbell, Flow, Scenario, _core
from leeway.running import cores

LIMIT_S = 1e-3
"""What Python may cost for one run."""
LIMIT_BYTES = 8e6
"""By how much memory may grow between the first runs and the last."""
FEW, MANY = 100, 3000


def scenario(duration: str) -> Scenario:
    """A small scenario: a download and a backup."""
    return Scenario(
        duration=duration,
        dumbbell=Dumbbell(bottleneck=Channel(rate="10 Mbit/s", delay="25 ms", buffer="84 pkt")),
        flow=[Flow(name="download", law="cubic"), Flow(name="backup", law="ledbat", role="background")],
    )


def overheads(rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of Python, and of the simulator, for each run of a scenario of 0.1 s."""
    tiny = scenario("100 ms")
    python, engine = [], []
    inner = _core.run

    def timed(*arguments):
        *outcome, seconds = inner(*arguments)
        engine.append(seconds)
        return (*outcome, seconds)

    _core.run = timed
    try:
        for seed in range(rounds):
            begun = time.perf_counter()
            leeway.run(tiny, seed)
            python.append(time.perf_counter() - begun - engine[-1])
    finally:
        _core.run = inner
    return python, engine


def resident() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def growth() -> tuple[int, float]:
    """Growth of the memory from the first to the last runs of `run_many`, in bytes, and runs per
    second."""
    short = scenario("1 s")
    peaks = [0, 0]
    begun = time.perf_counter()
    for number, _ in enumerate(leeway.run_many((short, seed) for seed in range(MANY))):
        if number < FEW or number % 10 == 0:
            late = number >= FEW
            peaks[late] = max(peaks[late], resident())
    return peaks[1] - peaks[0], MANY / (time.perf_counter() - begun)


def main() -> int:
    """Prints both measurements, and fails if a limit is exceeded."""
    python, engine = overheads(500)
    cost = statistics.median(python)
    beside = statistics.median(engine)
    print(f"python: {cost * 1e6:.0f} us a run, beside {beside * 1e6:.0f} us of the simulator (medians)")
    grown, rate = growth()
    print(f"run_many: {grown / 1e6:+.1f} MB from {FEW} to {MANY} runs, {rate:.0f} runs/s of 1 s on {cores()} cores")
    return int(cost > LIMIT_S or grown > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main())
