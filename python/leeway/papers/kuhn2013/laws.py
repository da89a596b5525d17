"""The laws as the paper used them."""

from __future__ import annotations

from typing import Any

from leeway import Flow

CUBIC = "cubic:flavour=2010"
VEGAS = "vegas:floor=1"
TARGETS_MS = (5, 15, 25, 100)
"""Targets of LEDBAT that the paper compares."""


def ledbat(target_ms: float, gain: float = 1.0) -> str:
    """LEDBAT with this target, and this gain (packets per round trip) both above and below it."""
    gains = "" if gain == 1 else f",gain_up={gain:.3f},gain_down={gain:.3f}"
    return f"ledbat:target={target_ms:g}ms,slow_start=standard,floor=1{gains}"


def flow(name: str, law: str, **fields: Any) -> Flow:
    """A flow, or a group of them; LEDBAT is background."""
    role = "background" if law.startswith("ledbat") else "primary"
    return Flow(name=name, law=law, role=role, tcp={"sack": True}, **fields)
