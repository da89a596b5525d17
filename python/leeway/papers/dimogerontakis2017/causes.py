"""Why simulated figures differ from live ones, as far as an experiment shows it."""

from __future__ import annotations

from leeway.papers.dimogerontakis2017.network import PROXY

_PREFIX = "dimogerontakis2017:difference-"
BURST = (
    f"{_PREFIX}burst: nine segments that a server sends at once just fit into a buffer of eight packets and the one "
    "that is sent; whatever is there before costs one of them"
)
START = f"{_PREFIX}start: the neighbours' window is still growing when the round ends"


def cause(setup: str, mechanism: str) -> str:
    """The experiment that shows why a figure differs, and a sentence; empty where nothing is
    shown.

    Not known is, among others, why the live `borrowing` protects the home better than a shaper of
    the same rates, and why a live proxy gets less than a simulated one over a buffer of 1 BDP.
    """
    if setup == "0.5 BDP":
        return BURST
    if mechanism == PROXY and setup in ("600 ms", "satellite"):
        return START
    return ""
