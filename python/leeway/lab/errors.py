"""What can go wrong around experiments: places to write, clusters, names."""

from __future__ import annotations


class LabError(Exception):
    """Something outside the experiments is in the way; the text says what, where, and what would be right."""


class CacheError(LabError):
    """Results cannot be kept: the disk is full, the file cannot be written, or it belongs to something else."""


class EngineError(LabError):
    """Runs cannot be carried out: the cluster is gone, or its workers have another version."""


class RunError(LabError):
    """A run failed; the text says which."""


class UnknownExperimentError(LabError):
    """No experiment has this name; the text lists those that come near."""
