#!/usr/bin/env python3
"""The live figures of docs/testbed.md: every line with every mechanism, in rounds, beside the primary alone.

    cargo build --release -p leeway-cli
    sudo bench/testbed.py

Runs `leeway testbed` for each group of lines that are measured for the same time, and writes the medians to
python/leeway/papers/dimogerontakis2017/live.json, from which `python -m leeway.papers.dimogerontakis2017` makes the
tables. Needs root. With three rounds and twelve lines at a time it takes half an hour, on a machine that does nothing
else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEEWAY = os.environ.get("LEEWAY", str(ROOT / "target" / "release" / "leeway"))
DATA = ROOT / "python" / "leeway" / "papers" / "dimogerontakis2017" / "live.json"
RAW = ROOT / "out" / "testbed"
MECHANISMS = ["prim_only", "best_effort", "relay", "proxy", "proxy-relay"]
SHAPED = ["borrowing", "borrowing-line"]

# Seconds of a measurement, mechanisms, and the setups by experiment and label.
GROUPS = [
    (40, MECHANISMS, {"overload": "overload", "deep": "deep", "satellite": "satellite"}),
    (40, MECHANISMS, {"rtt 100 ms": "100 ms", "rtt 600 ms": "600 ms"}),
    (60, MECHANISMS, {"underload": "underload"}),
    (
        20,
        MECHANISMS,
        {"changing": "changing", "greedy": "greedy", "call": "call", "idle": "idle", "transfer": "transfer"}
        | {f"users {count}": f"users {count}" for count in (1, 10, 100)}
        | {f"buffer {bdp} BDP": f"{bdp} BDP" for bdp in (0.5, 1, 3, 10)},
    ),
    (25, MECHANISMS, {"upload": "upload", "lte": "lte"}),
    (8, MECHANISMS, {f"rate {mbps} Mbit/s": f"{mbps} Mbit/s" for mbps in (10, 50)}),
    (
        15,
        MECHANISMS + SHAPED,
        {"overload": "overload, 15 s"}
        | {f"objectsize {size} kB": f"{size} kB" for size in (2.5, 12.5, 62.5)}
        | {f"ratio {ratio}": ratio for ratio in ("1:2.5", "1:5", "1:10")}
        | {f"edge {which} primary": f"{which} home, 15 s" for which in ("small", "large")},
    ),
]


def measured(number: int, args: argparse.Namespace) -> list[dict]:
    """The rows of a group. What the testbed has written stays in the folder `RAW`."""
    seconds, mechanisms, setups = GROUPS[number]
    experiments = dict.fromkeys(name.split()[0] for name in setups)
    file = RAW / f"{number}.json"
    command = [LEEWAY, "testbed", *experiments, "--duration", f"{seconds} s", "--out", str(file)]
    command += ["--repetitions", str(args.repetitions), "--jobs", str(args.jobs)]
    for mechanism in mechanisms:
        command += ["--mechanism", mechanism]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = []
    for experiment in found:
        for point in experiment["points"]:
            setup = setups.get(f"{experiment['id'].split(':')[1]} {point['label']}".strip())
            if setup is not None:
                rows += [row_of(setup, seconds, point["rate_bps"], row) for row in point["rows"]]
    return rows


def row_of(setup: str, seconds: int, rate_bps: float | None, row: dict) -> dict:
    """What is kept of a row of the testbed: medians over its rounds."""
    median, ratios = row["median"], row["of_prim_only"] or {}
    goodput = median["secondary_goodput_bps"]
    figures = {
        "alone_s": median["primary_mean_s"] if row["mechanism"] == "prim_only" else None,
        "mean": ratios.get("primary_mean"),
        "p99": ratios.get("primary_p99"),
        "per_s": median["secondary_per_s"],
        "service_s": median["secondary_mean_s"],
        "part_of_line": goodput / rate_bps if goodput is not None and rate_bps else None,  # no rate: it changes
        "ping_p99_added_s": ratios.get("ping_p99_added_s"),
        "mos": median["mos"],
        "down_bps": median["down_bps"],
        "resent": median["retransmitted"],
        "late_p99_s": statistics.median(round_["line"]["late_p99_s"] for round_ in row["rounds"]),
    }
    kept = {name: float(f"{value:.4g}") for name, value in figures.items() if value is not None}
    return {"setup": setup, "mechanism": row["mechanism"], "seconds": seconds} | kept


def main() -> None:
    """Measures all groups and writes what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--jobs", type=int, default=12, help="lines at a time (default: 12)")
    parser.add_argument("--out", type=Path, default=DATA, help="where the figures go (default: the package)")
    args = parser.parse_args()
    version = subprocess.run([LEEWAY, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    rows = []
    RAW.mkdir(parents=True, exist_ok=True)
    for number, group in enumerate(GROUPS):
        if sys.stderr.isatty():
            print(f"group {number + 1} of {len(GROUPS)}: {len(group[2])} lines", file=sys.stderr)
        rows += measured(number, args)
    about = {"program": version, "rounds": args.repetitions, "jobs": args.jobs, "cores": os.cpu_count()}
    text = ",\n".join("    " + json.dumps(row) for row in rows)
    whole = json.dumps(about)[:-1] + f', "rows": [\n{text}\n]}}\n'
    json.loads(whole)
    args.out.write_text(whole, encoding="utf-8")
    late = statistics.median(row["late_p99_s"] for row in rows)
    print(f"{len(rows)} rows in {args.out}; the emulator was late by {1000 * late:.2f} ms (99th percentile, median)")


if __name__ == "__main__":
    main()
