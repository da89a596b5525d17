"""What MkDocs does beyond its plugins when it builds the book: generated pages, folders in the navigation, and links
that leave docs/.

`LEEWAY` names the program whose help and schema become pages; target/debug/leeway otherwise. `LEEWAY_PYTHON` names the
Python that runs the notebooks; target/python/bin/python otherwise.
"""

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import notebooks
import reference

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
# Pages of the book that are written elsewhere in the checkout, beside what they are about.
BORROWED = {
    "python.md": "python/README.md",
    "c-library.md": "control/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}


def on_config(config: Any) -> Any:
    """An entry `folder/*` of the navigation stands for the folder's README and then each of its pages by name."""

    def expanded(entry: Any) -> Any:
        if isinstance(entry, list):
            return [expanded(item) for item in entry]
        if isinstance(entry, dict):
            return {title: expanded(inside) for title, inside in entry.items()}
        if not entry.endswith("/*"):
            return entry
        folder = Path(config["docs_dir"]) / entry[:-2]
        pages = sorted(page for page in folder.glob("*.md") if page.name != "README.md")
        return [f"{folder.name}/README.md", *({page.stem: f"{folder.name}/{page.name}"} for page in pages)]

    config["nav"] = expanded(config["nav"])
    return config


def on_files(files: Files, config: Any) -> Files:
    program = os.environ.get("LEEWAY", str(ROOT / "target/debug/leeway"))
    pages = {
        "reference/cli.md": reference.command_line(program),
        "reference/scenario.md": reference.scenario_fields(program),
        "reference/gateway.md": reference.gateway_configuration(ROOT / "packaging/gateway.toml"),
        **notebooks.pages(),
        **{page: (ROOT / source).read_text(encoding="utf-8") for page, source in BORROWED.items()},
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Leads links to other pages of the book, or where there is no such page to the repository."""
    here = page.file.src_uri
    source = BORROWED.get(here, f"docs/{here}")
    pages = {borrowed: name for name, borrowed in BORROWED.items()} | {"examples/notebooks": "notebooks/README.md"}

    def led(match: re.Match[str]) -> str:
        before, link, anchor, after = match.groups(default="")
        if "://" in link or link.startswith("mailto:"):
            return match.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        name = pages.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not name:
            kind = "tree" if (ROOT / target).is_dir() else "blob"
            return f"{before}{config['repo_url']}/{kind}/main/{target}{anchor}{after}"
        return f"{before}{posixpath.relpath(name, posixpath.dirname(here) or '.')}{anchor}{after}"

    pieces, at = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [LINK.sub(led, markdown[at : fence.start()]), fence.group()]
        at = fence.end()
    return "".join([*pieces, LINK.sub(led, markdown[at:])])
