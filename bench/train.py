#!/usr/bin/env python3
"""Runs the scenarios from which a profile-guided build of the Python package learns.

`MATURIN_PGO=1 make wheel` calls this program with a package that counts its branches. The
scenarios of the benchmarks (bench/scenarios) are not among them.
"""

import sys
from pathlib import Path

import leeway

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FOLDERS = ("komnios2014", "kuhn2013", "rossi2010", "trang2014")


def main() -> int:
    for folder in FOLDERS:
        for file in sorted((EXAMPLES / folder).glob("*.toml")):
            leeway.run(leeway.Scenario.load(file))
            print(file.relative_to(EXAMPLES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
