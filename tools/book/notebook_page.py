"""Runs a notebook and prints it as Markdown with its outputs; in the Python that the lab is installed in.

usage: notebook_page.py NOTEBOOK

nbconvert converts it. Tables and figures keep their HTML, which the book shows in the colours of its page.
"""

import sys

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

TEMPLATE = """{% extends 'markdown/index.md.j2' %}
{% block data_html %}
<div class="output">
{{ output.data['text/html'] }}
</div>
{% endblock %}
"""
BEST_FIRST = ["text/html", "image/svg+xml", "image/png", "text/plain"]


def main() -> None:
    notebook = nbformat.read(sys.argv[1], as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    config = Config({"NbConvertBase": {"display_data_priority": BEST_FIRST}})
    text, _ = MarkdownExporter(raw_template=TEMPLATE, config=config).from_notebook_node(notebook)
    print(text)


main()
