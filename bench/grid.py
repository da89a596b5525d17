"""Runs a sample of the largest grid, trang2014:fig3.4, and projects the time of the whole grid.

The sample is stratified.

usage: python bench/grid.py [--sample RUNS] [--workers N]

Needs the Python package. Nothing else should run on the machine at the same time.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from leeway.lab import Setting, experiments
from leeway.lab.cache import Cache
from leeway.lab.cost import expected_packets
from leeway.lab.driver import Tally, run_cases, run_key
from leeway.lab.engines import Local
from leeway.lab.progress import Bar

GRID = "trang2014:fig3.4"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sample = "number of runs to draw from the grid (default: 300)"
    parser.add_argument("--sample", type=int, default=300, help=sample)
    parser.add_argument("--workers", type=int, default=2, help="number of runs at the same time (default: 2)")
    args = parser.parse_args()

    grid = experiments()[GRID]
    begin = time.perf_counter()
    everything = grid.first_cases(Setting(full=True))
    listed = time.perf_counter()
    keys = {run_key(case.scenario, case.seed) for case in everything}
    keyed = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"the grid: {len(keys):,} runs, listed in {listed - begin:.1f} s, their keys in {keyed - listed:.1f} s, "
        f"{memory:.0f} MB"
    )

    sample = grid.first_cases(Setting(full=True, sample=args.sample))
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, Cache(Path(folder) / "grid.sqlite") as cache:
        wall, cpu = time.perf_counter(), cpu_s()
        results = run_cases(sample, Local(args.workers), cache, Bar(), tally, "sample")
        wall, cpu = time.perf_counter() - wall, cpu_s() - cpu
        delivered = sum(result.run().work.delivered_packets for result in results)
        cache.close()
        stored = cache.path.stat().st_size
    runs = len(tally.seconds)
    print(
        f"the sample: {runs} runs, {args.workers} workers: {wall:.1f} s, {runs / wall:.2f} runs/s, "
        f"{delivered / wall / 1e6:.2f} million packets/s; {cpu:.1f} s of processor time, of which "
        f"{100 * (1 - sum(tally.seconds.values()) / cpu):.1f} % outside the runs; {stored / runs:.0f} bytes a result"
    )
    times = sum(map(packets, everything)) / sum(map(packets, sample))
    print(
        f"projected for the grid, by the packets its links carry: {wall * times / 60:.0f} min; with {args.workers} "
        f"cores to itself {cpu * times / args.workers / 60:.0f} min; at most 90 min are wanted"
    )


def packets(case) -> float:
    return expected_packets(case.scenario)


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
