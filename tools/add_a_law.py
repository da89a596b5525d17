#!/usr/bin/env python3
"""Follows docs/add-a-law.md word for word in a copy of this checkout: its header, its row, its commands, and the tests
that it promises. As root the law is loaded into the kernel as well.

The copy is compiled without optimisation. Compiled dependencies are taken from this checkout's target: given the whole
workspace and a test, cargo chooses the same features for them as in `cargo test --workspace`.
Ends with a line such as cargo's test binaries print.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).resolve()
COPY = TARGET / "add-a-law"
LAW = "hold"
PROGRAM = COPY / "out/debug/leeway"
# How the page runs the program, which is compiled once before.
RUN = ["cargo", "run", "--release", "-p", "leeway-cli", "--"]
WHOLE = ["--quiet", "--workspace"]
for crate in TOP.glob("crates/*"):
    WHOLE += ["--config", f"profile.dev.package.leeway-{crate.name}.opt-level=0"]


def main() -> int:
    page = (TOP / "docs/add-a-law.md").read_text(encoding="utf-8")
    copy()
    write_header(section(page, 1))
    write_row(section(page, 2))
    write_scenario()
    steps = [("format", ["clang-format-16", "-i", *map(str, COPY.glob("tree/control/*.h"))])]
    steps += [("program", ["cargo", "build", *WHOLE, "--bin", "leeway", "--test", "properties"])]
    steps += [(" ".join(command[:3]), command) for command in commands(section(page, 3))]
    steps += [
        ("properties", ["cargo", "test", *WHOLE, "--test", "properties"]),
        ("every header compiles for BPF", ["control/check.sh"]),
    ]
    passed = 0
    for name, command in steps:
        done = run(command)
        print(f"add-a-law {name} ... {'ok' if done else 'FAILED'}", flush=True)
        passed += done
    failed = len(steps) - passed
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


def copy() -> None:
    """The files that git knows or would, with their times, so that a second run compiles little."""
    safe = ["git", "-c", f"safe.directory={TOP}", "-C", str(TOP)]
    names = subprocess.run(
        [*safe, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True
    )
    shutil.rmtree(COPY / "tree", ignore_errors=True)
    for name in names.stdout.decode().split("\0"):
        source, to = TOP / name, COPY / "tree" / name
        if not name or not (source.is_symlink() or source.is_file()):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to, follow_symlinks=False)
    # Cargo tells crates of two checkouts apart by name and version alone: with this one's version the copy would be
    # taken for built already.
    workspace = COPY / "tree/Cargo.toml"
    text = workspace.read_text(encoding="utf-8")
    other = re.sub(r'^version = "([^"]+)"$', r'version = "\1+page"', text, count=1, flags=re.MULTILINE)
    assert other != text, "Cargo.toml has no version of the workspace"
    workspace.write_text(other, encoding="utf-8")


def section(page: str, number: int) -> str:
    found = re.search(rf"^## {number} .*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"docs/add-a-law.md has no section {number}")
    return found[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def write_header(text: str) -> None:
    (COPY / f"tree/control/leeway_{LAW}.h").write_text("\n".join(blocks(text, "c")), encoding="utf-8")


def write_row(text: str) -> None:
    """The header among the headers, tables and entries before those of others, the row behind the last one."""
    tables, lines = blocks(text, "c")
    entries, row = [line for line in lines.splitlines() if line.strip()]
    path = COPY / "tree/control/leeway_laws.h"
    table = path.read_text(encoding="utf-8")
    first = table.index("#include")
    table = f'{table[:first]}#include "leeway_{LAW}.h"\n{table[first:]}'
    at = table.index("\nLEEWAY_LAW_ENTRIES(")
    table = f"{table[:at]}\n{tables}\n{entries}{table[at:]}"
    at = table.rindex("};")
    path.write_text(f"{table[:at]}{row}\n{table[at:]}", encoding="utf-8")


def write_scenario() -> None:
    scenario = (TOP / "docs/scenarios.md").read_text(encoding="utf-8")
    (COPY / "tree/first.toml").write_text(blocks(scenario, "toml")[0], encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    """The page's commands, but for its formatter of everything; those of root for root only."""
    found = []
    for line in "".join(blocks(text, "")).splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["sudo"]:
            if os.getuid() != 0:
                print(f"add-a-law skipped, which needs root: {line}")
                continue
            words = [str(PROGRAM), *words[2:]] if words[1] == "target/release/leeway" else words[1:]
        if words[:6] == RUN:
            words = [str(PROGRAM), *words[6:]]
        if words and words[0] != "make":
            found.append(words)
    if not any("laws" in command for command in found):
        sys.exit("docs/add-a-law.md, section 3, has no command that lists the law")
    return found


def run(command: list[str]) -> bool:
    # What is built goes to a place of its own, so that this checkout's program stays; what it is built of is shared.
    places = {"CARGO_TARGET_DIR": str(COPY / "out"), "CARGO_BUILD_BUILD_DIR": str(TARGET), "LEEWAY_DRIVER_RUNS": "20"}
    # The lock follows the version and nothing else, so nothing has to be fetched.
    places["CARGO_NET_OFFLINE"] = "true"
    done = subprocess.run(command, cwd=COPY / "tree", env={**os.environ, **places}, capture_output=True, text=True)
    wrong = done.returncode != 0 or ("laws" in command and f"{LAW}:" not in done.stdout)
    if wrong:
        print(f"{' '.join(command)}\n{done.stdout}{done.stderr}", file=sys.stderr)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
