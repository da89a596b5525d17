"""Checks that relative links and images in Markdown files lead somewhere, headings included."""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
ELSEWHERE = ("http:", "https:", "mailto:")


def main() -> int:
    broken = [line for file in markdown_files() for line in broken_links(file)]
    print("\n".join(broken), end="\n" if broken else "", file=sys.stderr)
    return 1 if broken else 0


def markdown_files() -> list[Path]:
    # A checkout may belong to another user than the one who runs this.
    safe = f"safe.directory={Path.cwd()}"
    command = [
        "git",
        "-c",
        safe,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.md",
    ]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [Path(name) for name in names if name and Path(name).exists()]


def broken_links(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    prose = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    problems = []
    for match in LINK.finditer(prose):
        link = match.group(1)
        if link.startswith(ELSEWHERE):
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        place = f"{file}:{prose.count(chr(10), 0, match.start()) + 1}"
        if not target.exists():
            problems.append(f"{place}: {link} leads nowhere")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            problems.append(f"{place}: {path or file.name} has no heading #{anchor}")
    return problems


def anchors(file: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    prose = FENCE.sub("", file.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in HEADING.findall(prose)}


if __name__ == "__main__":
    sys.exit(main())
