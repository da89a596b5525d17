"""tools/results.py: the page of results says how much was run."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "results.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_page", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("setting", "words", "command"),
    [
        ({"full": True}, "at full size", "make results"),
        ({}, "in the short form: a small part of each grid that shows the same", 'make results SIZE=""'),
        (
            {"full": True, "seed_count": 2, "sample": 16},
            "at full size, 16 runs of the very large grids and as many networks of the boards, 2 seeds for each case",
            'make results SIZE="--full --seeds 2 --sample 16"',
        ),
    ],
)
def test_the_page_says_how_much_was_run(tool, tmp_path, monkeypatch, setting, words, command):
    setting = {"full": False, "seed_count": None, "sample": None} | setting
    claim = {"text": "it rains", "published": "yes", "found": "no", "verdict": "undecided", "cause": None, "why": ""}
    one = {"title": "Rain", "runs": 3, "simulated_s": 3600.0, "setting": setting, "claims": [claim], "tables": []}
    board = one | {"id": "scoreboard:all", "kind": "scoreboard", "tables": [{"caption": "", "columns": [], "rows": []}]}
    report = {
        "context": {"engine": "1.2.3+abc", "machine": "a machine"},
        "counts": {"undecided": 1},
        "experiments": [board, one | {"id": "rossi2010:rain", "kind": "paper"}],
    }
    (tmp_path / "claims.json").write_text(json.dumps(report))
    (tmp_path / "scoreboard.md").write_text("before\n<!-- made by tools/results.py -->\n\nold\n\n<!-- end -->\nafter\n")
    monkeypatch.setattr("sys.argv", ["results.py", str(tmp_path), str(tmp_path)])
    tool.main()
    page = (tmp_path / "results.md").read_text()
    assert f"of swarms and of communities, {words}. " in " ".join(page.split())
    assert f"\n{command}\n" in page
    assert "Engine 1.2.3+abc; a machine." in page
    assert "| ? | it rains | yes | no |" in page
    stamp = (tmp_path / "scoreboard.md").read_text()
    assert stamp == "before\n<!-- made by tools/results.py -->\n\nEngine 1.2.3+abc, 3 runs.\n\n<!-- end -->\nafter\n"
