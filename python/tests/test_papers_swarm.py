"""Swarms: the quick forms, and what their claims say."""

import pytest
from papers_claims import assert_explained, assert_tables_fit, outcome

import leeway
from leeway.papers.swarm.network import ACCESS, LAWS, METRICS, scenario


def test_every_kind_of_line_and_law_makes_a_scenario():
    for access in ACCESS.values():
        for law in LAWS.values():
            made = scenario(access, {"tcp": ("cubic", 3), "yielding": (law, 3)}, 60)
            made.check()
            assert leeway.Scenario.from_toml(made.to_toml()) == made


def test_the_metrics_of_a_small_swarm_are_there():
    run = leeway.run(scenario(ACCESS["ADSL 8/0.6"], {"home": ("ledbat", 6)}, 120), seed=1)
    found = {name: metric(run, "home") for name, metric in METRICS.items()}
    assert 10 < found["completion (s)"] < 60
    assert 0.2 < found["share ratio"] < 1.1
    assert 0 < found["served"] <= 1
    table = leeway.summaries([run])
    assert table["swarm_uploaded_bytes"].null_count < len(table)


@pytest.mark.parametrize("name", ["swarm:live", "swarm:mixed", "swarm:difference-seeds"])
def test_it_shows_what_it_says(name):
    assert "differs" not in [claim.verdict for claim in outcome(name).claims]
    assert "holds" in [claim.verdict for claim in outcome(name).claims]
    assert_explained(name)
    assert_tables_fit(name)
