"""The experiments of the literature, a module for each paper.

Importing this package registers them, in this order; `leeway.lab.experiments` lists them.
"""

# ruff: noqa: I001  (the order is that of the report)
from leeway.papers import rossi2010
from leeway.papers import kuhn2013
from leeway.papers import komnios2014
from leeway.papers import trang2014
from leeway.papers import dimogerontakis2017
from leeway.papers import ns2
from leeway.papers import swarm
from leeway.papers import community
from leeway.papers import scoreboard

__all__ = [
    "community",
    "dimogerontakis2017",
    "komnios2014",
    "kuhn2013",
    "ns2",
    "rossi2010",
    "scoreboard",
    "swarm",
    "trang2014",
]
