"""Swarms of peers: what a transport that yields does to a download's completion time, and to the
choice of peers.

Rossi, Testa, Valenti and Muscariello left the question open (LEDBAT: the new BitTorrent congestion control protocol,
ICCCN 2010). Their group came back to it three times: Testa and Rossi, The impact of uTP on BitTorrent completion time
(P2P 2011, simulated); Testa, Rossi, Rao and Legout, Experimental assessment of BitTorrent completion time in
heterogeneous TCP/uTP swarms (TMA 2012, on a cluster); the same four, Data plane throughput vs control plane delay:
experimental study of BitTorrent performance (P2P 2013, experiments). Their findings are judged here as their abstracts
state them; no number of theirs is repeated.
"""

from leeway.papers.swarm import alike, churn, differences, live, mixed

__all__ = ["alike", "churn", "differences", "live", "mixed"]
