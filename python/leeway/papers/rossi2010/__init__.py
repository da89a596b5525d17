"""Rossi, Testa, Valenti, Muscariello: LEDBAT: the new BitTorrent congestion control protocol.
ICCCN 2010.

Common to all: 10 Mbit/s, packets of 1500 bytes, a round trip of 50 ms of which the bottleneck's
own delay is 25 ms one way, a target of 25 ms (20.8 packets), no clamp on the decrease, the base
delay a running minimum, and slow start off in both protocols: both start from one packet and grow
linearly. TCP is NewReno.

Nothing is drawn at random, so a run has no spread of its own. Where an interval is shown, each
flow starts up to one round trip (50 ms) later than published, drawn anew for each seed. A claim is
judged by the published setting; the interval says how far it depends on exact starts.
"""

from leeway.papers.rossi2010 import differences, fig2, fig3, slowstart

__all__ = ["differences", "fig2", "fig3", "slowstart"]
