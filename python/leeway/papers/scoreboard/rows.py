"""The laws that are judged. To judge another one, add a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Row:
    """A law with its setting.

    Attributes
    ----------
    name
        How tables and figures call it.
    law
        Its spelling.
    source
        Where the setting comes from; "control" for a law that is no background law, and has to do harm.
    """

    name: str
    law: str
    source: str

    @property
    def slug(self) -> str:
        """The name as a part of a file's name."""
        return "-".join(re.findall(r"[a-z0-9.+]+", self.name.lower()))


ROWS = (
    Row("NewReno", "newreno", CONTROL),
    Row("CUBIC", "cubic", CONTROL),
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
)
