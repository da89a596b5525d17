"""The scoreboard: what its columns count, that every law is on it, and that its controls do harm."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas

import leeway
from leeway.lab import Outcome, Setting, experiments
from leeway.lab.cache import Cache
from leeway.lab.driver import run_experiment
from leeway.lab.engines import Local
from leeway.papers.scoreboard import tables
from leeway.papers.scoreboard.line import MARGIN, Line, lines
from leeway.papers.scoreboard.measure import BULK, NOBODY, NOBODY_PRIORITY, OWN, PRIMARIES, REACTION, cases, reaction
from leeway.papers.scoreboard.networks import Network, literature
from leeway.papers.scoreboard.pictures import figures
from leeway.papers.scoreboard.real import CONDITIONS, real
from leeway.papers.scoreboard.rows import BOUNDS, ROWS, Row, chosen
from leeway.papers.scoreboard.score import COLUMNS, Score, add_beside, add_reaction
from leeway.papers.scoreboard.wide import COUNT, FAIR, QUEUES, hypercube, wide

EXPERIMENT = experiments()["scoreboard:all"]


def test_the_picture_of_the_documents_has_every_law_and_network() -> None:
    picture = Path(__file__).parents[2] / "docs" / "pictures" / "scoreboard-map.svg"
    words = set(re.findall(r">([^<>]+)</text>", picture.read_text(encoding="utf-8")))
    rows = {row.name for row in ROWS if row.sends}
    wanted = rows | {network.name for network in literature(full=True)}
    assert wanted <= words, "draw it anew: tools/pictures.sh map"


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
    judged = [row for row in ROWS if row not in BOUNDS]
    assert {row.law.partition(":")[0] for row in judged} == {law.name for law in leeway.laws()}
    assert len({row.name for row in ROWS}) == len({row.slug for row in ROWS}) == len(ROWS)
    assert len({row.law for row in judged}) == len(judged)


def test_a_law_is_asked_for_by_its_spelling():
    assert chosen([]) == ROWS
    assert [row.name for row in chosen(["ledbat", "ledbat:target=60ms", "ledbat"])] == [
        *(row.name for row in BOUNDS),
        "LEDBAT (100 ms)",
        "ledbat:target=60ms",
    ]


def test_every_paper_has_networks():
    full = literature(full=True)
    assert {place.paper for place in full} == {"rossi2010", "kuhn2013", "komnios2014", "trang2014"}
    assert len({place.name for place in full}) == len(full)
    quick = literature(full=False)
    assert {place.name for place in quick} < {place.name for place in full}
    assert {place.paper for place in quick} == {place.paper for place in full}


def test_real_has_each_network_under_each_condition():
    full = real(full=True)
    assert len(full) == len({place.name for place in full}) == len(CONDITIONS) * len(literature(full=True))
    assert {place.profile for place in full} == {"linux"}
    quick = [place.name.rpartition(", ")[2] for place in real(full=False)]
    assert quick == [condition.name for condition in CONDITIONS]
    by_name = {place.name: place for place in full}
    wifi = by_name["rossi 40, wifi"].dumbbell()
    assert wifi.bottleneck.jitter == wifi.reverse.jitter == "aggregate:wait=3ms"
    assert wifi.reverse.delay == wifi.bottleneck.delay == "25 ms"
    komnios = by_name["komnios b DropTail, acks"].dumbbell()
    assert komnios.bottleneck.jitter is None
    assert (komnios.reverse.rate, komnios.reverse.jitter) == ("1200 kbit/s", "aggregate:wait=10ms")
    late = by_name["rossi 40, ack jitter"].dumbbell()
    assert (late.bottleneck.jitter, late.reverse.jitter) == (None, "uniform:range=1200us")
    moved = by_name["trang 10M 50ms 1, route"].events
    assert [event.delay for event in moved] == ["75 ms", "50 ms"]
    assert by_name["rossi 40, clock 1 ms"].tcp == {"timestamp_resolution": "1 ms"}


def test_wide_is_a_latin_hypercube_in_two_halves():
    points = list(hypercube(3))
    for dimension in zip(*points, strict=True):
        assert sorted(int(share * COUNT) for share in dimension) == list(range(COUNT))
    tuning, report = wide("tuning"), wide("report")
    assert len(tuning) == len(report) == COUNT // 2
    assert not {place.name for place in tuning} & {place.name for place in report}
    for half in (tuning, report):
        assert min(place.rate_bps for place in half) < 0.6e6 and max(place.rate_bps for place in half) > 0.9e9
        assert {place.bulk for place in half} == set(range(1, 25))
        for queue in QUEUES:
            share = sum(place.name.endswith(f" {queue}") for place in half) / len(half)
            assert share == pytest.approx(1 / len(QUEUES), abs=0.03)
        assert sum(place.fair for place in half) / len(half) == pytest.approx(len(FAIR) / len(QUEUES), abs=0.03)
        assert all(2 * place.start_s < place.duration_s / 3 for place in half)
    assert [place.name for place in wide("tuning")] == [place.name for place in tuning]


@pytest.mark.parametrize("places", [literature(True), real(True)[::17], wide("tuning")[::43], wide("report")[::71]])
def test_every_scenario_is_valid(places: list[Network]):
    for place in places:
        for case in cases(place, ROWS[:3], [1]):
            case.scenario.check()


def test_a_row_is_judged_beside_every_primary_and_with_its_own():
    place = literature(full=False)[0]
    rows = (*BOUNDS, *ROWS[2:4])
    found = list(cases(place, rows, [1, 2]))
    for row in rows:
        seen = [case.labels["with"] for case in found if case.labels["row"] == row.name and case.seed == 1]
        assert sorted(seen) == (sorted([*PRIMARIES, *REACTION, *OWN]) if row.sends else [])
    for name in (NOBODY, NOBODY_PRIORITY):
        assert sum(case.labels["row"] == name for case in found) == 2 * len(PRIMARIES)
    for case in found:
        in_classes = case.labels["row"] in ("strict priority", NOBODY_PRIORITY)
        assert (case.scenario.dumbbell.bottleneck.queue == "priority") == in_classes
        assert {flow.class_ for flow in case.scenario.flow if flow.role == "background"} <= {int(in_classes)}


def test_wide_asks_for_one_kind_of_primaries_and_one_number_of_its_own():
    for place in wide("tuning")[:20]:
        seen = {case.labels["with"] for case in cases(place, ROWS[:3], [1])}
        assert len(seen & set(BULK)) == 1 and "one" in seen and len(seen & set(OWN)) == 2 and "web" in seen
        assert len(seen) == 4


def test_the_reaction_of_a_law_that_does_not_yield_and_of_those_that_do():
    place = next(place for place in literature(True) if place.name == "trang 10M 10ms 1")
    found = {}
    for law in ("newreno", "ledbat:target=5ms,gain_down=10", "lp"):
        score = found[law] = Score()
        add_reaction(score, "", leeway.run(reaction(place, Row(law, law, "test"), "cubic"), seed=1))
    assert found["newreno"].yield_s == 30, "it takes its share"
    assert 0 < found["ledbat:target=5ms,gain_down=10"].yield_s <= 1
    assert 0 < found["ledbat:target=5ms,gain_down=10"].reclaim_s <= 2
    assert found["lp"].yield_s <= 1 and found["lp"].reclaim_s == 30, "it waits for its timer"


def test_short_flows_are_judged_by_size():
    place = next(place for place in literature(True) if place.name == "trang 10M 50ms 1")
    row = Row("NewReno", "newreno", "test")
    wanted = [case for case in cases(place, [row], [1]) if case.labels["with"] == "short"]
    runs = [leeway.run(case.scenario, seed=1) for case in wanted]
    score = Score()
    add_beside(score, "short", runs[1], runs[0])
    assert all(getattr(score, name) > 0.1 for name in ("short_iw", "short_medium", "short_long"))
    nothing = Score()
    add_beside(nothing, "short", runs[0], runs[0])
    assert nothing.short_iw == nothing.short_medium == nothing.short_long == 0


def line(name: str, fair: tuple[str, ...] = (), **columns: list) -> Line:
    """A law with these values on networks 0, 1, ..."""
    count = len(next(iter(columns.values())))
    scores = {str(i): Score.of(**{column: values[i] for column, values in columns.items()}) for i in range(count)}
    return Line(Row(name, name, "test"), scores, frozenset(fair))


def test_a_law_fails_where_a_primary_loses_more_than_a_fifth():
    made = line("x", newreno=[0.1, 0.21, 0.0, 0.2], cubic=[0.0, 0.0, 0.3, 0.2], web=[0.0, 0.0, 0.0, 0.2])
    assert made.fails == 0.5
    assert line("x", newreno=[0.0, 0.0], web=[0.3, math.nan]).fails == 0.5
    assert made.median("bulk") == pytest.approx(0.205)
    assert made.worst("bulk") == (0.3, "2")
    assert math.isnan(made.median("mos")) and math.isnan(made.worst("mos")[0])


def test_fair_queues_are_counted_apart():
    made = line("x", fair=("0", "1"), newreno=[0.5, 0.1, 0.0, 0.3, 0.1, 0.1])
    assert made.fails == 0.25
    assert made.fails_fair == 0.5
    assert made.fails_interval[1] <= 1


def test_intervals_say_how_sure_a_number_is():
    few = line("few", web=[0.1, 0.3] * 5)
    many = line("many", web=[0.1, 0.3] * 200)
    for made in (few, many):
        low, high = made.fails_interval
        assert low < made.fails == 0.5 < high
    assert many.fails_interval[0] > few.fails_interval[0] and many.fails_interval[1] < few.fails_interval[1]
    assert 0.43 < many.fails_interval[0] < 0.47, "0.5 - 1.96 sqrt(0.25 / 400) = 0.451"
    # A network whose seeds lie on both sides of the margin counts as one that may be on either.
    split = line("split", web=[[0.1, 0.29]] * 400)
    assert split.fails == 0 and split.fails_interval[1] > 0.2
    assert split.quantile_interval("web", 0.5) == pytest.approx((0.195, 0.195))
    assert all(math.isnan(end) for end in many.quantile_interval("mos", 0.5))
    # A quantile and its interval are of the same networks, those with a fair queue among them.
    mixed = line("mixed", web=[0.05] * 30 + [0.5] * 30)
    mixed = dataclasses.replace(mixed, fair=frozenset(list(mixed.scores)[30:]))
    low, high = mixed.quantile_interval("web", 0.5)
    assert low <= mixed.median("web") <= high
    assert mixed.fails == 0 and mixed.fails_interval == (0, 0)


def test_the_order_is_bounds_then_spare_use_then_failures():
    bound = line("bound", newreno=[0.0] * 20, spare=[0.1] * 20)
    best = line("one failure, more use", newreno=[0.0] * 19 + [0.3], spare=[0.5] * 20)
    second = line("no failure", newreno=[0.0] * 20, spare=[0.4] * 20)
    third = line("two failures", newreno=[0.0] * 18 + [0.3] * 2, spare=[0.9] * 20)
    last = line("all fail", newreno=[0.3] * 20, spare=[1.0] * 20)
    given = (last, third, second, best, bound)
    rows = [Row(one.row.name, one.row.law, "bound" if one is bound else "test") for one in given]
    scores = {(one.row.name, place): score for one in given for place, score in one.scores.items()}
    places = [Network(str(i), "test", 1e6, 0.1, 1, 9, literature(False)[0].dumbbell) for i in range(20)]
    assert [one.row.name for one in lines(scores, places, rows)] == [
        "bound",
        "one failure, more use",
        "no failure",
        "two failures",
        "all fail",
    ]


def test_scores_are_means_over_seeds():
    score = Score()
    score.add("web", 0.1)
    score.add("web", 0.3)
    score.add("web", None)
    assert score.web == pytest.approx(0.2)
    assert math.isnan(score.voice_ms)
    with pytest.raises(AttributeError):
        score.add("wbe", 0.1)


def test_the_quick_board(outcome):
    board, harm, company, others, *details = outcome.tables
    assert [table.name for table in (board, harm, company, others)] == ["scoreboard", "harm", "company", "others"]
    for table in (board, harm, company, others):
        assert [row[0] for row in table.rows] != [row.name for row in ROWS], "sorted"
        assert {row[0] for row in table.rows} == {row.name for row in ROWS}
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(details) == sum(row.sends for row in ROWS)
    assert all(len(table.columns) == 1 + len(COLUMNS) for table in details)


def test_the_bounds_do_no_harm(outcome):
    heads = outcome.tables[0].columns
    nothing, priority = (dict(zip(heads, row, strict=True)) for row in outcome.tables[0].rows[:2])
    assert (nothing["law"], priority["law"]) == ("nothing", "strict priority")
    assert nothing["fails"].startswith("0%") and priority["fails"].startswith("0%")
    assert float(nothing["spare use"]) == 0 and float(priority["spare use"]) > 0.6


def test_controls_harm_and_nothing_else_is_claimed(outcome):
    assert [claim.verdict for claim in outcome.claims] == ["holds", "holds", "holds", "open", "open"]


@pytest.mark.parametrize("name", ["scoreboard:real", "scoreboard:wide"])
def test_the_other_boards_judge_one_law(name: str, tmp_path):
    with Cache(tmp_path / "results.sqlite") as cache:
        setting = Setting(sample=2, laws=("ledbatpp",))
        done = run_experiment(experiments()[name], setting, Local(), cache)
    assert done.outcome is not None, done.error
    assert {row[0] for row in done.outcome.tables[0].rows} == {"nothing", "strict priority", "LEDBAT++"}
    assert done.runs < 2 * 40


def test_pictures(outcome):
    for figure in outcome.figures:
        canvas = Canvas(figsize=figure.size)
        figure.draw(canvas)
        assert canvas.axes[0].has_data()


def test_the_map_is_blue_up_to_the_margin_and_yellow_to_brown_beyond():
    harm = [0.0, 0.07, 0.19, 0.21, 0.4, 0.6, 0.95]
    made = line("x", newreno=harm, cubic=[0.0] * 7, web=[0.0] * 6 + [0.3])
    picture = figures([made])[0]
    assert f"blue is up to {MARGIN:g}" in picture.caption
    canvas = Canvas(figsize=picture.size)
    picture.draw(canvas)
    mesh, dots = canvas.axes[0].collections
    mesh.update_scalarmappable()
    colours = mesh.get_facecolors()
    assert [bool(blue > red) for red, _, blue, _ in colours] == [value <= MARGIN for value in harm]
    # Lightest at the margin, and darker with each step away from it.
    light = [0.3 * red + 0.6 * green + 0.1 * blue for red, green, blue, _ in colours]
    assert light[:3] == sorted(light[:3]) and light[3:] == sorted(light[3:], reverse=True)
    assert len({tuple(colour) for colour in colours}) == len(harm), "a colour for each step"
    assert dots.get_offsets().tolist() == [[6.5, 0.5]], "answers are harmed on the last network alone"


def test_the_page_explains_every_column():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "scoreboard.md").read_text(encoding="utf-8")
    explained = page.split("## The columns")[1].split("\n## ")[0]
    shown = {
        column.head for table in (tables.SCOREBOARD, tables.HARM, tables.COMPANY, tables.OTHERS) for column in table
    }
    for column in shown - {"worst"}:
        assert f"| {column} |" in explained, column
    for row in ROWS:
        assert f"| {row.name} |" in page and (not row.law or f"`{row.law}`" in page), row.law
