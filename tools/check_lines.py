"""Checks that lines of prose in Markdown files end before column 100.

Tables, code, comments and lines that are one long word (an address) are left out.
"""

import re
import sys
from pathlib import Path

from check_links import markdown_files

COLUMNS = 100
FENCE = re.compile(r"\s*(```|~~~)")
OTHER = re.compile(r"\s*(\||<!--)|    ")


def main() -> int:
    long = [line for file in markdown_files() for line in long_lines(file)]
    print("\n".join(long), end="\n" if long else "", file=sys.stderr)
    return 1 if long else 0


def long_lines(file: Path) -> list[str]:
    found, code = [], False
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if FENCE.match(line):
            code = not code
        elif not code and not OTHER.match(line) and " " in line.strip() and len(line) >= COLUMNS:
            found.append(f"{file}:{number}: {len(line)} columns; prose ends before column {COLUMNS}")
    return found


if __name__ == "__main__":
    sys.exit(main())
