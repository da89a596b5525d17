"""Kuhn 2013: every experiment at quick size, and the claims it makes."""

import re

import pytest
from papers_claims import assert_drawn, assert_explained, assert_tables_fit, outcome

import leeway
from leeway.lab import Setting, experiments
from leeway.papers.kuhn2013 import differences, groups, table1, table2
from leeway.satellite import LandMobile, write_trace

PAPER = ["kuhn2013:table1", "kuhn2013:table2", "kuhn2013:fig2", "kuhn2013:fig3"]
DIFFERENCES = ["kuhn2013:difference-gain", "kuhn2013:difference-ledbat-period", "kuhn2013:difference-access"]


@pytest.fixture(autouse=True, scope="module")
def _traces(tmp_path_factory):
    """Traces are written once, away from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table2, "cached_trace", _kept(tmp_path_factory.mktemp("traces")))
        patch.delenv("LEEWAY_SATELLITE_TRACE", raising=False)
        yield


def _kept(folder):
    known = table2.cached_trace
    return lambda channel, seed: known(channel, seed, folder)


def test_all_of_the_paper_is_there():
    ours = {name: known.kind for name, known in experiments().items() if known.paper == "kuhn2013"}
    assert ours == dict.fromkeys(PAPER, "paper") | dict.fromkeys(DIFFERENCES, "difference")


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_claims_hold_or_are_explained(name):
    assert_explained(name)


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_figures_and_tables(name):
    assert_drawn(name)
    assert_tables_fit(name)


def test_outcomes_left_open_are_recorded():
    for name in ("kuhn2013:table1", "kuhn2013:fig3"):
        assert {claim.verdict for claim in outcome(name).claims} == {"open"}
        assert all(re.search(r"\d", claim.found) for claim in outcome(name).claims)


def test_an_endless_queue_leaves_ledbat_nothing():
    """Known: CUBIC never loses a packet, so that the queue is above any target when LEDBAT begins."""
    found = {claim.text: claim.found for claim in outcome("kuhn2013:table1").claims}
    assert float(found["Case 4: LEDBAT (100 ms) beside CUBIC (% of C)"].split(";")[0]) < 0.1
    assert float(found["Case 4: CUBIC beside LEDBAT (% of C)"].split(";")[0]) > 99


def test_full_grids_are_the_published_ones():
    full = Setting(full=True, seed_count=1)
    for name, with_a in (("kuhn2013:fig2", False), ("kuhn2013:fig3", True)):
        cases = experiments()[name].first_cases(full)
        grid = {(c.labels.get("target"), c.labels["count"], c.labels.get("reading")) for c in cases}
        assert len(grid) == len(cases) == 1 + 4 * 4 * 2
        assert all(("A" in {flow.name for flow in c.scenario.flow}) == with_a for c in cases)
    targets = {c.labels["target"] for c in experiments()["kuhn2013:table2"].first_cases(full)}
    assert targets == {5, 15, 25, 100}
    assert {c.labels["case"] for c in experiments()["kuhn2013:table1"].first_cases(full)} == {1, 2, 3, 4, 5}


def test_groups_send_when_the_paper_says():
    """Group B: [0, 30], [60, 90], [180, 210], [240, 270]; group C: [0, 75], [150, 225]."""
    for group, times in (("B", [(0, 30), (60, 90), (180, 210), (240, 270)]), ("C", [(0, 75), (150, 225)])):
        found = []
        for fields in groups.cubic_times(group).values():
            span, start = (float(text.split()[0]) for text in (fields["app"]["on"], fields["start"]))
            stop = float(fields["stop"].split()[0])
            while start < stop:
                found.append((start, min(start + span, stop)))
                start += 2 * span
        assert found == times
    assert groups.cubic_times("A") == {"A": {"app": {"kind": "bulk"}, "start": "0 s"}}


def test_cubic_does_pause(small):
    scenario = groups.scenario(
        0, 5, False, groups.DURATION_S, window=[leeway.Window(name="w", from_="110 s", to="145 s")]
    )
    for flow in scenario.flow:
        flow.count = 5
    assert leeway.run(scenario, seed=1).window("w").link().utilisation < 0.02


def test_a_trace_of_ones_own_drives_the_link(tmp_path, monkeypatch):
    path = write_trace(tmp_path / "mine.trace", LandMobile(distance_km=0.5), seed=9)
    monkeypatch.setenv("LEEWAY_SATELLITE_TRACE", str(path))
    cases = experiments()["kuhn2013:table2"].first_cases(Setting(seed_count=2))
    assert {case.scenario.dumbbell.bottleneck.trace for case in cases} == {str(path)}
    assert "mine.trace" in table2._source()


def test_generated_traces_are_named_as_such():
    assert "not public" in outcome("kuhn2013:table2").notes[0]


def test_keys_depend_on_what_a_trace_says_not_where_it_is(tmp_path):
    channel = LandMobile(distance_km=0.5)
    one, two = (write_trace(tmp_path / name / "a.trace", channel, seed=1) for name in ("one", "two"))
    other = write_trace(tmp_path / "other.trace", channel, seed=2)
    assert table2.scenario(5, one).key() == table2.scenario(5, two).key()
    assert table2.scenario(5, one).key() != table2.scenario(5, other).key()


def test_gains_of_one_over_the_target():
    assert differences.gain_of(5, twice=True) == 0.2
    assert differences.gain_of(100, twice=True) == 0.01
    assert differences.gain_of(100, twice=False) == 1
    law = table2.scenario(100, "unused", gain=0.01).flow[1].law
    assert leeway.law(law) is not None
    assert "gain_up=0.010,gain_down=0.010" in law


def test_scenarios_are_valid():
    table1.scenario(5, jitter=0.5).check()
    differences.linked(2, 5, seed=1).check()
