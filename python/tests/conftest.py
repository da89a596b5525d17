"""What the tests share."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from leeway import Channel, Dumbbell, Flow, Scenario

settings.register_profile("leeway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("leeway")

# Where the tests are started in the background SIGINT is ignored, and programs that they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

REQUIRE_ALL = os.environ.get("LEEWAY_REQUIRE_ALL") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With LEEWAY_REQUIRE_ALL=1 a skipped test is a failed one."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"LEEWAY_REQUIRE_ALL=1 forbids this: {why}"
    return report


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a test does reaches the results that the user keeps."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))
    monkeypatch.delenv("LEEWAY_CACHE", raising=False)


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
    target = Path(__file__).parents[2] / os.environ.get("CARGO_TARGET_DIR", "target")
    built = [path for path in (target / "debug/leeway", target / "release/leeway") if path.exists()]
    if not built:
        pytest.skip("the program is not built")
    return max(built, key=lambda path: path.stat().st_mtime)


@pytest.fixture
def long(small: Scenario) -> Scenario:
    """One that takes minutes to play."""
    return small.set("duration", "1000 s").set("dumbbell.bottleneck.rate", "10 Gbit/s")


@pytest.fixture
def make() -> Callable[..., Scenario]:
    """Makes scenarios that run in milliseconds; further fields are those of the scenario."""

    def make(
        duration: str = "1 s", buffer: str = "20 pkt", rate: str = "5 Mbit/s", law: str = "ledbat", **fields
    ) -> Scenario:
        return Scenario(
            duration=duration,
            dumbbell=Dumbbell(bottleneck=Channel(rate=rate, delay="10 ms", buffer=buffer)),
            flow=[
                Flow(name="tcp", start={"uniform": ["0 s", "100 ms"]}),
                Flow(name="lbe", law=law, role="background", start={"uniform": ["0 s", "100 ms"]}),
            ],
            **fields,
        )

    return make
