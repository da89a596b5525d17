"""Writes docs/results.md, the claims of all experiments, and the table of docs/scoreboard.md from a report of the lab.

usage: results.py REPORT_FOLDER [DOCS_FOLDER]

Both pages carry the version of the engine that made them. `make results` makes the report and calls this.
"""

import contextlib
import io
import json
import re
import sys
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

Record = dict[str, Any]
SIGNS = {"holds": "✓", "explained": "≠", "differs": "✗", "undecided": "?", "open": "○"}
PAPERS = {
    "rossi2010": "Rossi 2010",
    "ns2": "ns-2",
    "kuhn2013": "Kuhn 2013",
    "komnios2014": "Komnios 2014",
    "trang2014": "Trang 2014",
    "dimogerontakis2017": "Dimogerontakis 2017",
    "swarm": "Swarms",
    "community": "Communities of gateways",
}
HEAD = """# Results

What was published, and what comes out here, of every experiment of the papers, of swarms and of communities, {size}.
`tools/results.py` writes this page from what this command gives. The report itself has the figures,
tables and notes as well.

```
{command}
```

Engine {engine}; {machine}.
{runs:,} runs, {hours:.1f} hours of one core; runs that several experiments share are counted in each.

| | |
|---|---:|
| ✓ holds | {holds} |
| ≠ differs, and an experiment shows [the cause](known-differences.md) | {explained} |
| ✗ differs, cause unknown | {differs} |
| ? undecided: the interval reaches over a bound of what is accepted | {undecided} |
| ○ the paper's outcome was left open: recorded | {open} |

± is the half-width of the 95 % confidence interval of the mean over *n* seeds.
"""


COLUMNS = 99
BETWEEN = re.compile(r"(<!-- made by tools/results.py -->\n).*(<!-- end -->)", re.DOTALL)


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    report = json.loads((Path(sys.argv[1]) / "claims.json").read_text(encoding="utf-8"))
    docs = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).parents[1] / "docs"
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        results(report)
    (docs / "results.md").write_text(wrapped(text.getvalue()).rstrip() + "\n", encoding="utf-8")
    board = docs / "scoreboard.md"
    page = board.read_text(encoding="utf-8")
    if not BETWEEN.search(page):
        sys.exit(f"{board} has no place for the stamp: <!-- made by tools/results.py --> and <!-- end -->")
    board.write_text(BETWEEN.sub(lambda found: found[1] + stamp(report) + found[2], page), encoding="utf-8")


def wrapped(text: str) -> str:
    """Paragraphs in lines that one can read; tables, headings and code as they are."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        block if block.startswith(("|", "#", "```")) else textwrap.fill(block, COLUMNS, break_on_hyphens=False)
        for block in blocks
    )


def stamp(report: Record) -> str:
    """Which engine made the numbers, from how many runs."""
    runs = sum(each["runs"] for each in report["experiments"] if each["kind"] == "scoreboard")
    return f"\nEngine {report['context']['engine']}, {runs:,} runs.\n\n"


def size(setting: Record) -> str:
    """How much of the published grids was run, in words."""
    words = "at full size" if setting["full"] else "in the short form: a small part of each grid that shows the same"
    if setting["sample"]:
        words += f", {setting['sample']:,} runs of the very large grids and as many networks of the boards"
    if setting["seed_count"]:
        words += f", {setting['seed_count']} seeds for each case"
    return words


def command(setting: Record) -> str:
    """What repeats it."""
    options = (
        (setting["full"], "--full"),
        (setting["seed_count"], f"--seeds {setting['seed_count']}"),
        (setting["sample"], f"--sample {setting['sample']}"),
    )
    asked = " ".join(option for given, option in options if given)
    return "make results" if asked == "--full" else f'make results SIZE="{asked}"'


def results(report: Record) -> None:
    """Prints docs/results.md."""
    experiments = report["experiments"]
    print(
        HEAD.format(
            size=size(experiments[0]["setting"]),
            command=command(experiments[0]["setting"]),
            engine=report["context"]["engine"],
            machine=report["context"]["machine"],
            runs=sum(each["runs"] for each in experiments),
            hours=sum(each["simulated_s"] for each in experiments) / 3600,
            **dict.fromkeys(SIGNS, 0) | report["counts"],
        )
    )
    print("## The scoreboard\n")
    for each in experiments:
        if each["kind"] == "scoreboard":
            scoreboard(each)
    for paper, members in groupby((e for e in experiments if e["kind"] == "paper"), lambda e: e["id"].split(":")[0]):
        print(f"## {PAPERS.get(paper, paper)}\n")
        for each in members:
            claims(each)
    print("## Causes of the differences\n")
    for each in experiments:
        if each["kind"] == "difference":
            claims(each)


def scoreboard(experiment: Record) -> None:
    board = experiment["tables"][0]
    print(f"### {experiment['id']}\n\n{board['caption']} [What each column means](scoreboard.md).\n")
    print_table(board["columns"], board["rows"])


def claims(experiment: Record) -> None:
    print(f"### {experiment['id']}\n\n{experiment['title']}. {experiment['runs']:,} runs.\n")
    rows = []
    for claim in experiment["claims"]:
        sign = SIGNS["explained" if claim["cause"] and claim["verdict"] == "differs" else claim["verdict"]]
        text = claim["text"] + (f" *({claim['why']})*" if claim["why"] else "")
        rows.append([sign, text, claim["published"], claim["found"]])
    if rows:
        print_table(["", "claim", "published", "here"], rows)


def print_table(columns: list[str], rows: list[list[Any]]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(cell(value) for value in row) + " |")
    print()


def cell(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("text", value.get("mean"))
    if isinstance(value, float):
        value = f"{value:.3g}"
    return ("" if value is None else str(value)).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
