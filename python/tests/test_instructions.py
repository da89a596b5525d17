"""The gate of instruction counts: what it lets through, what it stops."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("instructions", ROOT / "tools" / "instructions.py")
assert SPEC and SPEC.loader
instructions = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(instructions)


@pytest.mark.parametrize(
    ("now", "code", "says"),
    [
        ({"queue": 1000, "law": 105}, 0, "clean"),
        ({"queue": 1000, "law": 106}, 1, "more than 5 % above the baseline"),
        ({"queue": 900, "law": 100}, 0, "better: --write keeps it"),
        ({"queue": 1000}, 1, "law: not in the benchmarks"),
        ({"queue": 1000, "law": 100, "codec": 1}, 1, "codec: not in the baseline"),
    ],
)
def test_counts_beside_the_baseline(now, code, says, capsys):
    assert instructions.judge({"queue": 1000, "law": 100}, now) == code
    assert says in capsys.readouterr().out


def test_another_compiler_compares_nothing_and_says_so(tmp_path, monkeypatch, capsys):
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"compilers": {"rustc": "rustc 1.0.0", "cc": "cc 1"}, "counts": {"law": 1}}))
    monkeypatch.setattr(instructions, "BASELINE", baseline)
    monkeypatch.setattr(instructions, "count", lambda: {"law": 1000})
    monkeypatch.setattr(instructions, "first_line", lambda *command: f"{command[0]} 2")
    monkeypatch.setattr(instructions.sys, "argv", ["instructions.py"])
    assert instructions.main() == 0
    said = capsys.readouterr().out
    assert "not compared" in said and "rustc 1.0.0" in said and "1,000 law" in said
