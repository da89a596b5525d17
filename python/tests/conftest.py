"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
def small() -> Callable[..., object]:
    """Makes scenarios that run in milliseconds; named values replace fields of the dumbbell or of the scenario."""
    from leeway import Channel, Dumbbell, Flow, Scenario

    def make(duration: str = "1 s", buffer: str = "20 pkt", rate: str = "5 Mbit/s", law: str = "ledbat", **fields):
        return Scenario(
            duration=duration,
            dumbbell=Dumbbell(bottleneck=Channel(rate=rate, delay="10 ms", buffer=buffer)),
            flow=[Flow(name="tcp", law="newreno"), Flow(name="lbe", law=law, role="background")],
            **fields,
        )

    return make
