"""Draws figures: one style for all of them, as SVG with real text and as PNG.

A figure is drawn once. In the report and in a notebook its SVG has the colours of the page, light
or dark. In a file it is an ordinary SVG on white, for any viewer. The bytes depend on the figure
alone.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from typing import Any, Self
from xml.etree import ElementTree

import matplotlib as mpl
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from leeway.lab.experiment import Figure

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b8559b", "#8a6d00", "#3aa0d8", "#7a5195", "#6b7470")
"""Colours of data on a light background, in the order of use; distinct with any colour vision."""
DARK = ("#56b4e9", "#f0894d", "#3fcb9e", "#dd8fc6", "#e0c04a", "#9ad4f5", "#b89be0", "#a5b0ab")
"""Colours of data on a dark background."""

INK, PAPER, GRID = "#1c2321", "#ffffff", "#dfe4e1"
DARK_INK, DARK_PAPER, DARK_GRID = "#e4eae7", "#1b211f", "#303836"

_THEMED = {
    INK: "currentColor",
    "#000000": "currentColor",
    PAPER: f"var(--card, {PAPER})",
    GRID: f"var(--line, {GRID})",
    **{colour: f"var(--c{i}, {colour})" for i, colour in enumerate(LIGHT)},
}

_DENSE_LINE = 50_000
_DENSE_SCATTER = 3_000
_DENSE_MESH = 400

_GROUND = "ground"
_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT = "system-ui, 'DejaVu Sans', Verdana, Arial, sans-serif"
ElementTree.register_namespace("", _SVG)


def svg(figure: Figure) -> str:
    """The figure as the text of an SVG file, on white."""
    return Drawing(figure).svg()


def png(figure: Figure, dpi: float = 144, dark: bool = False) -> bytes:
    """The figure as a PNG image.

    Parameters
    ----------
    dpi
        Pixels an inch.
    dark
        On a dark background.
    """
    return Drawing(figure, dark).png(dpi)


@contextmanager
def style(dark: bool = False) -> Iterator[None]:
    """Settings of matplotlib for drawing and for writing files; the earlier settings return
    afterwards."""
    ink, paper, grid = (DARK_INK, DARK_PAPER, DARK_GRID) if dark else (INK, PAPER, GRID)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "axes.axisbelow": True,
                "axes.edgecolor": ink,
                "axes.facecolor": "none",
                "axes.grid": True,
                "axes.labelcolor": ink,
                "axes.linewidth": 0.8,
                "axes.prop_cycle": cycler(color=DARK if dark else LIGHT),
                "axes.spines.right": False,
                "axes.spines.top": False,
                "axes.titlecolor": ink,
                "axes.titlelocation": "left",
                "axes.titlesize": "medium",
                "boxplot.flierprops.color": ink,
                "figure.constrained_layout.h_pad": 0.06,
                "figure.constrained_layout.hspace": 0.04,
                "figure.constrained_layout.w_pad": 0.06,
                "figure.constrained_layout.wspace": 0.04,
                "figure.edgecolor": paper,
                "figure.facecolor": paper,
                "font.size": 10,
                "grid.color": grid,
                "grid.linewidth": 0.7,
                "hatch.color": ink,
                "legend.edgecolor": grid,
                "legend.facecolor": paper,
                "legend.fontsize": "small",
                "legend.framealpha": 0.85,
                "lines.linewidth": 1.5,
                "lines.markersize": 4.5,
                "patch.edgecolor": ink,
                "patch.linewidth": 0.5,
                "savefig.facecolor": paper,
                "svg.fonttype": "none",
                "svg.hashsalt": "leeway",
                "text.color": ink,
                "xtick.color": ink,
                "ytick.color": ink,
            }
        )
        yield


class Drawing:
    """A drawn figure, for several kinds of files.

    Parameters
    ----------
    figure
        What to draw.
    dark
        On a dark background.
    """

    def __init__(self, figure: Figure, dark: bool = False):
        with style(dark):
            sheet = Sheet(figsize=figure.size, layout="constrained")
            FigureCanvasAgg(sheet)
            figure.draw(sheet)
            self._take(sheet, figure.caption or figure.name, dark)
            sheet.draw_without_rendering()
            sheet.set_layout_engine("none")

    @classmethod
    def of(cls, canvas: Canvas, caption: str, dark: bool = False) -> Self:
        """A canvas that is drawn already, in the style of this module."""
        drawing = cls.__new__(cls)
        drawing._take(canvas, caption, dark)
        return drawing

    def _take(self, canvas: Canvas, caption: str, dark: bool) -> None:
        self._canvas, self._caption, self._dark = canvas, caption, dark
        for artist in canvas.findobj():
            if _dense(artist):
                artist.set_rasterized(True)
        canvas.patch.set_gid(_GROUND)

    def svg(self) -> str:
        """The text of an SVG file, on white."""
        root = copy.deepcopy(self._tree)
        _rename(root, "")
        return _text(root)

    def inline(self, prefix: str) -> str:
        """An SVG element for a page, in the page's colours (``--card``, ``--line``, ``--c0`` to
        ``--c7``).

        Parameters
        ----------
        prefix
            Beginning of every id, so that two figures of a page have no id in common.
        """
        root = copy.deepcopy(self._tree)
        root.set("fill", "currentColor")
        for element in root.iter():
            for ground in [child for child in element if child.get("id") == _GROUND]:
                element.remove(ground)
            for name in ("style", "fill", "stroke"):
                if value := element.get(name):
                    element.set(name, re.sub("#[0-9a-f]{6}", lambda found: _THEMED.get(found[0], found[0]), value))
        _rename(root, prefix)
        return _text(root)

    def png(self, dpi: float = 144) -> bytes:
        """A PNG image with `dpi` pixels an inch."""
        file = io.BytesIO()
        with style(self._dark):
            self._canvas.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
        return file.getvalue()

    @cached_property
    def _tree(self) -> ElementTree.Element:
        """The SVG of matplotlib without what a reader does not need, and with a name."""
        file = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with style(self._dark):
            self._canvas.savefig(file, format="svg", dpi=144, metadata=nothing)
        root = ElementTree.fromstring(file.getvalue())
        for parent in list(root.iter()):
            for child in list(parent):
                if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                    parent.remove(child)
        for element in root.iter():
            _clean(element)
            _flow(element)
        root.attrib |= {
            "role": "img",
            "aria-label": self._caption,
            "font-family": _FONT,
            "stroke-linejoin": "round",
            "stroke-linecap": "butt",
        }
        return root


class Sheet(Canvas):
    """A canvas that lays itself out, colour bars and titles included."""

    def tight_layout(self, *, rect: tuple[float, float, float, float] | None = None, **_: Any) -> None:
        """Keeps what is laid out within `rect` (left, bottom, right, top); the rest is done
        anyway."""
        if rect:
            left, bottom, right, top = rect
            self.set_layout_engine("constrained", rect=(left, bottom, right - left, top - bottom))


def _dense(artist: Any) -> bool:
    """Whether an artist has so many parts that an image of it is smaller; its axes and text stay
    as they are."""
    match artist:
        case QuadMesh():
            return artist.get_array() is not None and artist.get_array().size > _DENSE_MESH
        case PathCollection():
            return len(artist.get_offsets()) > _DENSE_SCATTER
        case Line2D():
            markers = artist.get_marker() not in ("", " ", "None", "none", None) and artist.get_markevery() is None
            return len(artist.get_xdata(orig=False)) > (_DENSE_SCATTER if markers else _DENSE_LINE)
    return False


def _clean(element: ElementTree.Element) -> None:
    """Shortens coordinates to a hundredth of a point; leaves the choice of the font to the whole
    figure."""
    if _HREF in element.attrib:
        element.set("href", element.attrib.pop(_HREF))
    if path := element.get("d"):
        element.set("d", re.sub(r"\s+", " ", re.sub(r"-?\d+\.\d+", lambda x: _short(x[0]), path)).strip())
    for name in ("x", "y"):
        if value := element.get(name):
            element.set(name, re.sub(r"-?\d+\.\d+", lambda x: _short(x[0]), value))
    if css := element.get("style"):
        element.set("style", re.sub(r"font-family: [^;]*(; |$)", "", css).removesuffix("; "))
    for text in ("text", "tail"):
        if not (getattr(element, text) or "").strip() and element.tag != f"{{{_SVG}}}tspan":
            setattr(element, text, None)


def _short(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")


def _flow(group: ElementTree.Element) -> None:
    """Lets the letters of a formula flow: they come one by one, each in its place for a font the
    reader may not have.

    Formulas with bars (fractions and roots) are left as they are.
    """
    texts = [element for element in group if element.tag == f"{{{_SVG}}}text" and len(element)]
    if len(texts) != 1 or len(texts) != len(group):
        return
    letters = []
    for span in texts[0]:
        places = (span.get("x") or "0").split()
        letters += [
            (float(places[min(i, len(places) - 1)]), span.get("y", "0"), span.get("style", ""), letter)
            for i, letter in enumerate(span.text or "")
        ]
    letters.sort(key=lambda letter: letter[0])
    texts[0][:] = []
    texts[0].set("style", "white-space: pre")
    for (y, css), run in groupby(letters, key=lambda letter: letter[1:3]):
        span = ElementTree.SubElement(texts[0], f"{{{_SVG}}}tspan", {"y": y, "style": css})
        if len(texts[0]) == 1:
            span.set("x", "0")
        span.text = "".join(letter for *_, letter in run).replace("\N{NO-BREAK SPACE}", " ")


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Drops ids that nothing refers to; puts the prefix before the others."""
    used = set()
    for element in root.iter():
        for value in element.attrib.values():
            used.update(re.findall(r"url\(#([^)]+)\)", value))
        if element.get("href", "").startswith("#"):
            used.add(element.get("href", "")[1:])
    for element in root.iter():
        if "id" in element.attrib:
            name = element.attrib.pop("id")
            if name in used:
                element.set("id", prefix + name)
        for name, value in element.attrib.items():
            if name == "href" and value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}"))


def _text(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding="unicode")
