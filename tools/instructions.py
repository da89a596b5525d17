#!/usr/bin/env python3
"""Counts the instructions of the hot paths and compares them with bench/instructions/baseline.json.

usage: instructions.py [--write]

The benchmarks of bench/instructions run under Callgrind, by gungraun. A count does not depend on how
busy the machine is. More than 5 % above the baseline is a failure. More than 5 % below it asks for a new
baseline, which --write makes. Counts depend on the compilers: where their versions are not those of the
baseline, the counts are printed and not compared.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "bench" / "instructions" / "baseline.json"
TOLERANCE_PERCENT = 5


def main() -> int:
    if sys.argv[1:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    compilers = {"rustc": first_line("rustc", "--version"), "cc": first_line("cc", "--version")}
    counts = count()
    if sys.argv[1:] == ["--write"]:
        BASELINE.write_text(json.dumps({"compilers": compilers, "counts": counts}, indent=2) + "\n")
        print(f"instructions: {len(counts)} counts in {BASELINE.relative_to(ROOT)}")
        return 0
    baseline = json.loads(BASELINE.read_text())
    if compilers != baseline["compilers"]:
        for name, version in baseline["compilers"].items():
            print(f"  {name} of the baseline: {version}; here: {compilers[name]}")
        for name, instructions in counts.items():
            print(f"  {instructions:>12,} {name}")
        print("instructions: counted and not compared, because the compilers are not those of the baseline")
        return 0
    return judge(baseline["counts"], counts)


def judge(before: dict[str, int], now: dict[str, int]) -> int:
    """Prints every count beside the baseline; 1 if one is worse, or not in both."""
    wrong = 0
    for name in sorted({*before, *now}):
        if name not in before or name not in now:
            where = "the baseline" if name not in before else "the benchmarks"
            print(f"  {name}: not in {where}; tools/instructions.py --write makes a new baseline")
            wrong += 1
            continue
        change = now[name] / before[name] - 1
        verdict = ""
        if 100 * now[name] > (100 + TOLERANCE_PERCENT) * before[name]:
            verdict = "  more than 5 % above the baseline"
            wrong += 1
        elif 100 * now[name] < (100 - TOLERANCE_PERCENT) * before[name]:
            verdict = "  better: --write keeps it"
        print(f"  {now[name]:>12,} {change:+7.1%} {name}{verdict}")
    print(f"instructions: {'failed' if wrong else 'clean'}")
    return 1 if wrong else 0


def count() -> dict[str, int]:
    """Instructions of each benchmark, by name."""
    if not shutil.which("valgrind"):
        sys.exit("instructions: valgrind is missing; `make instructions` as root installs it")
    home = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "gungraun"
    shutil.rmtree(home, ignore_errors=True)
    runner = ROOT / "target" / "tools" / "gungraun-runner"
    environment = {**os.environ, "GUNGRAUN_HOME": str(home), "GUNGRAUN_RUNNER": str(runner)}
    command = ["cargo", "bench", "--locked", "--quiet", "--package", "leeway-instructions", "--bench", "instructions"]
    run = subprocess.run(
        [*command, "--", "--save-summary=json"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        sys.exit(f"instructions: the benchmarks failed\n{run.stdout}{run.stderr}")
    return dict(sorted(map(read, home.rglob("summary.json"))))


def read(file: Path) -> tuple[str, int]:
    """Name and instructions (Callgrind's Ir) of one benchmark."""
    summary = json.loads(file.read_text())
    name = f"{summary['function_name']}:{summary['id']}" if summary.get("id") else summary["function_name"]
    return name, summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"]


def first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
