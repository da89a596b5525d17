"""Estimated work of a run: the packets that its channels can carry in its duration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leeway import Scenario

PACKET_BITS = 1500 * 8
UNKNOWN_BPS = 10e6  # assumed rate of a trace that has not been read
NOTHING_PACKETS = 1000.0  # smallest cost of a run, in packets

_QUANTITY = re.compile(r"\s*([0-9][0-9_.eE+-]*)\s*([A-Za-z/]+)\s*")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BPS = {
    prefix + unit: scale * bits
    for prefix, scale in {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}.items()
    for unit, bits in {"bit/s": 1.0, "B/s": 8.0}.items()
}


def expected_packets(scenario: Scenario) -> float:
    """Estimated work of a run. It only decides the order of runs and the time left that is
    shown."""
    duration = _amount(scenario.duration, _SECONDS, 60.0)
    if scenario.dumbbell is not None:
        channels = [scenario.dumbbell.bottleneck]
    else:
        channels = [link.forward for link in scenario.link or ()]
    rate = sum(_rate(channel) for channel in channels)
    times = 2 if scenario.baseline else 1
    return NOTHING_PACKETS + times * duration * rate / PACKET_BITS


def _rate(channel: Any) -> float:
    if channel is None:
        return 0.0
    if channel.rates:
        steps = [_amount(step["rate"], _BPS, UNKNOWN_BPS) for step in channel.rates]
        return sum(steps) / len(steps)
    if channel.trace:
        return UNKNOWN_BPS
    return _amount(channel.rate, _BPS, 0.0) if channel.rate else 0.0


def _amount(text: Any, units: dict[str, float], otherwise: float) -> float:
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    return float(found[1].replace("_", "")) * units[found[2]] if found and found[2] in units else otherwise
