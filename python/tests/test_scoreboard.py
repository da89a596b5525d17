"""The scoreboard: what its columns count, that every law is on it, and that its controls do harm."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure as Canvas

import leeway
from leeway.lab import Outcome, Setting, experiments
from leeway.lab.cache import Cache
from leeway.lab.driver import run_experiment
from leeway.lab.engines import Local
from leeway.papers.scoreboard import board, measure
from leeway.papers.scoreboard.measure import NOBODY, OWN, PRIMARIES, Score, cases
from leeway.papers.scoreboard.networks import networks
from leeway.papers.scoreboard.rows import ROWS, Row

EXPERIMENT = experiments()["scoreboard:all"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with Cache(tmp_path_factory.mktemp("scoreboard") / "results.sqlite") as cache:
        done = run_experiment(EXPERIMENT, Setting(), Local(), cache)
        assert done.outcome is not None, done.error
        yield done.outcome


def test_it_is_a_scoreboard():
    assert EXPERIMENT.kind == "scoreboard"
    assert EXPERIMENT.paper == "scoreboard"


def test_every_law_has_a_row():
    assert {row.law.partition(":")[0] for row in ROWS} == {law.name for law in leeway.laws()}
    assert (
        len({row.name for row in ROWS})
        == len({row.slug for row in ROWS})
        == len({row.law for row in ROWS})
        == len(ROWS)
    )


def test_every_paper_has_networks():
    full = networks(full=True)
    assert {place.paper for place in full} == {"rossi2010", "kuhn2013", "komnios2014", "trang2014"}
    assert len({place.name for place in full}) == len(full)
    quick = networks(full=False)
    assert {place.name for place in quick} < {place.name for place in full}
    assert {place.paper for place in quick} == {place.paper for place in full}


def test_every_scenario_is_valid():
    for place in networks(full=True):
        for case in cases(place, ROWS, [1]):
            case.scenario.check()


def test_a_row_is_judged_beside_every_primary_and_with_its_own():
    place = networks(full=False)[0]
    found = list(cases(place, ROWS[:2], [1, 2]))
    for row in ROWS[:2]:
        seen = [case.labels["with"] for case in found if case.labels["row"] == row.name and case.seed == 1]
        assert sorted(seen) == sorted([*PRIMARIES, *OWN])
    assert sum(case.labels["row"] == NOBODY for case in found) == 2 * len(PRIMARIES)
    for case in found:
        assert case.scenario.baseline == (case.labels["row"] != NOBODY and case.labels["with"] in PRIMARIES)


def line(name: str, **columns: list[float]) -> board.Line:
    """A law with these values on networks 0, 1, ..."""
    count = len(next(iter(columns.values())))
    scores = {str(i): Score(**{column: values[i] for column, values in columns.items()}) for i in range(count)}
    return board.Line(Row(name, name, "test"), scores)


def test_a_law_fails_where_a_primary_loses_more_than_a_fifth():
    made = line("x", newreno=[0.1, 0.21, 0.0, 0.2], cubic=[0.0, 0.0, 0.3, 0.2], web=[0.0, 0.0, 0.0, 0.2])
    assert made.fails == 0.5
    assert line("x", newreno=[0.0, 0.0], web=[0.3, math.nan]).fails == 0.5
    assert made.median("bulk") == pytest.approx(0.205)
    assert made.worst("bulk") == (0.3, "2")
    assert math.isnan(made.median("mos")) and math.isnan(made.worst("mos")[0])


def test_the_order_is_by_failures_then_by_harm():
    first = line("few failures", newreno=[0.19, 0.19, 0.3])
    second = line("less harm", newreno=[0.0, 0.25, 0.3])
    third = line("more harm", newreno=[0.0, 0.35, 0.4])
    rows = [Row(one.row.name, one.row.name, "test") for one in (third, second, first)]
    scores = {(one.row.name, place): score for one in (first, second, third) for place, score in one.scores.items()}
    places = [type("Place", (), {"name": name})() for name in "012"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(board, "ROWS", rows)
        assert [one.row.name for one in board.lines(scores, places)] == ["few failures", "less harm", "more harm"]


def test_scores_are_means_over_seeds():
    score = Score()
    score.add("web", 0.1)
    score.add("web", 0.3)
    score.add("web", None)
    assert score.web == pytest.approx(0.2)
    assert math.isnan(score.voice_ms)


def test_the_quick_board(outcome):
    table = outcome.tables[0]
    assert table.name == "scoreboard"
    assert [row[0] for row in table.rows] != [row.name for row in ROWS], "sorted"
    assert {row[0] for row in table.rows} == {row.name for row in ROWS}
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(outcome.tables) == 1 + len(ROWS)
    assert all(len(details.columns) == 1 + len(measure.COLUMNS) for details in outcome.tables[1:])


def test_controls_harm_and_nothing_else_is_claimed(outcome):
    assert [claim.verdict for claim in outcome.claims] == ["holds", "holds", "open", "open"]


def test_pictures(outcome):
    for figure in outcome.figures:
        canvas = Canvas(figsize=figure.size)
        figure.draw(canvas)
        assert canvas.axes[0].has_data()


def test_the_page_explains_every_column():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "scoreboard.md").read_text(encoding="utf-8")
    explained = page.split("## The columns")[1].split("\n## ")[0]
    for column in set(board.HEAD) - {"worst"}:
        assert f"| {column} |" in explained, column
    for row in ROWS:
        assert f"`{row.law}`" in page, row.law
