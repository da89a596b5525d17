"""Komnios 2014: every experiment at its quick size, and the causes of what differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas

from leeway.lab import Outcome, Setting, experiments
from leeway.lab.cache import Cache
from leeway.lab.driver import run_experiment
from leeway.lab.engines import Local
from leeway.papers.komnios2014.network import BACKHAULS, bulk, numbers, scenario
from leeway.papers.komnios2014.recommended import Pairs, coupled

OWN = {name: one for name, one in experiments().items() if one.paper == "komnios2014"}
DIFFERENCES = [name for name, one in OWN.items() if one.kind == "difference"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cache]:
    folder: Path = tmp_path_factory.mktemp("komnios")
    with Cache(folder / "results.sqlite") as cache:
        yield cache


def outcome(name: str, cache: Cache) -> Outcome:
    done = run_experiment(OWN[name], Setting(), Local(), cache)
    assert done.outcome is not None, done.error
    return done.outcome


def test_every_id_of_the_list_is_there():
    assert {f"komnios2014:{what}" for what in ("extra", *(f"fig{n}" for n in range(1, 9)))} <= set(OWN)


@pytest.mark.parametrize("name", [name for name, one in OWN.items() if one.kind == "paper"])
def test_what_differs_has_a_cause_that_was_shown(name, cache):
    found = outcome(name, cache)
    assert len(found.claims) >= 4
    for claim in found.claims:
        assert claim.found, claim.text
        if claim.verdict == "differs":
            assert claim.why.partition(":")[0] == "komnios2014" and claim.why.partition(": ")[0] in DIFFERENCES, claim
        elif claim.holds is not False:  # one that is undecided with its mean outside may have a cause
            assert not claim.why, f"{claim.text}: a cause for what does not differ"


@pytest.mark.parametrize("name", DIFFERENCES)
def test_causes(name, cache):
    for claim in outcome(name, cache).claims:
        assert claim.holds, f"{claim.text}: found {claim.found}, accepted {claim.accept}"


@pytest.mark.parametrize("name", ["komnios2014:fig1", "komnios2014:fig7", "komnios2014:extra"])
def test_figures_are_drawn(name, cache):
    for figure in outcome(name, cache).figures:
        canvas = Canvas(figsize=figure.size)
        figure.draw(canvas)
        assert canvas.axes and all(axes.has_data() for axes in canvas.axes)


@pytest.mark.parametrize(("name", "flows"), [("a", 5), ("b", 23), ("c", 31)])
def test_where_the_regime_begins(name, flows):
    place = BACKHAULS[name]
    assert place.regime == flows
    for count, inside in ((flows, True), (flows - 1, False)):
        assert (place.up * 1e3 / count < 1500 * 8 / (place.rtt / 1e3)) == inside


def test_full_grid_is_the_papers():
    cases = OWN["komnios2014:fig2"].first_cases(Setting(full=True))
    assert {case.labels["flows"] for case in cases} == set(range(2, 97))
    assert {case.seed for case in cases} == set(range(1, 31))
    assert len(cases) == 95 * 3 * 30
    mixed = OWN["komnios2014:fig8"].first_cases(Setting(full=True))
    assert len(mixed) == 48 * 3 * 30
    for case in mixed:
        halves = [group.count for group in case.scenario.flow]
        assert halves == [case.labels["flows"] // 2] * 2


def test_scenarios_are_valid_and_say_what_the_paper_says():
    for name in BACKHAULS:
        made = scenario(name, [bulk("ftp", "newreno", 2)], queue="red")
        made.check()
        assert made.duration == "300 s"
        assert made.flow[0].start == {"uniform": ["0 s", "30 s"]}
    buffers = [scenario(name, [bulk("ftp", "newreno", 2)]).dumbbell.bottleneck.buffer for name in BACKHAULS]
    assert buffers == ["4 pkt", "22 pkt", "30 pkt"]


def test_numbers_in_words():
    assert numbers([]) == "none"
    assert numbers([2, 3, 4, 7, 9, 10]) == "2 to 4, 7, 9 to 10"


def test_pairs():
    groups = [{"a1", "a2", "b1"}, {"b2"}]
    pairs = Pairs.of(groups, lambda name: name[0])
    assert (pairs.together, pairs.wrongly) == (0.5, 0.5)  # a1-a2 of {a1-a2, b1-b2}; a1-b1 and a2-b1 of four


def test_a_coupled_group_grows_as_one():
    assert coupled(4) == "fledbat:alpha=0.25,zeta=5,floor=0.25,timeout=halve"
    scenario("b", [bulk("lbe", coupled(24), 24)]).check()
