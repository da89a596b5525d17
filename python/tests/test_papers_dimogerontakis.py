"""Dimogerontakis 2017: scenarios say what the live testbed does, and the claims and the live figures at quick size."""

import dataclasses
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from papers_claims import assert_drawn, assert_explained, assert_tables_fit, outcome

import leeway
from leeway.lab import Interval, experiments
from leeway.papers.dimogerontakis2017 import page
from leeway.papers.dimogerontakis2017.live import LIVE, MEAN, PER_S, Pair, measured_live, points
from leeway.papers.dimogerontakis2017.measure import Figures, times
from leeway.papers.dimogerontakis2017.network import (
    ALL,
    ALONE,
    BEST,
    BORROWING,
    MECHANISMS,
    NEIGHBOURS,
    PROXY,
    Load,
    Setup,
    asked_at,
    scenario,
)
from leeway.papers.dimogerontakis2017.setups import OVERLOAD, SETUPS, splitmix64, wandering, xoshiro256plusplus

DOCS = Path(__file__).parents[2] / "docs" / "testbed.md"
PAPER = [f"dimogerontakis2017:{name}" for name in ("fig3", "fig5", "fig9", "fig10", "fig11", "fig13")]
BEYOND = [f"dimogerontakis2017:{name}" for name in ("rates", "buffers", "changing", "neighbours", "homes", "live")]
DIFFERENCES = [
    f"dimogerontakis2017:difference-{name}"
    for name in ("burst", "coincidence", "connections", "late", "patience", "ping", "ratio", "shaper", "start")
]
SHORT = dataclasses.replace(OVERLOAD, duration_s=5.0)


def test_all_of_the_paper_is_there():
    ours = {name: known.kind for name, known in experiments().items() if known.paper == "dimogerontakis2017"}
    assert ours == dict.fromkeys([*PAPER, *BEYOND], "paper") | dict.fromkeys(DIFFERENCES, "difference")


@pytest.mark.parametrize("name", [*PAPER, *BEYOND, *DIFFERENCES])
def test_claims_hold_or_are_explained(name):
    assert_explained(name)
    assert_drawn(name)
    assert_tables_fit(name)


def test_a_home_is_protected_by_a_gateway_and_not_by_best_effort():
    table = outcome("dimogerontakis2017:fig5").tables[0]
    mean = {row[1]: row[2].mean for row in table.rows}
    assert mean[BEST] > 20
    assert mean[PROXY] < 1.35
    assert mean["packets"] < mean[PROXY] + 0.05
    assert mean["borrowing-line"] < 1.2 < 5 < mean[BORROWING]


def test_the_live_figures_come_out():
    claims = {claim.text: claim for claim in outcome("dimogerontakis2017:live").claims}
    agree, _, of = claims["figures that are within 15 % of the live ones"].found.partition(" of ")
    assert int(agree) >= 40 and int(of) >= int(agree)
    for row in ("overload", "deep", "users 100", "greedy", "call"):
        assert claims[f"{row}, proxy: {MEAN}"].holds, row
        assert claims[f"{row}, proxy: {PER_S}"].holds, row
    assert claims[f"overload, best_effort: {MEAN}"].holds
    assert claims[f"underload, best_effort: {MEAN}"].holds


def test_every_setup_and_every_mechanism_makes_a_scenario():
    for setup in SETUPS.values():
        scenario(setup, PROXY).check()
    for mechanism in MECHANISMS:
        scenario(SHORT, mechanism).check()
    for row in LIVE:
        assert row.setup in SETUPS and row.mechanism in MECHANISMS
        assert any(True for _ in row.figures())


def test_the_load_is_that_of_the_testbed():
    made = scenario(OVERLOAD, PROXY)
    home = [flow for flow in made.flow if flow.name.startswith("home ") and flow.name != "home before"]
    assert len(home) == 200
    assert {flow.app["kind"] for flow in home} == {"request"}
    neighbours = next(flow for flow in made.flow if flow.name == NEIGHBOURS)
    assert (neighbours.count, neighbours.flows_per_user, neighbours.gateway) == (50, 10, "gateway")
    assert made.gateway[0].read_delay == "2 ms"
    assert made.dumbbell.bottleneck.rate == made.dumbbell.reverse.rate == "1720000 bit/s"
    assert made.dumbbell.bottleneck.buffer == "100 pkt"
    assert not any(flow.gateway for flow in scenario(OVERLOAD, BEST).flow)
    assert not any(flow.name == NEIGHBOURS for flow in scenario(OVERLOAD, ALONE).flow)


def test_requests_come_at_equal_distances_from_the_beginning_on():
    assert asked_at(Load(5.0), 5.0, 6.0) == pytest.approx([5.0, 5.2, 5.4, 5.6, 5.8])
    assert asked_at(Load(0.08), 5.0, 20.0) == pytest.approx([12.5])
    assert asked_at(Load(25.0), 0.0, 40.0)[-1] == pytest.approx(39.96)


def test_what_has_no_answer_counts_with_its_wait():
    setup = Setup(home=Load(0.2, 2_000_000, users=1), neighbours=OVERLOAD.neighbours, duration_s=5.0)
    run = leeway.run(scenario(setup, ALONE), seed=1)
    # 2 MB take 9.7 s at 1.72 Mbit/s, with losses of slow start longer; 10 s are waited after the request at 5 s.
    assert times(run, setup) == pytest.approx([10.0])
    waited = leeway.run(scenario(setup, ALONE, patience_s=20.0), seed=1)
    assert 10.0 < times(waited, setup)[0] < 15.0


def test_a_figure_is_that_of_the_run():
    run = leeway.run(scenario(SHORT, BEST), seed=1)
    found = Figures.of(run, SHORT)
    waits = times(run, SHORT)
    assert len(waits) == 25
    assert found.mean_s == pytest.approx(np.mean(waits)) and found.p99_s == max(waits)
    assert found.goodput == pytest.approx(run.window("steady").group(NEIGHBOURS).goodput_bps / 1.72e6)
    alone = Figures.of(leeway.run(scenario(SHORT, ALONE), seed=1), SHORT)
    # Two round trips of 20 ms and nine packets of a kilobyte and a half.
    assert alone.mean_s == pytest.approx(0.102, abs=0.002)
    assert np.isnan(alone.per_s) and np.isnan(alone.mos)
    assert run.window(ALL).to_s == pytest.approx(15.0)


def test_the_line_like_lte_is_that_of_the_testbed():
    # Published: https://prng.di.unimi.it, and the reference of Rust's rand_xoshiro.
    assert list(islice(splitmix64(1234567), 3)) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert list(islice(xoshiro256plusplus((1, 2, 3, 4)), 4)) == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
    ]
    rates = wandering()
    assert len(rates) == 899 and rates[0][0] == pytest.approx(0.2)
    assert all(0.5 <= mbps <= 8.0 for _, mbps in rates)
    steps = [2.0, *(mbps for _, mbps in rates)]
    changes = [after / before for before, after in pairwise(steps) if 0.5 < after < 8.0]
    assert all(change == pytest.approx(1.25) or change == pytest.approx(0.8) for change in changes)


def test_the_page_has_the_live_figures():
    """The page's table is that of live.json, and a miss is in bold."""
    found = page.LIVE_TABLE.search(DOCS.read_text(encoding="utf-8"))
    assert found, "the marks are gone"
    table = page.live_table()
    assert found[0] == f"{found[1]}\n{table}\n{found[2]}"
    assert len(LIVE) == len({(row.setup, row.mechanism) for row in LIVE})
    rows = {(row["setup"], row["mechanism"]): row for row in measured_live()["rows"]}
    ping_s = rows["overload", "best_effort"]["ping_p99_added_s"]
    assert ping_s > 0.3 and f"| {round(1e3 * ping_s):+d} ms |" in table
    missed = [row for row in rows.values() if row["mechanism"] == "proxy" and row.get("p99", 0) > 1.6]
    assert missed and all(f"**{row['p99']:.2f}**" in table for row in missed)


def test_the_page_has_the_table(tmp_path):
    text = DOCS.read_text(encoding="utf-8")
    found = page.BETWEEN.search(text)
    assert found, "the marks are gone"
    table = found[0]
    for row in LIVE:
        assert f"| {row.setup} | {row.mechanism} |" in table, row
    copy = tmp_path / "page.md"
    copy.write_text(text, encoding="utf-8")
    page.write("| new |", copy)
    assert "\n| new |\n" in copy.read_text(encoding="utf-8")
    other = tmp_path / "other.md"
    other.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for the table"):
        page.write("| new |", other)


def test_a_figure_agrees_within_15_percent():
    def pair(live: float, simulated: float, setup: str = "overload") -> Pair:
        return Pair(setup, PROXY, MEAN, live, Interval.of([simulated]), None)

    assert pair(1.0, 1.149).agrees and pair(1.0, 0.851).agrees
    assert not pair(1.0, 1.16).agrees and not pair(1.0, 0.84).agrees
    assert pair(1.0, 1.1).claim().verdict == "holds"
    assert pair(1.0, 2.0).claim().verdict == "open" and "cause unknown" in pair(1.0, 2.0).claim().text
    explained = pair(1.0, 2.0, "0.5 BDP").claim()
    assert explained.verdict == "differs" and explained.cause(experiments())[0] in DIFFERENCES
    rendered = page.rendered([pair(1.0, 1.1), pair(2.0, 4.0, "0.5 BDP")], 3)
    assert "1 of 2 figures are within 15 %" in rendered
    assert "| overload | proxy | 1.00 / 1.10 |" in rendered
    assert "| 0.5 BDP | proxy | **2.00 / 4.00** |" in rendered and "`difference-burst`" in rendered


def test_every_gateway_has_one_that_sees_packets_beside_it():
    assert points([row for row in LIVE if row.setup == "overload"])["overload"] == (BEST, PROXY, "packets")
    assert points([row for row in LIVE if row.mechanism == BORROWING and row.setup == "1:5"]) == {"1:5": (BORROWING,)}
