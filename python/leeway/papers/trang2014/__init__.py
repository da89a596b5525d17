"""Trang: LEDBAT analysis and FLOWER (thesis, 2014; papers at VTC, GLOBECOM and LCN).

What LEDBAT's parameters do beside TCP, for which of them it yields whatever the buffer, and
FLOWER, a fuzzy controller, in its place. Importing this package registers the experiments, in the
order of the thesis.
"""

# isort: off
from leeway.papers.trang2014 import (
    two_flows,
    regions,
    grid,
    best_settings,
    many_flows,
    flower,
    flower_many,
    differences,
)

__all__ = ["best_settings", "differences", "flower", "flower_many", "grid", "many_flows", "regions", "two_flows"]
