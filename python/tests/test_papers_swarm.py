"""Swarms: the quick forms, and what their claims say."""

import pytest
from papers_claims import assert_explained, assert_tables_fit, outcome

import leeway
from leeway.papers.swarm.churn import changing
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


def test_homes_come_and_go_and_some_give_up():
    made = changing("ADSL 8/0.6", "ledbat", 48)
    made.check()
    peers = {flow.name: flow for flow in made.flow if flow.name.startswith("peers ")}
    assert [flow.count for flow in peers.values()] == [36, 3, 3, 3, 3]
    run = leeway.run(made, seed=1)
    groups = {name: run.window("all").group(name) for name in peers}
    assert groups["peers home"].completed == 36
    gave_up = [group.swarm.unfinished for name, group in groups.items() if "wave" in name]
    assert all(0 < count <= 3 for count in gave_up), gave_up


@pytest.mark.parametrize("name", ["swarm:live", "swarm:mixed", "swarm:churn", "swarm:difference-seeds"])
def test_it_shows_what_it_says(name):
    assert "differs" not in [claim.verdict for claim in outcome(name).claims]
    assert "holds" in [claim.verdict for claim in outcome(name).claims]
    assert_explained(name)
    assert_tables_fit(name)
