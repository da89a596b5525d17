"""What ns-2 does its own way: each experiment at quick size shows what its choice does."""

import pytest
from papers_claims import assert_explained, assert_tables_fit, outcome

from leeway.lab import experiments

OURS = [name for name, known in experiments().items() if known.paper == "ns2"]


def test_each_choice_has_its_experiment():
    ids = ["limited-transmit", "backoff", "droptail", "cubic", "ledbat-window", "phase"]
    assert sorted(f"ns2:difference-{name}" for name in ids) == sorted(OURS)
    assert {experiments()[name].kind for name in OURS} == {"difference"}


@pytest.mark.parametrize("name", OURS)
def test_it_shows_what_it_says(name):
    assert outcome(name).claims
    assert_explained(name)
    assert_tables_fit(name)
