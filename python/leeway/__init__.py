"""Leeway: less-than-best-effort transport, simulated.

>>> import leeway
>>> scenario = leeway.Scenario.load("examples/home-backup.toml")  # doctest: +SKIP
>>> run = leeway.run(scenario, seed=1)  # doctest: +SKIP
>>> run.window().group("backup").throughput_bps  # doctest: +SKIP
"""

from leeway._core import ENGINE, Cancel
from leeway.errors import CancelledError, ScenarioError, SimulationError
from leeway.laws import Law, LawInfo, ParamInfo, QueueInfo, law, laws, queues
from leeway.results import (
    GroupSummary,
    Harm,
    HarmSummary,
    LinkSummary,
    PeerSummary,
    Percentiles,
    Run,
    WindowSummary,
    Work,
)
from leeway.running import run, run_many
from leeway.scenario import Channel, Dumbbell, Event, Flow, Gateway, Link, Scenario, Series, Swarm, Window
from leeway.sweeps import Sweep, SweepRun, sweep
from leeway.tables import summaries

__version__ = ENGINE.partition("+")[0]

__all__ = [
    "ENGINE",
    "Cancel",
    "CancelledError",
    "Channel",
    "Dumbbell",
    "Event",
    "Flow",
    "Gateway",
    "GroupSummary",
    "Harm",
    "HarmSummary",
    "Law",
    "LawInfo",
    "Link",
    "LinkSummary",
    "ParamInfo",
    "PeerSummary",
    "Percentiles",
    "QueueInfo",
    "Run",
    "Scenario",
    "ScenarioError",
    "Series",
    "SimulationError",
    "Swarm",
    "Sweep",
    "SweepRun",
    "Window",
    "WindowSummary",
    "Work",
    "law",
    "laws",
    "queues",
    "run",
    "run_many",
    "summaries",
    "sweep",
]
