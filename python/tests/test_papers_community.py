"""Communities: the class, the lab's handling of it, and what the experiments' claims say."""

import re

import pytest
from papers_claims import assert_drawn, assert_explained, assert_tables_fit, outcome

import leeway
from leeway.community import Community, CommunityRun
from leeway.lab import Case
from leeway.lab.cache import Cache
from leeway.lab.driver import Tally, run_cases
from leeway.lab.engines import Local, simulate
from leeway.papers.community.town import SCHEMES, town

SMALL = Community(gateways=10, users=100, hours=3)


def test_a_run_survives_being_encoded():
    run = SMALL.run(seed=2)
    assert CommunityRun.decode(run.encode()) == run
    assert run == SMALL.run(seed=2) != SMALL.run(seed=3)
    assert len(run.hours) == 3
    with pytest.raises(ValueError, match="damaged"):
        CommunityRun.decode(run.encode()[:-1] + b"?")


def test_a_run_says_its_results_with_units():
    run = SMALL.run(seed=2)
    assert f"found {100 * run.found:.3g} %, " in repr(run) and f"rtt {1e3 * run.rtt_s:.3g} ms, " in repr(run)
    assert repr(run).startswith("<CommunityRun user_hours ") and repr(run).endswith(", hours 3>")
    assert re.match(r"<Hour wanted [\d.]+ Mbit/s, spare [\d.]+ Mbit/s, ", repr(run.hours[0]))
    assert f'<td style="text-align:left">{100 * run.found:.3g} %</td>' in run._repr_html_()


def test_a_run_is_drawn_hour_by_hour():
    run = SMALL.run(seed=2)
    figure = run.plot()
    rate, spare, moves = figure.axes
    assert rate.get_ylabel() == "rate, Mbit/s" and moves.get_ylabel() == "moves of a user\nin an hour of use"
    assert [text.get_text() for text in rate.get_legend().get_texts()] == ["wanted", "one gateway each, at best", "got"]
    drawn = rate.patches[2].get_data()
    assert list(drawn.values * 1e6) == pytest.approx([hour.served_bps for hour in run.hours])
    assert list(drawn.edges) == [0, 1, 2, 3] and spare.get_ylim()[0] == 0
    assert max(run.plot(dark=True).get_facecolor()[:3]) < 0.2


def test_the_key_is_of_what_decides():
    assert Community.from_json(SMALL.to_json()) == SMALL
    assert Community(title="a").key() == Community(title="b").key()
    assert Community(policy={"hysteresis": 0.2}).key() != Community().key()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"users": 0}, "`users` is 0; it has to be from 1"),
        ({"policy": {"hysterisis": 1.0}}, "`policy.hysterisis` cannot be 1; the constants are round_trips"),
        ({"scheme": "nearst"}, "unknown variant `nearst`, expected one of `selector`"),
    ],
)
def test_what_is_wrong_is_said(fields, text):
    with pytest.raises(ValueError, match=text):
        Community(**fields).run()


def test_a_run_that_is_not_wanted_stops():
    cancel = leeway.Cancel()
    cancel.set()
    with pytest.raises(leeway.CancelledError):
        Community().run(cancel=cancel)


def test_the_lab_keeps_results_and_a_worker_finds_the_same(tmp_path):
    cases = [Case(SMALL, seed, {"seed": seed}) for seed in (1, 2)]
    tally = Tally()
    with Cache(tmp_path / "results.sqlite") as cache, Local(1) as engine:
        first = run_cases(cases, engine, cache)
        again = run_cases(cases, engine, cache, tally=tally)
        assert len(tally.cached) == 2
        assert [each.run() for each in first] == [each.run() for each in again] == [SMALL.run(1), SMALL.run(2)]
    _, data, _ = simulate(SMALL.to_json(), 1, SMALL.key(), leeway.ENGINE, "Community")
    assert CommunityRun.decode(data) == SMALL.run(1)


def test_every_scheme_makes_a_community():
    for scheme in SCHEMES:
        town(50, 2000, scheme).key()


@pytest.mark.parametrize("name", ["community:load", "community:schemes", "community:difference-changes"])
def test_it_shows_what_it_says(name):
    assert "holds" in [claim.verdict for claim in outcome(name).claims]
    assert_explained(name)
    assert_drawn(name)
    assert_tables_fit(name)


def test_the_two_numbers_that_were_asked_for_hold_by_day():
    claims = {claim.text.partition(": ")[2]: claim for claim in outcome("community:schemes").claims}
    assert claims["moves of a user in an hour of use"].holds
    assert claims["what users get, of the bound"].holds
    assert claims["neighbours take no more than the home leaves, in any step of any run"].holds
