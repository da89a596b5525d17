"""The first page of the documents, and the page of the package: their Python runs in a checkout."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_python_of_the_first_page_runs(monkeypatch, capfd):
    (block,) = re.findall(r"^```python\n(.*?)^```$", (TOP / "docs/README.md").read_text(encoding="utf-8"), re.M | re.S)
    monkeypatch.chdir(TOP)
    exec(compile(block, "docs/README.md", "exec"), {})
    lines = capfd.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == ["cubic", "ledbat:target=25ms", "flower"]
    scores = [float(line.rsplit(" ", 1)[1]) for line in lines]
    assert scores[0] < min(scores[1:]), "a call beside CUBIC is the worst"


def test_the_python_of_the_packages_page_runs(monkeypatch, tmp_path):
    page = (TOP / "python/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(
            compile(block.replace("seeds=30", "seeds=2").replace("range(1, 31)", "range(1, 3)"), "page", "exec"), names
        )
    assert names["table"].num_rows == 12 and (tmp_path / "harm.png").stat().st_size > 10_000
    assert names["law"].name == "flower"
