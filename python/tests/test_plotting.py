"""Figures of runs and sweeps: axes with units, legends, both themes, and errors that say what would be right."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import leeway
from leeway import Channel, Flow, Run, Scenario, Series, Sweep, _html, units
from leeway.lab import Case, Result, Results, figures
from leeway.plotting import runs, sweeps

VALUES = {"flow.backup.law": ["ledbat", "lp"], "dumbbell.bottleneck.buffer": ["10 pkt", "20 pkt", "80 pkt"]}


@pytest.fixture
def run(small: Scenario) -> Run:
    small.series, small.flow[1].start = Series(every="5 ms"), "1 s"
    small.flow.append(Flow(name="crowd", law="cubic", count=3))
    return leeway.run(small, 1)


@pytest.fixture(scope="module")
def swept() -> Sweep:
    scenario = Scenario.from_toml(
        """
        duration = "1 s"
        baseline = true
        flow = [{ name = "download" }, { name = "backup", role = "background" }]
        dumbbell.bottleneck = { rate = "2 Mbit/s", delay = "10 ms" }
        """
    )
    return leeway.sweep(scenario, VALUES, seeds=3)


def labels(figure) -> list[tuple[str, str]]:
    return [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]


def legend(figure) -> list[str]:
    return [text.get_text() for each in figure.legends for text in each.get_texts()]


def test_a_run_has_axes_with_units_and_a_legend(run: Run):
    figure = run.plot()
    assert labels(figure) == [("", "rate, Mbit/s"), ("", "window, pkt"), ("time, s", "queue of\nbottleneck, pkt")]
    assert legend(figure) == ["download, newreno", "backup, ledbat", "crowd, cubic"]
    assert [len(axes.lines) for axes in figure.axes] == [5, 5, 1]
    assert all(axes.get_ylim()[0] == 0 for axes in figure.axes)
    one = run.plot(["rtt", "delay"], groups=["backup"])
    assert labels(one) == [("", "smoothed RTT, ms"), ("time, s", "queuing delay, ms")]
    assert legend(one) == ["backup, ledbat"] and len(one.axes[0].lines) == 1
    assert legend(run.plot(["queue"])) == []


def test_links_are_told_apart(small: Scenario):
    small.series, small.dumbbell.reverse = Series(every="5 ms"), Channel(rate="1 Mbit/s", delay="10 ms")
    figure = leeway.run(small, 1).plot(["rate", "queue"])
    assert legend(figure)[2:] == ["queue of bottleneck", "queue of bottleneck (reverse)"]
    assert labels(figure)[1] == ("time, s", "queue, pkt") and len(figure.axes[1].lines) == 2
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1


def test_lines_are_the_series(run: Run):
    flows = run.flows.to_pandas()
    wanted = flows[flows.flow == "download"].cwnd_pkt.to_numpy()
    assert np.array_equal(run.plot(["window"]).axes[0].lines[0].get_ydata(), wanted)


def test_rates_are_means_that_keep_the_bytes(run: Run):
    line = run.plot(["rate"]).axes[0].lines[0]
    assert runs.BINS - 1 <= len(line.get_xdata()) <= runs.BINS
    late = run.plot(["rate"], groups=["backup"]).axes[0].lines[0]  # which starts later: its spans are as long
    assert len(late.get_xdata()) == pytest.approx(runs.BINS / 2, abs=1)
    assert np.diff(late.get_xdata()).mean() == pytest.approx(np.diff(line.get_xdata()).mean(), rel=0.02)
    mean = run.window().group("download").throughput_bps / 1e6
    assert np.mean(line.get_ydata()) == pytest.approx(mean, rel=0.03)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"panels": ["windw"]}, "there is no panel 'windw'; did you mean 'window'.* there are: rate, window"),
        ({"groups": ["bakup"]}, "there is no group 'bakup'; did you mean 'backup'"),
    ],
)
def test_a_wrong_panel_or_group_is_explained(run: Run, options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        run.plot(**options)


def test_a_run_without_series_says_how_to_have_some(small: Scenario):
    with pytest.raises(ValueError, match=r"no series to plot; .*series=Series\(every='20 ms'\)"):
        leeway.run(small, 1).plot()


def test_a_notebook_shows_the_colours_of_its_page(run: Run):
    page = run.plot()._repr_html_()
    assert "var(--c0, #0072b2)" in page and "currentColor" in page and "#ffffff" not in page
    assert '[data-jp-theme-light="false"] .leeway-figure' in page and figures.DARK[0] in page
    svg = ElementTree.fromstring(re.search("<svg.*</svg>", page, re.S)[0])
    assert svg.get("aria-label") == "rate and window and queue of download, backup, crowd over time"
    first, second = (set(re.findall(r'id="([^"]+)"', run.plot(panels)._repr_html_())) for panels in (["rate"], ["rtt"]))
    assert first and not first & second
    assert run.plot()._repr_html_() == page


def test_dark_is_dark_in_files_too(run: Run):
    light, dark = run.plot(), run.plot(dark=True)
    assert light.get_facecolor()[:3] == (1, 1, 1) and max(dark.get_facecolor()[:3]) < 0.2
    assert figures.DARK_PAPER in dark._repr_html_()
    # Colours are those of the style, although it is over when the file is written.
    assert [figure.axes[1].lines[0].get_color() for figure in (light, dark)] == [figures.LIGHT[0], figures.DARK[0]]


def test_a_sweep_plays_every_point_with_every_seed(swept: Sweep):
    assert len(swept) == 18 and repr(swept).startswith(
        "<Sweep of flow.backup.law and dumbbell.bottleneck.buffer: 6 points, 3 seeds, 18 runs>"
    )
    assert repr(swept[:1]).endswith(": 1 point, 1 seed, 1 run>")
    assert [each.seed for each in swept[:4]] == [1, 2, 3, 1]
    assert dict(swept[3].labels) == {"flow.backup.law": "ledbat", "dumbbell.bottleneck.buffer": "20 pkt"}
    assert swept[3].scenario.flow[1].law == "ledbat" and swept[3].scenario.sweep == {}
    assert swept[3].run() == leeway.run(swept[3].scenario, 1)
    table = swept.table().to_pandas()
    assert len(table) == 36 and set(VALUES) < set(table.columns)
    assert len(swept.where({"flow.backup.law": "lp"})) == 9
    with pytest.raises(KeyError, match=r"'flow.backup.count' was not swept; there are: flow.backup.law"):
        swept.where({"flow.backup.count": 2})


def test_a_sweep_says_its_results_with_units(swept: Sweep):
    first = swept[0]
    throughput = first.run().window().group("backup").throughput_bps
    text = f"backup {units.text('throughput_bps', throughput)}"
    assert repr(first).startswith(
        "<SweepRun flow.backup.law ledbat, dumbbell.bottleneck.buffer 10 pkt; seed 1; run, 0 to 1 s: download "
    )
    assert text in repr(first) and text in repr(first.run())
    page = swept._repr_html_()
    runs = swept.where({"flow.backup.law": "lp", "dumbbell.bottleneck.buffer": "80 pkt"})
    mean = np.mean([each.run().window().group("backup").throughput_bps for each in runs])
    assert f'<td style="text-align:left">{units.text("throughput_bps", mean)}</td>' in page
    assert page.count("<tr>") == 1 + 12 and "6 points, 3 seeds" in page
    assert "0 runs" in Sweep([])._repr_html_()


def test_a_long_sweep_shows_the_first_of_its_points(swept: Sweep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_html, "ROWS", 5)
    page = swept._repr_html_()
    assert page.count("<tr>") == 1 + 5 and "and 7 more rows" in page


def test_a_sweep_of_a_scenario_has_its_values_and_repetitions(small: Scenario):
    own = small.set({"sweep": {"flow.backup.count": [1, 2]}, "repetitions": 2, "seed": 5})
    assert [(dict(each.labels)["flow.backup.count"], each.seed) for each in leeway.sweep(own)] == [
        (1, 5),
        (1, 6),
        (2, 5),
        (2, 6),
    ]
    assert [each.seed for each in leeway.sweep(own, {}, seeds=[9])] == [9]
    with pytest.raises(leeway.ScenarioError, match="there is no law"):
        leeway.sweep(own, {"flow.backup.law": ["lp", "lpp"]})


def test_a_sweep_has_a_panel_for_each_group_and_a_line_for_each_law(swept: Sweep):
    figure = swept.plot()
    assert labels(figure) == [("bottleneck buffer, pkt", "throughput, Mbit/s"), ("bottleneck buffer, pkt", "")]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["download", "backup"]
    assert legend(figure) == ["ledbat", "lp"] and figure.legends[0].get_title().get_text() == "backup law"
    table = swept.table().to_pandas()
    chosen = table[(table["flow.backup.law"] == "lp") & (table["group"] == "backup")]
    means = chosen.groupby("dumbbell.bottleneck.buffer", sort=False).throughput_bps.mean().to_numpy() / 1e6
    line = figure.axes[1].containers[1].lines[0]
    assert line.get_xdata().tolist() == [10, 20, 80] and line.get_ydata() == pytest.approx(means)
    assert figure.axes[0].get_xscale() == "log"


def test_a_sweep_of_one_path_has_a_line_for_each_group(swept: Sweep):
    one = swept.where({"flow.backup.law": "lp"}).plot("rtt_p95_s")
    assert labels(one) == [("bottleneck buffer, pkt", "95th percentile of RTT, ms")]
    assert legend(one) == ["download", "backup"]
    laws = swept.where({"dumbbell.bottleneck.buffer": "10 pkt"}).plot("harm_throughput", dark=True)
    assert labels(laws) == [("backup law", "harm to the throughput, %")]
    assert [tick.get_text() for tick in laws.axes[0].get_xticklabels()] == ["ledbat", "lp"]
    assert legend(laws) == []  # of the download alone there is harm
    by_law = swept.plot("share", x="flow.backup.law", groups=["backup"])
    assert legend(by_law) == ["10 pkt", "20 pkt", "80 pkt"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "troughput_bps"}, "there is no metric 'troughput_bps'; did you mean 'throughput_bps'"),
        ({"metric": "law"}, "there is no metric 'law'"),
        ({"metric": "mos"}, "no run has a value of 'mos'"),
        ({"x": "flow.backup.lw"}, "there is no path 'flow.backup.lw'; did you mean 'flow.backup.law'"),
        ({"groups": ["upload"]}, "there is no group 'upload'"),
    ],
)
def test_a_wrong_metric_path_or_group_is_explained(swept: Sweep, options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        swept.plot(**options)


def test_results_of_the_lab_are_drawn_alike(swept: Sweep):
    results = Results(
        Result(Case(each.scenario, each.seed, {"law": each.labels["flow.backup.law"]}), each.run) for each in swept
    )
    assert repr(results) == "<Results of 18 runs, by law>"
    assert repr(results[4]) == "<Result law ledbat, seed 2>"
    assert repr(results[:3].interval(lambda run: 0.5)) == "<Interval 0.5 (n = 3)>"
    assert labels(results.plot("goodput_bps")) == [("law", "goodput, Mbit/s")]


@pytest.mark.parametrize(
    ("choices", "unit", "numbers"),
    [
        (["5 pkt", "20 pkt"], "pkt", [5, 20]),
        (["600 kbit/s", "1 Mbit/s"], "kbit/s", [600, 1000]),
        ([1, 2.5], "", [1, 2.5]),
        (["5 pkt", "1 BDP"], "pkt", []),
        (["ledbat", "lp"], "", []),
        ([True, False], "", []),
    ],
)
def test_values_that_are_quantities_stand_at_their_numbers(choices: list, unit: str, numbers: list):
    places = sweeps._Places(choices)
    assert places.numbers == numbers
    assert not numbers or places.unit == unit


@pytest.mark.parametrize("missing", ["matplotlib", "scipy"])
def test_without_matplotlib_the_error_says_what_to_install(missing: str):
    code = f"""
import sys
sys.modules[{missing!r}] = None
import leeway
scenario = leeway.Scenario(duration="1 s", dumbbell=leeway.Dumbbell(bottleneck=leeway.Channel(rate="1 Mbit/s")),
    flow=[leeway.Flow(name="a", start="0 s")], series=leeway.Series(every="100 ms"))
for plot in (leeway.run(scenario).plot, leeway.sweep(scenario).plot):
    try:
        plot()
    except ImportError as error:
        print(error.name, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.count(f"{missing} plot() needs {missing}, which is not installed; pip install 'leeway[lab]'") == 2
    )
