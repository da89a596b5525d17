#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Mutation testing of the C laws: small faults in the headers, one at a time, and whether the tests notice.

Every mutant changes one token or drops one statement. Those that compile to the same object as the original are
equivalent and set aside; the others face the tests of crates/control, which are built once over a shared library of
the laws. What survives is printed, to be explained in MUTANTS.md or met with a better test.

    python3 mutate.py --sample 80 --seed 1 --minutes 20
    python3 mutate.py --list | wc -l
    python3 mutate.py --only leeway_flower.h --sample 30
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# The table of laws is data, and the interface has no code.
SKIPPED = {"leeway.h", "leeway_laws.h"}

SWAPS = [
    (r"(?<![<>=!-])<(?![<=])", "<="),
    (r"(?<![<>=!])<=(?!=)", "<"),
    (r"(?<![<>=!-])>(?![>=])", ">="),
    (r"(?<![<>=!])>=(?!=)", ">"),
    (r"==", "!="),
    (r"!=", "=="),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "),
    (r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    (r"(?<=[\w)\]]) \* (?=[\w(])", " / "),
    (r"(?<=[\w)\]]) / (?=[\w(])", " * "),
    (r"(?<=[\w)\]]) % (?=[\w(])", " / "),
    (r"(?<=[\w)\]]) & (?=[\w(])", " | "),
    (r"\+=", "-="),
    (r"-=", "+="),
    (r">>", "<<"),
    (r"<<", ">>"),
    (r"\+\+;", "--;"),
    (r"(?<=[(\s!])!(?=[\w(])", ""),
    (r"\bleeway_min_u(\d\d)\b", r"leeway_max_u\1"),
    (r"\bleeway_max_u64\b", "leeway_min_u64"),
]
NUMBER = re.compile(r"(?<![\w.])(\d+)(U|ULL)?\b(?!\.)")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One line of one file replaced."""

    file: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        after = self.after.strip() or "(dropped)"
        return f"{self.file}:{self.line}: {self.before.strip()}  ->  {after}"


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of function bodies: no comments, no preprocessor, no declarations of types."""
    inside_comment = inside_body = False
    for number, line in enumerate(text.splitlines()):
        stripped = line.strip()
        if stripped.startswith("/*"):
            inside_comment = True
        if inside_comment:
            inside_comment = "*/" not in stripped
            continue
        if line == "{":
            inside_body = True
        elif line.startswith("}"):
            inside_body = False
        elif inside_body and stripped:
            yield number, line


def mutations_of(line: str) -> Iterator[str]:
    """The line with one fault each."""
    code = line.split("/*")[0].rstrip()
    for pattern, replacement in SWAPS:
        for match in re.finditer(pattern, code):
            yield code[: match.start()] + match.expand(replacement) + code[match.end() :]
    for match in NUMBER.finditer(code):
        value, suffix = int(match.group(1)), match.group(2) or ""
        yield code[: match.start()] + f"{value + 1}{suffix}" + code[match.end() :]
    condition = re.match(r"(\s*(?:\} else )?if \()(.*)(\)(?: \{)?)$", code)
    if condition:
        yield f"{condition.group(1)}0{condition.group(3)}"
        yield f"{condition.group(1)}1{condition.group(3)}"
    statement = re.match(r"\s*[\w>.\-\[\]&() ]+(=|\+=|-=|\(|\+\+).*;$", code)
    declaration = re.match(r"\s*(const |struct |enum |leeway_\w+ \w|int )", code)
    if statement and not declaration and not code.strip().startswith(("return", "for")):
        yield re.match(r"\s*", code).group(0) + ";"


def all_mutants(only: list[str]) -> list[Mutant]:
    mutants = []
    for path in sorted(HERE.glob("*.h")):
        if path.name in SKIPPED or (only and path.name not in only):
            continue
        text = path.read_text()
        seen = set()
        for number, line in code_lines(text):
            for mutated in mutations_of(line):
                if (number, mutated) not in seen and mutated.strip() != line.strip():
                    seen.add((number, mutated))
                    mutants.append(Mutant(path.name, number + 1, line, mutated))
    return mutants


class Workspace:
    """The crate's test binaries, built once over a shared library of the laws, which each mutant replaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library = folder / "libleeway_laws.so"
        self.headers = folder / "control"
        shutil.copytree(HERE, self.headers)
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(folder / "target"),
            "CARGO_PROFILE_TEST_DEBUG": "0",
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "INSTA_UPDATE": "no",
            "INSTA_WORKSPACE_ROOT": str(ROOT),
            "LD_LIBRARY_PATH": str(folder),
            "LEEWAY_LAWS_DIR": str(folder),
            "PROPTEST_CASES": "150",
            "RUST_BACKTRACE": "0",
        }
        self.original = self.compile()
        self.binaries = self.build()

    def compile(self) -> bytes | None:
        """The laws as a shared library; its bytes, or nothing when they do not compile."""
        command = ["cc", "-std=c11", "-O2", "-w", "-shared", "-fPIC", "-I", str(self.headers)]
        command += [str(ROOT / "crates/control/src/laws.c"), "-o", str(self.library)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        return self.library.read_bytes()

    def build(self) -> list[str]:
        """The test binaries of the crate."""
        command = ["cargo", "test", "-q", "-p", "leeway-control", "--tests", "--no-run", "--message-format=json"]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, check=True, text=True)
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [message["executable"] for message in messages if message.get("executable")]

    def test(self, timeout_s: float) -> str:
        """Runs the tests: killed, survived or timeout."""
        for binary in self.binaries:
            command = [binary, "-q"]
            folder = ROOT / "crates/control"
            try:
                done = subprocess.run(
                    command, cwd=folder, env=self.environment, capture_output=True, check=False, timeout=timeout_s
                )
            except subprocess.TimeoutExpired:
                return "timeout"
            if done.returncode != 0:
                return "killed"
        return "survived"

    def judge(self, mutant: Mutant, timeout_s: float) -> str:
        path = self.headers / mutant.file
        text = path.read_text()
        lines = text.splitlines()
        lines[mutant.line - 1] = mutant.after
        path.write_text("\n".join(lines) + "\n")
        try:
            code = self.compile()
            if code is None:
                return "invalid"
            if code == self.original:
                return "equivalent"
            return self.test(timeout_s)
        finally:
            path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=80, help="mutants to try, drawn at random (default 80)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--minutes", type=float, default=30, help="stop drawing after so long (default 30)")
    parser.add_argument("--only", nargs="*", default=[], metavar="FILE", help="these headers only")
    parser.add_argument("--list", action="store_true", help="print all mutants and stop")
    options = parser.parse_args()

    mutants = all_mutants(options.only)
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    random.Random(options.seed).shuffle(mutants)
    deadline = time.monotonic() + options.minutes * 60
    counts = dict.fromkeys(("killed", "timeout", "survived", "equivalent", "invalid"), 0)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        if workspace.test(600) != "survived":
            print("the tests fail without any mutant", file=sys.stderr)
            return 2
        for mutant in mutants:
            tried = counts["killed"] + counts["timeout"] + counts["survived"]
            if tried >= options.sample or time.monotonic() > deadline:
                break
            verdict = workspace.judge(mutant, 60)
            counts[verdict] += 1
            if verdict == "survived":
                print(f"survived  {mutant}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), f"of {len(mutants)} possible")
    return 0


if __name__ == "__main__":
    sys.exit(main())
