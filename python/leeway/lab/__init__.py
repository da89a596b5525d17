"""The lab: experiments of the literature, from one run to thirty thousand."""

from leeway.lab.experiment import (
    Case,
    Claim,
    Experiment,
    Figure,
    Outcome,
    Result,
    Results,
    Setting,
    Table,
    experiment,
    experiments,
)
from leeway.lab.statistics import Interval, jain

__all__ = [
    "Case",
    "Claim",
    "Experiment",
    "Figure",
    "Interval",
    "Outcome",
    "Result",
    "Results",
    "Setting",
    "Table",
    "experiment",
    "experiments",
    "jain",
]
