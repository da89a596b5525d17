"""The laws as the paper used them."""

from __future__ import annotations

from typing import Any

from leeway import Flow

CUBIC = "cubic:flavour=2010"
VEGAS = "vegas:floor=1"
TARGETS_MS = (5, 15, 25, 100)
"""Targets of LEDBAT that the paper compares."""


def ledbat(target_ms: float) -> str:
    """LEDBAT with this target."""
    return f"ledbat:target={target_ms:g}ms,slow_start=standard,floor=1"


def flow(name: str, law: str, **fields: Any) -> Flow:
    """A flow, or a group of them; LEDBAT is background."""
    role = "background" if law.startswith("ledbat") else "primary"
    return Flow(name=name, law=law, role=role, tcp={"sack": True}, **fields)
