"""The subject of a run: a scenario of packets, or a community of fluid flows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import leeway
from leeway.community import Community, CommunityRun
from leeway.lab.cost import expected_packets

Subject = leeway.Scenario | Community


@dataclass(frozen=True, slots=True)
class Kind:
    """How the subjects of one kind are handled.

    Attributes
    ----------
    write, read
        A subject as text, and back.
    run
        The result of a subject and a seed; it has ``encode()``.
    decode
        The result of what ``encode()`` gave.
    work
        Estimated work of a run, in packets.
    """

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    run: Callable[[Any, int, leeway.Cancel | None], Any]
    decode: Callable[[bytes], Any]
    work: Callable[[Any], float]


KINDS = {
    leeway.Scenario.__name__: Kind(
        leeway.Scenario.to_toml, leeway.Scenario.from_toml, leeway.run, leeway.Run.decode, expected_packets
    ),
    Community.__name__: Kind(
        Community.to_json,
        Community.from_json,
        Community.run,
        CommunityRun.decode,
        lambda community: 20.0 * community.users * community.hours,
    ),
}


def kind(subject: Subject) -> Kind:
    """How `subject` is handled."""
    return KINDS[type(subject).__name__]
