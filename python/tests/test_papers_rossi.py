"""Rossi 2010: every experiment at quick size, and the claims it makes."""

import pytest
from papers_claims import assert_drawn, assert_explained, assert_tables_fit, outcome

from leeway.lab import Setting, experiments
from leeway.papers.rossi2010 import network

PAPER = ["rossi2010:fig2a", "rossi2010:fig2b", "rossi2010:fig3", "rossi2010:slowstart"]
DIFFERENCES = ["rossi2010:difference-tcp-alone", "rossi2010:difference-repair"]


def test_all_of_the_paper_is_there():
    ours = {name: known.kind for name, known in experiments().items() if known.paper == "rossi2010"}
    assert ours == dict.fromkeys(PAPER, "paper") | dict.fromkeys(DIFFERENCES, "difference")


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_claims_hold_or_are_explained(name):
    assert_explained(name)


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_figures_and_tables(name):
    assert_drawn(name)
    assert_tables_fit(name)


def test_what_is_known_to_differ_is_no_more_than_that():
    differ = {claim.text for name in PAPER for claim in outcome(name).claims if claim.verdict == "differs"}
    assert differ == {"Utilisation above TCP alone", "(10 s, 40): Jain's index of the windows at 50 s"}


def test_full_grids_are_the_published_ones():
    full = Setting(full=True)
    slowstart = experiments()["rossi2010:slowstart"].first_cases(full)
    assert len(slowstart) == 2 * 2 * 2 * 100
    assert {(case.labels["rate"], case.labels["buffer"]) for case in slowstart} == {
        (2, 10),
        (2, 50),
        (10, 10),
        (10, 50),
    }
    assert {case.labels["case"] for case in experiments()["rossi2010:fig3"].first_cases(full)} == set(network.FIG3)


def test_settings_are_the_published_ones():
    scenario = network.beside_tcp()
    bottleneck = scenario.dumbbell.bottleneck
    assert (bottleneck.rate, bottleneck.delay, bottleneck.buffer) == ("10 Mbit/s", "25 ms", "40 pkt")
    assert [flow.tcp["initial_window"] for flow in scenario.flow] == [1, 1]
    assert all("slow_start=none" in flow.law for flow in scenario.flow)
    for case in experiments()["rossi2010:slowstart"].first_cases(Setting(seed_count=1)):
        case.scenario.check()
        assert case.scenario.flow[1].start == {"uniform": ["0 s", "10 s"]}


def test_a_miss_is_called_one():
    claim = network.judged("text", "1", 2.0, None, (0, 1.5))
    assert claim.verdict == "differs"
    assert network.judged("text", "1", 1.5, None, (0, 1.5)).verdict == "holds"
