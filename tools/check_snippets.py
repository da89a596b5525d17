"""Runs every scenario in the documents: each block of TOML in a Markdown file, completed where it is a part. A block
with hosts is a test network, which is only read. Of the commands of `leeway` that a document shows, in blocks and
between backquotes, each word for a command and each option has to be in the program's help.

usage: check_snippets.py LEEWAY FILE.md...

Ends with a line such as cargo's test binaries print.
"""

import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DURATION = 'duration = "5 s"\n'
LINK = """
[dumbbell]
bottleneck = { rate = "10 Mbit/s", delay = "10 ms" }
reverse = { rate = "10 Mbit/s", delay = "10 ms" }
"""
TRACE = "5\n10\n"  # a packet every 5 ms, for a snippet whose trace its reader is to make
SHOWN = re.compile(r"^(?: {4})?(?:sudo )?leeway (.+)$|`(?:sudo )?leeway ([^`]+)`", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
FLOW = '\n[[flow]]\nname = "backup"\nlaw = "ledbat"\n'


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    passed = failed = 0
    for name in sys.argv[2:]:
        text = Path(name).read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            place = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
            error = problem(sys.argv[1], complete(match.group(1)))
            passed, failed = passed + (not error), failed + bool(error)
            print(f"snippet {place} ... {'FAILED' if error else 'ok'}")
            print(error, end="", file=sys.stderr)
        for match in SHOWN.finditer(text):
            wrong = misuse(sys.argv[1], match.group(1) or match.group(2))
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"command {name}:{text.count(chr(10), 0, match.start()) + 1} ... FAILED\n{wrong}")
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored")
    return 1 if failed or not passed else 0


def complete(snippet: str) -> str:
    """A part of a scenario with what it lacks to be one."""
    if is_network(snippet):
        return snippet
    tables = re.findall(r"^\[+([a-z]+)", snippet, re.MULTILINE)
    before = "" if re.search(r"^duration\b", snippet, re.MULTILINE) else DURATION
    after = "" if {"dumbbell", "link"} & set(tables) else LINK
    return before + snippet + after + ("" if "flow" in tables else FLOW)


def is_network(snippet: str) -> bool:
    return bool(re.search(r"^\[host\.", snippet, re.MULTILINE))


def problem(leeway: str, scenario: str) -> str:
    """What the program says against a scenario; nothing when it runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.toml"
        file.write_text(scenario, encoding="utf-8")
        for trace in re.findall(r'^trace = "([^"/]+)"', scenario, re.MULTILINE):
            (Path(folder) / trace).write_text(TRACE, encoding="utf-8")
        what = ["testnet", str(file), "--check"] if is_network(scenario) else ["sim", str(file), "--quiet"]
        done = subprocess.run([leeway, *what], capture_output=True, text=True, check=False)
        return done.stderr or ("" if done.returncode == 0 else f"exit code {done.returncode}\n")


def misuse(leeway: str, line: str) -> str:
    """What a command shows that the program does not have; nothing when it has it."""
    line = re.split(r"\s--\s|\s[#|<>]|&&|\.\.\.", line + " ")[0]
    command: list[str] = []
    for word in line.split():
        if word not in commands(leeway, tuple(command)):
            break
        command.append(word)
    text = said(leeway, *command, "--help")
    if not command and re.match(r"[a-z]", line):
        return f"there is no command `leeway {line.split()[0]}`"
    unknown = [option for option in OPTION.findall(line) if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)]
    return f"`leeway {' '.join(command)}` has no option {', '.join(unknown)}" if unknown else ""


def commands(leeway: str, command: tuple[str, ...]) -> list[str]:
    """The commands below a command, by its help."""
    listed = re.search(r"^Commands:\n((?:  .*\n|\n)+)", said(leeway, *command, "--help"), re.MULTILINE)
    return re.findall(r"^  ([a-z][a-z-]*)", listed[1], re.MULTILINE) if listed else []


@functools.cache
def said(leeway: str, *words: str) -> str:
    return subprocess.run([leeway, *words], capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main())
