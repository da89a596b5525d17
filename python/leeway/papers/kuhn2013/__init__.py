"""Kuhn, Mehani, Sathiaseelan, Lochin: Less-than-best-effort capacity sharing over high BDP
networks with LEDBAT.

VTC Fall 2013. All over a geostationary satellite: 250 ms one way. The paper used ns-2 with the
laws of Linux (TCP-Linux), so here: CUBIC as of 2010 with SACK, Vegas with Linux's (2, 4, 1),
LEDBAT with TCP's slow start, TCP's reaction to loss and a window of at least one packet; timers
and initial window of ns-2, no delayed ACKs. What a sender has in the network when its application
pauses is still delivered, and the connection goes on with the window it had.
"""

from leeway.papers.kuhn2013 import differences, groups, table1, table2

__all__ = ["differences", "groups", "table1", "table2"]
