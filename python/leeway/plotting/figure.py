"""A figure of matplotlib that a notebook shows in the colours of its page."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from matplotlib.backends.backend_agg import FigureCanvasAgg

from leeway.lab import figures

DARK_PAGES = (
    'html[theme="dark"]',
    '[data-theme="dark"]',
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    '[data-md-color-scheme="slate"]',
)
"""How JupyterLab, VS Code, Colab and the book say that their page is dark."""


class Figure(figures.Sheet):
    """A figure of matplotlib that a notebook shows in the colours of its page.

    Parameters
    ----------
    caption
        What there is to see, for those who cannot see it.
    dark
        Whether the ground is dark, everywhere.
    size
        Width and height in inches.
    """

    def __init__(self, caption: str, dark: bool, size: tuple[float, float]):
        super().__init__(figsize=size, layout="constrained")
        FigureCanvasAgg(self)
        self._caption, self._is_dark = caption, dark

    def _repr_html_(self) -> str:
        drawing = figures.Drawing.of(self, self._caption, self._is_dark)
        return f'<div class="leeway-figure">{drawing.svg()}</div>' if self._is_dark else html(drawing)


def html(drawing: figures.Drawing) -> str:
    """A drawing for a notebook, in the colours of its page."""
    prefix = f"f{zlib.crc32(drawing.inline('').encode()):08x}-"  # ids of several figures of a page differ
    return f'<div class="leeway-figure"><style>{_STYLE}</style>{drawing.inline(prefix)}</div>'


def _style() -> str:
    """Colours of figures for light and dark pages."""

    def rule(selectors: Iterable[str], colours: Sequence[str], line: str) -> str:
        values = [f"--line:{line}", *(f"--c{i}:{colour}" for i, colour in enumerate(colours))]
        return f"{','.join(selectors)}{{{';'.join(values)}}}"

    own = ".leeway-figure"
    return (
        f"{own} svg{{max-width:100%;height:auto}}"
        + rule([own], figures.LIGHT, figures.GRID)
        + rule([f"{page} {own}" for page in DARK_PAGES], figures.DARK, figures.DARK_GRID)
    )


_STYLE = _style()


def check_known(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    """Raises a `ValueError` for a name that does not exist, with those that do."""
    for each in asked:
        if each not in known:
            near = get_close_matches(each, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"there is no {what} {each!r}; {hint}there are: {', '.join(known) or 'none'}")
