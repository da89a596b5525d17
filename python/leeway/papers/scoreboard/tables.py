"""The tables of a board."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from leeway.lab import Table
from leeway.papers.scoreboard.line import FEW, MARGIN, Line
from leeway.papers.scoreboard.score import COLUMNS


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table with a row for each law; docs/scoreboard.md explains each by its
    head."""

    head: str
    cell: Callable[[Line], str]


def median(name: str, digits: int = 2, scale: float = 1) -> Callable[[Line], str]:
    """Median over the networks."""
    return lambda line: number(scale * line.median(name), digits)


def worst(name: str) -> Callable[[Line], str]:
    """The largest value, and its network."""

    def cell(line: Line) -> str:
        value, where = line.worst(name)
        return f"{number(value)} ({where})" if where else "-"

    return cell


def tail(name: str, share: float, digits: int = 2) -> Callable[[Line], str]:
    """Value below which a share of the networks is."""
    return lambda line: number(line.quantile(name, share), digits)


def with_interval(name: str, share: float) -> Callable[[Line], str]:
    """A quantile with its interval."""

    def cell(line: Line) -> str:
        value = line.quantile(name, share)
        low, high = line.quantile_interval(name, share)
        return number(value) if math.isnan(value) else f"{number(value)} [{number(low)}, {number(high)}]"

    return cell


def fails(line: Line) -> str:
    """Share of networks on which a law fails, with its interval."""
    if math.isnan(line.fails):
        return "-"
    low, high = line.fails_interval
    return f"{line.fails:.0%} [{low:.0%}, {high:.0%}]"


SCOREBOARD = (
    Column("law", lambda line: line.row.name),
    Column("fails", fails),
    Column("spare use", median("spare")),
    Column("harm to throughput, median", median("bulk")),
    Column("worst", worst("bulk")),
    Column("harm to answers, median", median("web")),
    Column("worst", worst("web")),
    Column("harm to delay", median("delay")),
    Column("use alone", median("alone")),
    Column("F of 2", median("two")),
    Column("F of 5", median("five")),
    Column("late-comer", median("late")),
    Column("loss added (%)", median("loss", scale=100)),
    Column("call: delay added (ms)", median("voice_ms", 0)),
    Column("call: MOS", median("mos", 1)),
)

HARM = (
    Column("law", lambda line: line.row.name),
    Column("harm to throughput, median", with_interval("bulk", 0.5)),
    Column("harm to throughput, 90 %", with_interval("bulk", 0.9)),
    Column("harm to throughput, 99 %", tail("bulk", 0.99)),
    Column("harm to answers, median", with_interval("web", 0.5)),
    Column("harm to answers, 90 %", with_interval("web", 0.9)),
    Column("harm to answers, 99 %", tail("web", 0.99)),
    Column("fails behind fair queues", lambda line: "-" if math.isnan(line.fails_fair) else f"{line.fails_fair:.0%}"),
)

COMPANY = (
    Column("law", lambda line: line.row.name),
    Column("use alone", median("alone")),
    Column("use alone, worst tenth", tail("alone", 0.1)),
    Column("use by 2", median("use_two")),
    Column("use by 5", median("use_five")),
    Column("F of 2", median("two")),
    Column("F of 2, worst tenth", tail("two", 0.1)),
    Column("F of 5", median("five")),
    Column("F of 5, worst tenth", tail("five", 0.1)),
    Column("worst of 2", median("worst_two")),
    Column("worst of 2, worst tenth", tail("worst_two", 0.1)),
    Column("worst of 5", median("worst_five")),
    Column("worst of 5, worst tenth", tail("worst_five", 0.1)),
    Column("late-comer", median("late")),
)


OTHERS = (
    Column("law", lambda line: line.row.name),
    Column("harm to BBR, median", median("bbr")),
    Column("harm to BBR, 90 %", tail("bbr", 0.9)),
    Column("harm to flows of 10 packets", median("short_iw")),
    Column("harm to flows of 0.3 s", median("short_medium")),
    Column("harm to flows of 2 s", median("short_long")),
    Column("harm to flows of 2 s, 90 %", tail("short_long", 0.9)),
    Column("yields to CUBIC in (s)", median("yield_s")),
    Column("yields to CUBIC in (s), 90 %", tail("yield_s", 0.9)),
    Column("reclaims after CUBIC in (s)", median("reclaim_s")),
    Column("reclaims after CUBIC in (s), 90 %", tail("reclaim_s", 0.9)),
    Column("yields to BBR in (s)", median("yield_bbr_s")),
    Column("reclaims after BBR in (s)", median("reclaim_bbr_s")),
)


def tables(made: list[Line]) -> list[Table]:
    """Tables of all laws: ranking, distribution of harm, flows of one law, other primaries."""
    networks = len(made[0].scores)
    ranked = (
        f"Every law over {networks} networks. First the bounds; then the laws that fail on at most {FEW:.0%} of the "
        "networks, best spare use first; then the others, those that fail on few first. A law fails where a bulk or a "
        f"web primary is harmed by more than {MARGIN:g}. Medians over the networks; in brackets 95 % intervals."
    )
    harm = f"How harm is spread over {networks} networks; in brackets 95 % intervals."
    company = f"What flows of one law get with their like, over {networks} networks."
    others = (
        f"Harm to BBR and to short flows, and how fast laws react to a bulk primary of 30 s, over {networks} networks; "
        "30 s stand for not at all."
    )
    return [
        table("scoreboard", ranked, SCOREBOARD, made),
        table("harm", harm, HARM, made),
        table("company", company, COMPANY, made),
        table("others", others, OTHERS, made),
    ]


def table(name: str, caption: str, columns: tuple[Column, ...], made: list[Line]) -> Table:
    """A table with a row for each law."""
    rows = [[column.cell(line) for column in columns] for line in made]
    return Table(name, caption, [column.head for column in columns], rows, shown=True)


def number(value: float, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def details(made: list[Line]) -> list[Table]:
    """A table for each law, with a row for each network."""
    found = []
    for line in made:
        if line.row.sends:
            rows = [
                [name, *(number(getattr(score, column), 3) for column in COLUMNS)]
                for name, score in line.scores.items()
            ]
            caption = f"{line.row.name} ({line.row.law}; {line.row.source}) on each network."
            found.append(Table(f"details-{line.row.slug}", caption, ("network", *COLUMNS.values()), rows))
    return found
