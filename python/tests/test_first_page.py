"""The first page of the documents: its Python runs in a checkout, as the page promises."""

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
