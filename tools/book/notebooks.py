"""Pages of the book that are made of notebooks: their text, their code and, where they can be run, their outputs.

`LEEWAY_PYTHON` names the Python that runs them, such as target/python/bin/python, which `make test` installs. Without
it a page has no outputs and says so.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "target" / "notebooks"
RUN = """
import json, sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
print(nbformat.writes(notebook))
"""


def page(file: Path) -> str:
    """A notebook as Markdown."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    python = os.environ.get("LEEWAY_PYTHON")
    if python:
        notebook = executed(file, python)
    name = file.relative_to(ROOT)
    lines = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        lines += [source, ""] if cell["cell_type"] == "markdown" else ["```python", source, "```", ""]
        for output in cell.get("outputs", []):
            lines += shown(output)
    note = "" if python else " The outputs are missing here, because this page was built without `LEEWAY_PYTHON`."
    return "\n".join([*lines, f"*This page is the notebook [{name}](../../{name}).{note}*", ""])


def executed(file: Path, python: str) -> dict[str, Any]:
    """A notebook with its outputs: kept under its text and the version of the engine, so that it runs once for each."""
    engine = said(python, "-c", "import leeway; print(leeway.ENGINE)")
    key = hashlib.sha256(file.read_bytes() + engine.encode()).hexdigest()[:16]
    kept = KEPT / f"{file.stem}-{key}.ipynb"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(said(python, "-c", RUN, str(file)), encoding="utf-8")
    return json.loads(kept.read_text(encoding="utf-8"))


def shown(output: dict[str, Any]) -> list[str]:
    """One output of a cell: a picture where there is one, otherwise its text."""
    if output["output_type"] == "error":
        raise RuntimeError(f"a notebook fails: {output['ename']}: {output['evalue']}")
    data = output.get("data", {})
    if "image/png" in data:
        return [f'<img alt="Output of the cell above" src="data:image/png;base64,{data["image/png"].strip()}">', ""]
    text = "".join(output.get("text", data.get("text/plain", "")))
    return ["```text", text.rstrip("\n"), "```", ""] if text.strip() else []


def said(python: str, *words: str) -> str:
    done = subprocess.run([python, *words], check=False, capture_output=True, text=True, cwd=ROOT, timeout=180)
    if done.returncode:
        hint = "`tools/setup.sh python` builds the lab anew"
        raise RuntimeError(f"{done.stderr[-2000:]}\nrunning a notebook failed; {hint}")
    return done.stdout
