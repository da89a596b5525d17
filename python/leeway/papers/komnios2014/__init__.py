"""Komnios, Sathiaseelan, Crowcroft: LEDBAT performance in sub-packet regimes (WiMob 2014).

Bulk uploads share a slow backhaul. With more than C RTT / P of them each has less than one packet
per round trip: the sub-packet regime.
"""

from leeway.papers.komnios2014 import (
    differences,  # noqa: F401
    extra,  # noqa: F401
    homogeneous,  # noqa: F401
    mixed,  # noqa: F401
)
