#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Mutation testing of the C laws: small faults in the headers, one at a time, and whether the tests notice.

Every mutant changes one token or drops one statement. Those that compile to the same object as the original are
equivalent and set aside; the others face the tests of crates/control, which are built once over a shared library of
the laws. What survives is printed, to be explained in MUTANTS.md or met with a better test.

    python3 mutate.py --sample 80 --seed 1 --minutes 20
    python3 mutate.py --list | wc -l
    python3 mutate.py --only leeway_flower.h --sample 30
    python3 mutate.py --check

`--check` is for CI: it draws mutants of the headers whose code is not as mutants.json has it. It fails if one
survives that is not in that file. A change of comments changes no code. `--write` draws as well, and renews
the file.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
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
RECORD = HERE / "mutants.json"
# Of each changed header, in CI: one or two minutes.
CHECKED = 25

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
        return f"{self.file}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """What it does, wherever the line stands."""
        code = self.before.split("/*")[0].strip()
        return f"{code}  ->  {self.after.strip() or '(dropped)'}"


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


def codes() -> dict[str, str]:
    """What of each header the compiler sees of functions, as a hash."""
    found = {}
    for path in sorted(HERE.glob("*.h")):
        if path.name not in SKIPPED:
            lines = [line.split("/*")[0].strip() for _, line in code_lines(path.read_text())]
            found[path.name] = hashlib.sha256("\n".join(filter(None, lines)).encode()).hexdigest()
    return found


def draw(mutants: list[Mutant], sample: int, minutes: float, known: set[str]) -> tuple[list[Mutant], str]:
    """Judges so many of the mutants in their order; those that survive and are not known, and the counts."""
    counts = dict.fromkeys(("killed", "timeout", "survived", "equivalent", "invalid"), 0)
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        if workspace.test(600) != "survived":
            raise SystemExit("mutants: the tests fail without any mutant")
        # Building the tests is not part of it: on a busy machine that alone takes minutes.
        deadline = time.monotonic() + minutes * 60
        for mutant in mutants:
            tried = counts["killed"] + counts["timeout"] + counts["survived"]
            if tried >= sample or time.monotonic() > deadline:
                break
            verdict = workspace.judge(mutant, 60)
            counts[verdict] += 1
            if verdict == "survived" and f"{mutant.file}: {mutant.change}" not in known:
                print(f"survived  {mutant}", flush=True)
                survivors.append(mutant)
    if mutants and not sum(counts.values()):
        raise SystemExit(f"mutants: none was tried in {minutes:g} minutes; allow more with --minutes")
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return survivors, f"{words} of {len(mutants)} possible"


def check(minutes: float, write: bool) -> int:
    """Draws mutants of headers that have changed since the record was written."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"code": {}, "survivors": []}
    now = codes()
    changed = [name for name, code in now.items() if record["code"].get(name) != code]
    known, survivors = set(record["survivors"]), []
    if changed:
        print(f"mutants: {CHECKED} of each of {', '.join(changed)}", flush=True)
    for name in changed:
        mutants = all_mutants([name])
        random.Random(now[name]).shuffle(mutants)
        found, counts = draw(mutants, CHECKED, minutes, known)
        print(f"  {name}: {counts}", flush=True)
        survivors += found
    if write:
        known |= {f"{mutant.file}: {mutant.change}" for mutant in survivors}
        RECORD.write_text(json.dumps({"code": now, "survivors": sorted(known)}, indent="\t") + "\n")
    elif survivors:
        print(
            "mutants: the tests do not notice these faults. Add a test for each that matters, then run "
            "control/mutate.py --write, which takes the others as known, and say in control/MUTANTS.md "
            "why they do not matter",
            file=sys.stderr,
        )
        return 1
    print(f"mutants: {len(changed)} changed headers, {len(survivors)} survivors that were not known")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=80, help="mutants to try, drawn at random (default 80)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--minutes", type=float, default=30, help="stop drawing after so long (default 30)")
    parser.add_argument("--only", nargs="*", default=[], metavar="FILE", help="these headers only")
    parser.add_argument("--list", action="store_true", help="print all mutants and stop")
    parser.add_argument("--check", action="store_true", help="draw of headers that changed since --write")
    parser.add_argument("--write", action="store_true", help="the same, and write mutants.json")
    options = parser.parse_args()

    if options.check or options.write:
        return check(min(options.minutes, 3), options.write)
    mutants = all_mutants(options.only)
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    random.Random(options.seed).shuffle(mutants)
    _, counts = draw(mutants, options.sample, options.minutes, set())
    print(counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
