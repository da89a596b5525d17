"""Pages of the book that are made of notebooks, with what their cells print and draw, and a gallery of them.

`LEEWAY_PYTHON` names the Python that runs them; otherwise it is target/python/bin/python, which `tools/setup.sh python`
makes.
"""

import hashlib
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "examples" / "notebooks"
KEPT = ROOT / "target" / "notebooks"
CONVERT = Path(__file__).parent / "notebook_page.py"
FIGURE = re.compile(r'<div class="leeway-figure">.*?</svg></div>', re.DOTALL)
ORDER = ("first-steps", "sweep", "home-uplink", "inside-flower", "published-figure")
"""From the first one that a reader needs."""


def pages() -> dict[str, str]:
    """Pages by name: the gallery, and each notebook as Markdown."""
    files = {file.stem: file for file in FOLDER.glob("*.ipynb")}
    if set(files) != set(ORDER):
        raise RuntimeError(f"the gallery has {', '.join(ORDER)}, the folder of notebooks {', '.join(sorted(files))}")
    converted = {stem: page(files[stem]) for stem in ORDER}
    return {
        "notebooks/README.md": gallery(converted),
        **{f"notebooks/{stem}.md": text for stem, text in converted.items()},
    }


def page(file: Path) -> str:
    """A notebook as Markdown: kept under all that it depends on, so that it runs once for each."""
    python = os.environ.get("LEEWAY_PYTHON", str(ROOT / "target/python/bin/python"))
    digest = hashlib.sha256(said(python, "-c", "import leeway; print(leeway.ENGINE)").encode())
    for source in [file, CONVERT, *sorted((ROOT / "python/leeway").rglob("*.py"))]:
        digest.update(source.read_bytes())
    kept = KEPT / f"{file.stem}-{digest.hexdigest()[:16]}.md"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(said(python, str(CONVERT), str(file)), encoding="utf-8")
    name = file.relative_to(ROOT)
    return f"{kept.read_text(encoding='utf-8').strip()}\n\n*This page is the notebook [{name}](../../{name}).*\n"


def gallery(pages: dict[str, str]) -> str:
    """A page with the title, the first paragraph and the first figure of each notebook."""
    lines = [
        "# Notebooks",
        "",
        "For researchers who use Leeway from Python. Each page is a notebook that ran when the book was built.",
        "To change one, run `jupyter lab examples/notebooks` in a checkout with the",
        "[Python package](../../python/README.md).",
        "",
    ]
    for stem, text in pages.items():
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        about = next(part for part in text.split("\n\n") if part.strip() and not part.lstrip().startswith("#"))
        figure = FIGURE.search(text)
        if title is None:
            raise RuntimeError(f"the notebook {stem} has no title")
        lines += [f"## [{title[1]}]({stem}.md)", "", about.strip(), ""]
        lines += [f'<div class="output thumbnail">\n{figure[0]}\n</div>', ""] if figure else []
    return "\n".join(lines)


def said(python: str, *words: str) -> str:
    hint = "`tools/setup.sh python` builds the lab anew"
    try:
        done = subprocess.run([python, *words], check=False, capture_output=True, text=True, cwd=FOLDER, timeout=180)
    except FileNotFoundError:
        raise RuntimeError(f"there is no {python}; {hint}") from None
    if done.returncode:
        raise RuntimeError(f"{done.stderr[-2000:]}\nrunning a notebook failed; {hint}")
    return done.stdout
