"""Figures as SVG and PNG."""

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image

from leeway.lab import figures
from leeway.lab.experiment import Figure

SVG = "{http://www.w3.org/2000/svg}"


def figure_of(draw, name="fig1", caption="Caption <&>") -> Figure:
    return Figure(name, caption, draw)


def lines(canvas):
    axes = canvas.subplots()
    axes.plot([0, 1, 2], [0, 1, 4], label=r"target $\tau_0$ = 25 ms")
    axes.plot([0, 1, 2], [1, 1, 1], color="black")
    axes.set_xlabel("time <s> & more")
    axes.legend()


def inline(figure, prefix="a-"):
    return figures.Drawing(figure).inline(prefix)


def texts(svg):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_has_real_text_and_a_name():
    svg = figures.svg(figure_of(lines))
    assert "time <s> & more" in texts(svg)
    assert ElementTree.fromstring(svg).get("aria-label") == "Caption <&>"
    assert "http" not in re.sub('xmlns(:xlink)?="[^"]*"', "", svg)


def test_letters_of_a_formula_flow_in_reading_order():
    assert "target τ0 = 25 ms" in texts(figures.svg(figure_of(lines)))


def test_bars_of_fractions_keep_their_places():
    def fraction(canvas):
        canvas.text(0.1, 0.1, r"$\frac{B}{\tau}$")

    (text,) = ElementTree.fromstring(figures.svg(figure_of(fraction))).iter(f"{SVG}text")
    assert all(span.get("x") and span.get("y") for span in text)


def test_same_figure_same_bytes():
    one, two = (figure_of(lines) for _ in range(2))
    assert figures.svg(one) == figures.svg(two)
    assert figures.png(one) == figures.png(two)
    assert inline(one) == inline(two)


def test_one_drawing_gives_what_three_give():
    figure = figure_of(lines)
    drawing = figures.Drawing(figure)
    assert (drawing.inline("a-"), drawing.svg(), drawing.png()) == (
        inline(figure),
        figures.svg(figure),
        figures.png(figure),
    )


def test_file_is_on_white_and_page_on_what_it_is():
    figure = figure_of(lambda canvas: None)
    assert "#ffffff" in figures.svg(figure)
    assert "--card" not in inline(figure)


def test_file_has_plain_colours_and_page_has_those_of_the_page():
    figure = figure_of(lines)
    assert "var(" not in figures.svg(figure)
    svg = inline(figure)
    assert "stroke: var(--c0, #0072b2)" in svg
    assert "stroke: currentColor" in svg
    assert not re.search("(?<!, )#(1c2321|000000|ffffff|0072b2)", svg)


def test_every_colour_of_the_cycle_has_its_variable():
    def cycle(canvas):
        axes = canvas.subplots()
        for i in range(8):
            axes.plot([0, 1], [i, i])

    svg = inline(figure_of(cycle))
    assert [f"var(--c{i}, {colour})" in svg for i, colour in enumerate(figures.LIGHT)] == [True] * 8


def test_ids_begin_with_the_prefix_and_all_are_used():
    svg = inline(figure_of(lines), "here-")
    ids = set(re.findall(r'\bid="([^"]*)"', svg))
    used = set(re.findall(r"url\(#([^)]*)\)", svg)) | set(re.findall(r'href="#([^"]*)"', svg))
    assert ids == used
    assert ids and all(name.startswith("here-") for name in ids)


@pytest.mark.parametrize(
    "draw",
    [
        lambda canvas: canvas.subplots().scatter(*np.random.default_rng(1).random((2, 8_000)), s=1),
        lambda canvas: canvas.subplots().pcolormesh(np.random.default_rng(1).random((200, 200))),
        lambda canvas: canvas.subplots().plot(np.random.default_rng(1).normal(size=60_000).cumsum()),
        lambda canvas: canvas.subplots().plot(np.random.default_rng(1).random(8_000), "."),
    ],
    ids=["scatter", "mesh", "line", "markers"],
)
def test_what_is_dense_becomes_an_image_and_its_axes_stay_text(draw):
    svg = figures.svg(figure_of(draw))
    assert "data:image/png;base64," in svg
    assert len(texts(svg)) > 8
    assert len(svg) < 500_000


def test_layout_needs_no_asking_and_bears_it():
    def asked(canvas):
        axes = canvas.subplots()
        canvas.colorbar(axes.pcolormesh([[1, 2], [3, 4]]))
        canvas.tight_layout(rect=(0, 0.25, 1, 1))

    pixels = image.imread(io.BytesIO(figures.png(figure_of(asked), dpi=50)))
    lowest = max(np.flatnonzero((pixels[:, :, :3] < 0.9).any(axis=(1, 2)))) / len(pixels)
    assert 0.6 < lowest <= 0.75


def test_what_is_not_dense_stays_lines():
    assert "<image" not in figures.svg(figure_of(lambda canvas: canvas.subplots().plot(np.sin(np.arange(5000) / 100))))


def test_png_has_the_size_asked_for():
    pixels = image.imread(io.BytesIO(figures.png(figure_of(lines), dpi=100)))
    assert pixels.shape[:2] == (420, 700)
    assert pixels[0, 0, :3].tolist() == [1, 1, 1]


def test_dark_png_is_dark():
    pixels = image.imread(io.BytesIO(figures.png(figure_of(lines), dpi=50, dark=True)))
    assert pixels[0, 0, :3].max() < 0.2


def test_settings_of_matplotlib_come_back():
    before = dict(mpl.rcParams)
    with mpl.rc_context({"font.size": 33}):
        figures.svg(figure_of(lines))
        assert mpl.rcParams["font.size"] == 33
    with pytest.raises(ZeroDivisionError):
        figures.svg(figure_of(lambda canvas: 1 / 0))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(("colours", "paper"), [(figures.LIGHT, "#ffffff"), (figures.DARK, "#1b211f")])
def test_colours_of_data_stand_out(colours, paper):
    """At least 2.4 to 1; WCAG asks 3 to 1 of a line that nothing but its colour tells apart."""
    contrast = {colour: _contrast(colour, paper) for colour in colours}
    assert min(contrast.values()) > 2.4, contrast


def _contrast(one: str, two: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)
