"""The notebooks run, draw, and have their pages in the book; they are kept without what they print."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import leeway

TOP = Path(__file__).parents[2]
FOLDER = TOP / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(leeway.__file__).parents[1]))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path: Path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": FOLDER}}).execute()
    pages = [output.get("data", {}).get("text/html", "") for cell in code for output in cell.outputs]
    assert any("leeway-figure" in page for page in pages)
    assert not [output for cell in code for output in cell.outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_book_has_a_page_of_each_notebook(path: Path):
    assert f"notebooks/{path.stem}.md" in (TOP / "mkdocs.yml").read_text(encoding="utf-8")
    assert f'"{path.stem}"' in (TOP / "tools/book/notebooks.py").read_text(encoding="utf-8")
    first = nbformat.read(path, as_version=4).cells[0].source.split("\n\n")
    assert first[0].startswith("# ") and len(first) > 1, "the gallery shows the title and the first paragraph"


def converted(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOP / "tools/book/notebook_page.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)


def test_a_page_of_the_book_keeps_text_tables_and_figures(tmp_path: Path):
    cells = [
        new_markdown_cell("# A title\n\nWhat it is."),
        new_code_cell("print('said')"),
        new_code_cell("import leeway\nscenario = leeway.Scenario.load('../home-backup.toml')\nscenario"),
        new_code_cell("leeway.run(scenario).plot(['queue'])"),
    ]
    path = tmp_path / "one.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    page = converted(path)
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith("# A title") and "    said" in page.stdout
    assert page.stdout.count('<div class="output">') == 2 and "<td" in page.stdout
    assert "<svg" in page.stdout and "currentColor" in page.stdout and "image/png" not in page.stdout


def test_a_notebook_that_fails_makes_no_page(tmp_path: Path):
    path = tmp_path / "wrong.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    page = converted(path)
    assert page.returncode != 0 and "ZeroDivisionError" in page.stderr
