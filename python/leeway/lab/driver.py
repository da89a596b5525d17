"""Runs an experiment: steps through its generator, takes from the cache what is there, simulates the rest."""

from __future__ import annotations

from dataclasses import dataclass

from leeway.lab.experiment import Experiment, Outcome, Setting


@dataclass(frozen=True, slots=True)
class Finished:
    """An experiment that was run, and what it took.

    Attributes
    ----------
    experiment, setting
        What was run, and at which size.
    outcome
        What came out; None if the experiment failed.
    error
        Why it failed; empty if it did not.
    runs
        Different runs that it needed; identical cases count once.
    cached
        Those of them that were taken from the cache.
    simulated_s
        Processor time, in seconds, that all its runs took when they were simulated, those from the cache included.
    wall_s
        Time from beginning to end, in seconds.
    seeds
        Number of different seeds among the runs.
    """

    experiment: Experiment
    setting: Setting
    outcome: Outcome | None
    error: str
    runs: int
    cached: int
    simulated_s: float
    wall_s: float
    seeds: int
