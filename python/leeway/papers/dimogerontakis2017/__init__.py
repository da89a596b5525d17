"""Dimogerontakis et al. (2017): neighbours who use what a home leaves of its line.

Community sharing of spare network capacity (ICNSC 2017). The paper measures on real hosts; so does
`leeway testbed`, whose figures are in docs/testbed.md. Here the same lines, homes and neighbours
are simulated, the gateway as a `[[gateway]]` node, and `dimogerontakis2017:live` puts both side by
side.
"""

from leeway.papers.dimogerontakis2017 import beyond, differences, live, paper

__all__ = ["beyond", "differences", "live", "paper"]
