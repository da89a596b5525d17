#!/usr/bin/env python3
"""Measures the live figures of docs/testbed.md: every line with every mechanism, in rounds.

    cargo build --release -p leeway-cli
    sudo bench/testbed.py

Runs `leeway testbed` for each group of lines that are measured for the same time. The medians go
to live.json in python/leeway/papers/dimogerontakis2017, of which `python -m
leeway.papers.dimogerontakis2017` makes the tables. Needs root, and a machine that does nothing
else: three rounds with twelve lines at a time take half an hour.

    sudo bench/testbed.py --only rate --only rtt

measures the groups that play these experiments, and leaves the other rows as they are.
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


def experiments(setups: dict[str, str]) -> list[str]:
    """The experiments of a group."""
    return list(dict.fromkeys(name.split()[0] for name in setups))


def measured(number: int, program: str, args: argparse.Namespace) -> list[dict]:
    """Measures the rows of a group. The output of the testbed stays in the folder `RAW`."""
    seconds, mechanisms, setups = GROUPS[number]
    file = RAW / f"{number}.json"
    command = [LEEWAY, "testbed", *experiments(setups), "--duration", f"{seconds} s", "--out", str(file)]
    command += ["--repetitions", str(args.repetitions), "--jobs", str(args.jobs)]
    for mechanism in mechanisms:
        command += ["--mechanism", mechanism]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:  # The testbed has printed the reason.
        sys.exit(done.returncode)
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = []
    for experiment in found:
        for point in experiment["points"]:
            setup = setups.get(f"{experiment['id'].split(':')[1]} {point['label']}".strip())
            if setup is not None:
                about = {"setup": setup, "seconds": seconds, "program": program}
                rows += [about | figures(point["rate_bps"], row) for row in point["rows"]]
    return rows


def figures(rate_bps: float | None, row: dict) -> dict:
    """The figures that are kept of a row: medians over its rounds. A line whose rate changes has
    no rate."""
    median, ratios = row["median"], row["of_prim_only"] or {}
    goodput = median["secondary_goodput_bps"]
    found = {
        "alone_s": median["primary_mean_s"] if row["mechanism"] == "prim_only" else None,
        "mean": ratios.get("primary_mean"),
        "p99": ratios.get("primary_p99"),
        "per_s": median["secondary_per_s"],
        "service_s": median["secondary_mean_s"],
        "part_of_line": goodput / rate_bps if goodput is not None and rate_bps else None,
        "ping_p99_added_s": ratios.get("ping_p99_added_s"),
        "mos": median["mos"],
        "down_bps": median["down_bps"],
        "resent": median["retransmitted"],
        "late_p99_s": statistics.median(round_["line"]["late_p99_s"] for round_ in row["rounds"]),
    }
    kept = {name: float(f"{value:.4g}") for name, value in found.items() if value is not None}
    return {"mechanism": row["mechanism"]} | kept


def main() -> None:
    """Measures all groups and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="number of rounds (default: 3)")
    parser.add_argument("--jobs", type=int, default=12, help="number of lines at the same time (default: 12)")
    names = sorted({name for _, _, setups in GROUPS for name in experiments(setups)})
    alone = "measure the groups of this experiment alone"
    parser.add_argument("--only", action="append", choices=names, help=alone)
    args = parser.parse_args()
    version = subprocess.run([LEEWAY, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    chosen = [
        number
        for number, (_, _, setups) in enumerate(GROUPS)
        if args.only is None or set(args.only) & set(experiments(setups))
    ]
    about = {"rounds": args.repetitions, "jobs": args.jobs, "cores": os.cpu_count()}
    before = json.loads(DATA.read_text(encoding="utf-8"))
    of_before = {name: before[name] for name in about}
    if args.only is not None and about != of_before:
        parser.error(f"--only: the other rows were measured with {of_before}, not {about}")
    RAW.mkdir(parents=True, exist_ok=True)
    rows = []
    for at, number in enumerate(chosen, 1):
        if sys.stderr.isatty():
            print(f"group {at} of {len(chosen)}: {len(GROUPS[number][2])} lines", file=sys.stderr)
        rows += measured(number, version, args)
    write(rows if args.only is None else merged(before["rows"], rows), about)
    late_ms = 1e3 * statistics.median(row["late_p99_s"] for row in rows)
    print(f"{len(rows)} rows in {DATA}")
    print(f"the emulator was late by {late_ms:.2f} ms (99th percentile, median)")


def merged(old: list[dict], rows: list[dict]) -> list[dict]:
    """The old rows, each replaced by the new row of the same setup and mechanism if there is
    one."""
    new = {(row["setup"], row["mechanism"]): row for row in rows}
    return [new.get((row["setup"], row["mechanism"]), row) for row in old]


def write(rows: list[dict], about: dict) -> None:
    """Writes one row per line, so that a diff can be read."""
    text = ",\n".join("    " + json.dumps(row) for row in rows)
    DATA.write_text(json.dumps(about)[:-1] + f', "rows": [\n{text}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
