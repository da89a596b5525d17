"""``python -m leeway.papers.dimogerontakis2017``: the tables of docs/testbed.md as Markdown."""

from __future__ import annotations

import argparse
from pathlib import Path

from leeway.lab import Setting
from leeway.lab.cache import Cache
from leeway.lab.engines import Local
from leeway.lab.progress import Bar
from leeway.papers.dimogerontakis2017 import page


def main() -> None:
    """Prints the table, or writes it into a page."""
    parser = argparse.ArgumentParser(prog=page.COMMAND, description=__doc__)
    parser.add_argument("--full", action="store_true", help="all rows and 20 seeds; otherwise some rows and 3 seeds")
    replaces = "replace the tables between the marks of this page"
    parser.add_argument("--write", type=Path, metavar="PAGE", help=replaces)
    parser.add_argument("--workers", type=int, help="number of runs at the same time; that of the cores by default")
    parser.add_argument("--cache", type=Path, help="file of known results; that of the lab by default")
    args = parser.parse_args()
    with Cache(args.cache) as cache, Local(args.workers) as engine:
        text = page.table(Setting(full=args.full), cache, engine, Bar())
    if args.write is None:
        print(page.live_table(), text, sep="\n", end="")
    else:
        page.write(page.live_table(), args.write, page.LIVE_TABLE)
        page.write(text, args.write)


if __name__ == "__main__":
    main()
