"""The laws that are judged. To judge another one, add a line, or name it with `--law`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

CONTROL = "control"
BOUND = "bound"
ASKED = "--law"

LOW = 1
"""The traffic class of the background where the queue has classes; primaries are in class 0."""


@dataclass(frozen=True, slots=True)
class Row:
    """A law with its setting.

    Attributes
    ----------
    name
        Name in tables and figures.
    law
        Spelling in scenarios.
    source
        Source of the setting; "control" for a law that is no background law and has to do harm;
        "bound" for the best that is possible.
    priority
        Whether the bottleneck serves the background in a lower class of strict priority.
    """

    name: str
    law: str
    source: str
    priority: bool = False

    @property
    def sends(self) -> bool:
        """Whether there is a background at all."""
        return bool(self.law)

    @property
    def slug(self) -> str:
        """The name as a part of a file's name."""
        return "-".join(re.findall(r"[a-z0-9.+]+", self.name.lower()))


BOUNDS = (
    Row("nothing", "", BOUND),
    Row("strict priority", "cubic", BOUND, priority=True),
)
"""The best that is possible: the harm of no background, and the spare use of CUBIC in a lower
class of the queue."""

ROWS = (
    *BOUNDS,
    Row("NewReno", "newreno", CONTROL),
    Row("CUBIC", "cubic", CONTROL),
    Row("BBR", "bbr", CONTROL),
    Row("Vegas (2;4)", "vegas", "Brakmo 1994, as in Linux"),
    Row("Nice", "nice", "Venkataramani 2002"),
    Row("TCP-LP", "lp", "Kuzmanovic 2003"),
    Row("LEDBAT (100 ms)", "ledbat", "RFC 6817"),
    Row("LEDBAT (100 ms), slow start", "ledbat:slow_start=standard,floor=1", "Trang 2014, the TCP-Linux module"),
    Row(
        "LEDBAT (25 ms)",
        "ledbat:target=25ms,base_history=0,filter_length=1,slow_start=none,floor=1",
        "Rossi 2010, the draft of 2009",
    ),
    Row(
        "LEDBAT (5 ms;10)", "ledbat:target=5ms,gain_down=10,slow_start=standard,floor=1", "Trang 2014, the best setting"
    ),
    Row("fLEDBAT (0.1)", "fledbat", "Carofiglio 2013"),
    Row("fLEDBAT (5)", "fledbat:alpha=1,zeta=5,floor=1", "Komnios 2014"),
    Row("LEDBAT++", "ledbatpp", "draft-irtf-iccrg-ledbat-plus-plus"),
    Row("FLOWER", "flower", "Trang 2014"),
    Row("Proteus-S", "proteus", "Meng 2020"),
    Row("FlexiS", "flexis", "Li 2023"),
    Row("Ebb", "ebb", "docs/laws/ebb.md"),
)


def chosen(laws: Sequence[str]) -> tuple[Row, ...]:
    """The rows of these laws, with the bounds; all rows where `laws` is empty."""
    known = {row.law: row for row in ROWS if row not in BOUNDS}
    found = [known.get(law) or Row(law, law, ASKED) for law in laws]
    return (*BOUNDS, *dict.fromkeys(found)) if laws else ROWS
