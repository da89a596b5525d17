"""Runs an experiment of the literature at quick size, once for all tests, and checks what it says of itself."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from matplotlib.figure import Figure as Canvas

from leeway.lab import Outcome, Setting, experiments
from leeway.lab.cache import Cache
from leeway.lab.driver import run_experiment
from leeway.lab.engines import Local


@functools.cache
def outcome(name: str) -> Outcome:
    """Outcome of an experiment at quick size; its results are kept in a folder that lives as long as the process."""
    cache = _cache()
    with Local(workers=1) as engine:
        finished = run_experiment(experiments()[name], Setting(), engine, cache)
    assert finished.outcome is not None, finished.error
    return finished.outcome


@functools.cache
def _cache() -> Cache:
    folder = tempfile.TemporaryDirectory(prefix="leeway-claims-")
    cache = Cache(Path(folder.name) / "results.sqlite")
    cache._folder = folder  # it goes when the cache does
    return cache


def assert_explained(name: str) -> None:
    """Each claim holds, is open, or says which experiment shows why it differs; those of a difference all hold."""
    known = experiments()
    for claim in outcome(name).claims:
        line = f"{claim.text}: published {claim.published}, found {claim.found}, accepted {claim.accept}"
        if known[name].kind == "difference":
            assert claim.holds, line  # by the mean: few seeds leave wide intervals
        elif claim.holds is not False:
            assert not claim.why, line
        elif claim.verdict == "differs":
            cause, _ = claim.cause(known)
            assert cause, f"{line}: no cause"
            assert known[cause].kind == "difference"


def assert_drawn(name: str) -> None:
    """Each figure draws something with labelled axes, and sets no colour of text."""
    for figure in outcome(name).figures:
        canvas = Canvas(figsize=figure.size)
        figure.draw(canvas)
        assert canvas.axes, figure.name
        assert any(axes.get_ylabel() for axes in canvas.axes)
        assert all(axes.has_data() for axes in canvas.axes)


def assert_tables_fit(name: str) -> None:
    """Each row has as many cells as there are columns."""
    for table in outcome(name).tables:
        assert table.rows, table.name
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.name
