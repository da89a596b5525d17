"""The page on the lab: its experiment runs, and the commands that it shows exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from leeway.lab import arguments
from leeway.lab.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    (text,) = blocks("python")
    path = tmp_path / "voice.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_experiment_of_the_page_runs(voice, tmp_path, capfd):
    place = ["--load", str(voice), "--cache", str(tmp_path / "results.sqlite")]
    assert main(["run", "home:voice", *place, "--out", str(tmp_path / "results")]) == 0
    out = capfd.readouterr().out
    assert "holds     CUBIC spoils a call the most" in out
    assert "12 runs over 3 seeds" in out
    assert (tmp_path / "results" / "home" / "voice" / "scores.svg").exists()
    assert main(["report", "home", *place, "--out", str(tmp_path / "report")]) == 0
    assert "12 runs (12 from the cache)" in capfd.readouterr().out
    assert "A telephone call beside a backup" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_the_commands_of_the_page_are_understood():
    commands = [
        line.split("#")[0] for block in blocks("") for line in block.splitlines() if line.startswith("leeway-lab")
    ]
    names = ("list", "run", "sweep", "report", "cache")
    parser = arguments.parser(dict.fromkeys(names, print))
    parsed = [parser.parse_args(shlex.split(command)[1:]) for command in commands]
    assert {each.command for each in parsed} == set(names)
    assert len(parsed) >= 15


def test_the_help_shows_commands_that_are_understood():
    parser = arguments.parser(dict.fromkeys(("list", "run", "sweep", "report", "cache"), print))
    lines = [line.strip() for line in arguments.EXAMPLES.splitlines() if "leeway-lab" in line]
    for line in lines:
        assert parser.parse_args(shlex.split(re.split(r"  +", line)[0])[1:]).command
    assert len(lines) >= 5
