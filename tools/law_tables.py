"""Writes the tables of docs/laws/ from control/leeway_laws.h, so that pages cannot drift from the code.

usage: law_tables.py [--check]

A page holds a pair of comments, `<!-- table: parameters -->` or `<!-- table: state -->` and
`<!-- end of table -->`; what stands between them is replaced. With --check nothing is written: a page that
differs or that is missing is an error.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "laws"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
UNLIMITED = 2**32 - 1
DURATION, PACKETS, RATIO, COUNT, CHOICE, GAIN = range(6)


@dataclass
class Param:
    name: str
    kind: int
    default: int
    least: int
    most: int
    choices: list[str]
    doc: str
    source: str

    def show(self, raw: int) -> str:
        """A raw value as a specification spells it."""
        if self.kind == CHOICE:
            return self.choices[raw]
        if self.kind == COUNT:
            return str(raw)
        if self.kind == PACKETS and raw == UNLIMITED:
            return "unlimited"
        if self.kind == DURATION:
            return duration(raw)
        return decimal(raw, 6 if self.kind == GAIN else 3)

    def range(self) -> str:
        if self.kind == CHOICE:
            return ", ".join(f"`{word}`" for word in self.choices)
        unit = " packets" if self.kind == PACKETS and self.most != UNLIMITED else ""
        return f"{self.show(self.least)} to {self.show(self.most)}{unit}"


@dataclass
class Law:
    name: str
    summary: str
    source: str
    state_bytes: int
    params: list[Param] = field(default_factory=list)
    probes: list[tuple[str, str]] = field(default_factory=list)


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    check = bool(sys.argv[1:])
    problems = []
    for law in read_laws():
        page = PAGES / f"{law.name}.md"
        if not page.exists():
            problems.append(f"{page.relative_to(ROOT)} is missing")
            continue
        before = page.read_text(encoding="utf-8")
        after = filled(before, law)
        if check and before != after:
            problems.append(f"{page.relative_to(ROOT)} is out of date; run `python3 tools/law_tables.py`")
        elif before != after:
            page.write_text(after, encoding="utf-8")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


def read_laws() -> list[Law]:
    laws: list[Law] = []
    for line in print_laws().splitlines():
        kind, *cells = line.split("\t")
        if kind == "law":
            laws.append(Law(cells[0], cells[1], cells[2], int(cells[3])))
        elif kind == "param":
            name, *numbers = cells[:5]
            choices = cells[5].split("|") if cells[5] else []
            laws[-1].params.append(Param(name, *map(int, numbers), choices, cells[6], cells[7]))
        else:
            laws[-1].probes.append((cells[0], cells[1]))
    return laws


def print_laws() -> str:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "law_tables"
        compiler = os.environ.get("CC", "cc")
        source = ROOT / "tools" / "law_tables.c"
        command = [compiler, "-std=c11", "-I", str(ROOT / "control"), str(source), "-o", str(program)]
        subprocess.run(command, check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def filled(page: str, law: Law) -> str:
    tables: dict[str, Callable[[Law], str]] = {"parameters": parameter_table, "state": state_table}

    def block(match: re.Match[str]) -> str:
        return f"{match.group(1)}\n{tables[match.group(2)](law)}\n{match.group(3)}"

    return BLOCK.sub(block, page)


def parameter_table(law: Law) -> str:
    lines = ["| parameter | default | bounds | what it sets | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{p.name}` | `{p.show(p.default)}` | {p.range()} | {escaped(p.doc)} | {escaped(p.source)} |"
        for p in law.params
    ]
    return "\n".join(lines) + "\n"


def state_table(law: Law) -> str:
    lines = [f"A flow's state takes {law.state_bytes} bytes."]
    if law.probes:
        lines += ["Beyond what every law reports, a series can hold:", ""]
        lines += [f"- `{name}` ({unit})" if unit else f"- `{name}`" for name, unit in law.probes]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def duration(microseconds: int) -> str:
    if not microseconds:
        return "0s"
    for unit, scale in (("s", 1_000_000), ("ms", 1_000), ("us", 1)):
        if microseconds >= scale and microseconds * 1000 % scale == 0:
            return f"{decimal(microseconds * 1000 // scale)}{unit}"
    return f"{microseconds}us"


def decimal(raw: int, digits: int = 3) -> str:
    """`raw` units of the last of so many decimals."""
    return f"{raw // 10**digits}.{raw % 10**digits:0{digits}}".rstrip("0").rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
