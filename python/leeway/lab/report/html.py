"""The report as one HTML page without other files.

Jinja escapes everything that comes from an experiment; markdown-it reads descriptions and notes,
with raw HTML and images switched off.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from leeway.lab.report import words
from leeway.lab.report.model import Report, Standing

_GLUE = "\N{NO-BREAK SPACE}"
_UNITS = "s|ms|min|h|km|MHz|B|kB|MB|[kMG]?bit/s|[kMG]b/s|pkt|packets?|BDP|RTT|seeds?|runs?|flows?"
_markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["heading", "lheading", "image"])


def render(report: Report) -> str:
    """The text of the page."""
    return _environment().get_template("page.html").render(report=report, context=report.context, Standing=Standing)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "code": _code,
        "count": words.count,
        "command": words.command,
        "duration": words.duration,
        "paragraphs": _paragraphs,
        "size": words.size,
        "uri": lambda png: Markup("data:image/png;base64," + base64.b64encode(png).decode()),
        "verbatim": Markup,
    }
    return environment


def _code(text: str) -> Markup:
    """Plain text in which `code` may be marked with backticks."""
    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", _together(str(escape(text)))))


def _paragraphs(text: str) -> Markup:
    """Markdown."""
    return Markup(_together(_markdown.render(text)))


def _together(text: str) -> str:
    """Keeps a number on one line with its unit, and a mean with its interval."""
    text = re.sub(r" ± (?=\d)", f"{_GLUE}±{_GLUE}", text)
    text = re.sub(r"\(n = (\d+)\)", f"(n{_GLUE}={_GLUE}\\1)", text)
    return re.sub(rf"(?<=\d) (?=(?:{_UNITS})\b|%)", _GLUE, text)
