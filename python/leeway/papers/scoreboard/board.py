"""The boards: each an experiment over its networks, with tables, pictures, and the details of each
network."""

from __future__ import annotations

from leeway.lab import Claim, Outcome, Setting, experiment
from leeway.lab.experiment import Steps
from leeway.papers.scoreboard import rows
from leeway.papers.scoreboard.line import Line, lines
from leeway.papers.scoreboard.measure import NOBODY, NOBODY_PRIORITY, cases
from leeway.papers.scoreboard.networks import Network, literature
from leeway.papers.scoreboard.pictures import figures
from leeway.papers.scoreboard.real import real
from leeway.papers.scoreboard.rows import BOUND, CONTROL
from leeway.papers.scoreboard.score import scores
from leeway.papers.scoreboard.tables import details, tables
from leeway.papers.scoreboard.wide import wide


def claims(made: list[Line]) -> list[Claim]:
    """Claims without which the board would mean nothing."""
    found = []
    for line in made:
        if line.row.source == CONTROL:
            median = line.median(line.row.law)
            low, high = line.quantile_interval(line.row.law, 0.5)
            found.append(
                Claim(
                    f"Control: {line.row.name} as background takes an equal share from its like",
                    "a harm of one half",
                    f"median harm {median:.2f} ({low:.2f} to {high:.2f}); fails on {line.fails:.0%} of the networks",
                    bool(line.fails > 0.5 and 0.4 <= median <= 0.6),
                    accept="a median harm of 0.4 to 0.6, and failing on more than half of the networks",
                    undecided=any(low < bound < high for bound in (0.4, 0.6)),
                )
            )
    laws = [line for line in made if line.row.source not in (CONTROL, BOUND)]
    for line in made:
        if line.row.law == "newreno":
            worse = [each.row.name for each in laws if each.median("bulk") > line.median("bulk")]
            text = "Background laws that harm bulk primaries more than NewReno does, in the median"
            found.append(Claim.open(text, ", ".join(worse) or "none"))
    truly = [line.row.name for line in laws if line.fails == 0]
    found.append(Claim.open("Laws that fail nowhere", ", ".join(truly) or "none"))
    return found


def board(setting: Setting, places: list[Network], quick: int, full: int) -> Steps:
    """Runs the setting's laws on these networks, with the setting's seeds."""
    judged = rows.chosen(setting.laws)
    places = sample(places, setting.sample)
    seeds = setting.seeds(quick, full)
    results = yield [case for place in places for case in cases(place, judged, seeds)]
    made = lines(scores(results, judged), places, judged)
    references = sum(1 for result in results if result.labels["row"] in (NOBODY, NOBODY_PRIORITY))
    notes = (
        f"{len(results)} runs ({references} of them references); what each column means is in docs/scoreboard.md.",
    )
    return Outcome(claims(made), figures(made), [*tables(made), *details(made)], notes)


def sample(places: list[Network], count: int | None) -> list[Network]:
    """A number of them, evenly spread over the list."""
    if count is None or count >= len(places):
        return places
    return [places[i * len(places) // count] for i in range(count)]


@experiment("scoreboard:all", "Every law beside every primary, over the networks of all papers", kind="scoreboard")
def everything(setting: Setting) -> Steps:
    """Which law is truly less than best effort, where, and at what cost.

    Settings: the networks of Rossi 2010, Kuhn 2013, Komnios 2014 and Trang 2014; on each of them
    every law beside NewReno and CUBIC (bulk), beside web-like requests and beside a call; alone,
    with one and with four of its kind, and with one that comes 20 s late. SACK for everybody,
    ns-2's profile otherwise. docs/scoreboard.md explains each column.
    """
    return (yield from board(setting, literature(setting.full), quick=1, full=3))


@experiment("scoreboard:real", "Every law on the literature's networks with real hosts and lines", kind="scoreboard")
def real_hosts(setting: Setting) -> Steps:
    """What is left of a law where clocks tick, ACKs are delayed, packets are lost and delays vary.

    Settings: the networks of `scoreboard:all` with Linux at both ends, each under the conditions
    of `papers/scoreboard/real.py`. The quick size has one network for each condition and the laws
    of the board; `--sample N` takes N pairs of network and condition, `--law` one's own law.
    """
    everywhere = setting.full or setting.sample is not None
    return (yield from board(setting, real(everywhere), quick=1, full=1))


QUICK_WIDE = 6
"""Networks of the quick size."""


@experiment("scoreboard:wide", "Every law on networks drawn from all that there are", kind="scoreboard")
def everywhere(setting: Setting) -> Steps:
    """How far a law carries beyond the networks that somebody chose.

    Settings: 2,000 networks of a Latin hypercube, half of them for tuning (`--half tuning`, the
    default) and half for the report (`--half report`): 0.5 Mbit/s to 1 Gbit/s, 5 to 800 ms, 0.1 to
    10 BDP, six queue disciplines, 1 to 24 bulk primaries, equally many background flows or one,
    hosts of ns-2 and Linux. On each network beside one kind of bulk primaries, beside web-like
    requests and a call, alone, and with one number of its own kind. `--full` runs all of the half,
    `--sample N` runs N of them.
    """
    count = setting.sample or (None if setting.full else QUICK_WIDE)
    return (yield from board(setting, sample(wide(setting.half), count), quick=1, full=1))
