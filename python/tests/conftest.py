"""What the tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from leeway import Channel, Dumbbell, Flow, Scenario

settings.register_profile("leeway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("leeway")


@pytest.fixture
def small() -> Scenario:
    """Two flows that share a small link for two seconds; half of it is spare for the background."""
    return Scenario(
        duration="2 s",
        dumbbell=Dumbbell(bottleneck=Channel(rate="2 Mbit/s", delay="10 ms", buffer="20 pkt")),
        flow=[
            Flow(name="download", law="newreno"),
            Flow(name="backup", law="ledbat", role="background", start={"uniform": ["0 s", "500 ms"]}),
        ],
    )


@pytest.fixture
def program() -> Path:
    """The program ``leeway``, where it has been built."""
    root = Path(__file__).parents[2]
    path = root / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "leeway"
    if not path.exists():
        pytest.skip("the program is not built")
    return path


@pytest.fixture
def long(small: Scenario) -> Scenario:
    """One that takes minutes to play."""
    return small.set("duration", "1000 s").set("dumbbell.bottleneck.rate", "10 Gbit/s")
