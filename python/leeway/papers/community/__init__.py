"""Communities with many gateways: what users get when each client chooses for itself, and what it
costs.

Community networks have let clients choose among web proxies with measurements of their own:
Dimogerontakis, Neto, Meseguer, Navarro and Veiga, Client-side routing-agnostic gateway selection
for heterogeneous wireless mesh networks (IM 2017); Batbayar et al., The RIMO gateway selection
approach for mesh networks (UCAmI 2018). That clients which all take the least loaded server by old
information herd is from Mitzenmacher, How useful is old information? (IEEE TPDS 2000) and Dahlin,
Interpreting stale load information (IEEE TPDS 2000). The bounds of the claims are this project's
own.
"""

from leeway.papers.community import differences, load, schemes

__all__ = ["differences", "load", "schemes"]
