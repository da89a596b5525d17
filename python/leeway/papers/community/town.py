"""The communities of the experiments, and what their tables show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leeway.community import Community, CommunityRun

if TYPE_CHECKING:
    from leeway.lab import Setting

FIRST_SEED = 1001
"""Seeds of the reports begin here. The selector's constants were chosen on the seeds 101 to
104."""

SELECTOR, EAGER, NEAREST, RANDOM, LEAST = (
    "selector",
    "selector, no hysteresis",
    "nearest",
    "random",
    "least loaded",
)
SCHEMES: dict[str, dict] = {
    SELECTOR: {"scheme": "selector"},
    EAGER: {
        "scheme": "selector",
        "policy": {"hysteresis": 0.0, "least_gain_s": 0.0, "dwell_s": 0.0, "confirm": 1.0, "appetite": 1e9},
    },
    NEAREST: {"scheme": "nearest"},
    RANDOM: {"scheme": "random"},
    LEAST: {"scheme": "least_loaded"},
}
"""How clients choose, by the name in figures and tables."""

Metric = Callable[[CommunityRun], float]

METRICS: dict[str, Metric] = {
    "of the bound": lambda run: run.found,
    "moves / user / h": lambda run: run.moves_per_user_hour,
    "arrivals / min, most": lambda run: run.arrivals_most,
    "Jain's index": lambda run: run.jain,
    "least tenth": lambda run: run.least_tenth,
    "round trip (ms)": lambda run: 1e3 * run.rtt_s,
    "outage (s)": lambda run: run.outage_mean_s,
    "outage, 95 % (s)": lambda run: run.outage_p95_s,
    "rate after / before": lambda run: run.after_over_before,
}
"""Columns of the tables."""


def sizes(setting: Setting) -> list[tuple[int, int]]:
    """Gateways and users."""
    return setting.pick([(50, 2000)], [(50, 2000), (500, 10_000)])


def seeds(setting: Setting, quick: int, full: int) -> range:
    """Seeds that were not used to choose constants."""
    count = len(setting.seeds(quick, full))
    return range(FIRST_SEED, FIRST_SEED + count)


def named(gateways: int, users: int) -> str:
    """The size in words."""
    return f"{gateways} gateways, {users:,} users"


def town(gateways: int, users: int, scheme: str, **fields) -> Community:
    """A community whose clients choose by the scheme of this name."""
    return Community(
        title=f"{named(gateways, users)}, {scheme}", gateways=gateways, users=users, **SCHEMES[scheme], **fields
    )
