"""Errors around experiments: places to write, clusters, names."""

from __future__ import annotations


class LabError(Exception):
    """An error outside the experiments; the text says what is wrong, where, and what would be
    right."""


class CacheError(LabError):
    """Results cannot be kept: the disk is full, the file cannot be written, or it belongs to
    something else."""


class EngineError(LabError):
    """Nothing can be run: the cluster is gone, or its workers have another version."""


class RunError(LabError):
    """A run failed; the text says which."""


class UnknownExperimentError(LabError):
    """No experiment has this name; the text lists similar names."""
