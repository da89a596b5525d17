"""Figures drawn with matplotlib: `Run.plot`, `Sweep.plot` and `CommunityRun.plot`.

A notebook shows a figure in the colours of its page, light or dark. A file that is made of it has
a white ground, or a dark one where `dark` is asked for.
"""

from __future__ import annotations

try:
    from leeway.plotting.communities import community
    from leeway.plotting.figure import Figure, html
    from leeway.plotting.runs import run
    from leeway.plotting.sweeps import sweep
except ImportError as missing:
    _name = (missing.name or "matplotlib").partition(".")[0]
    raise ImportError(
        f"plot() needs {_name}, which is not installed; pip install 'leeway[lab]' brings what figures need", name=_name
    ) from missing

__all__ = ["Figure", "community", "html", "run", "sweep"]
