"""The report: all experiments with their claims, figures and tables, as one HTML page, as Markdown
and as JSON.

>>> from leeway.lab.report import Context, write
>>> page = write(finished, Path("out/report"), Context.here("leeway-lab report --full", wall_s=5400))

writes ``report.html``, a page without other files, ``report.md`` with its pictures in ``figures``,
and ``claims.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leeway.lab.driver import Finished
from leeway.lab.report import files, html, markdown, records
from leeway.lab.report.context import Context
from leeway.lab.report.model import build

__all__ = ["Context", "write"]


def write(finished: Sequence[Finished], out: Path, context: Context) -> Path:
    """Writes the report on finished experiments.

    Parameters
    ----------
    finished
        The experiments, in the order of the papers.
    out
        Folder to write to, which is made if it does not exist. An older report and its figures are
        replaced.
    context
        Place, time and versions of the runs.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    OSError
        If a file cannot be written. Each file is written whole or not at all, the page last.
    """
    out = Path(out)
    files.prepare(out / "figures")
    report = build(finished, context)
    before = records.figures(out / "claims.json")
    for picture in report.pictures:
        files.write(out / "figures" / f"{picture.name}.svg", picture.file)
        files.write(out / "figures" / f"{picture.name}.png", picture.png)
    files.write(out / "claims.json", records.render(report))
    files.write(out / "report.md", markdown.render(report))
    page = out / "report.html"
    files.write(page, html.render(report))
    for name in before - {picture.name for picture in report.pictures}:
        for end in (".svg", ".png"):
            (out / "figures" / f"{name}{end}").unlink(missing_ok=True)
    return page
