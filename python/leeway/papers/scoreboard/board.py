"""The scoreboard itself: one table, one picture to see it at once, and the details for each network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap

from leeway.lab import Claim, Figure, Outcome, Setting, Table, experiment
from leeway.lab.experiment import Steps
from leeway.papers.common import PALETTE, frame, look
from leeway.papers.scoreboard.measure import COLUMNS, NOBODY, Score, cases, scores
from leeway.papers.scoreboard.networks import Network, networks
from leeway.papers.scoreboard.rows import CONTROL, ROWS, Row

MARGIN = 0.2
"""Harm that is still less than best effort: a primary keeps four fifths of what it has alone (Trang 2014, 3.3)."""

Scores = dict[tuple[str, str], Score]


@dataclass(frozen=True, slots=True)
class Line:
    """A law over all networks."""

    row: Row
    scores: dict[str, Score]

    def values(self, name: str) -> np.ndarray:
        """Of each network."""
        return np.array([getattr(score, name) for score in self.scores.values()], dtype=float)

    def median(self, name: str) -> float:
        """Over the networks where it exists."""
        values = self.values(name)
        return float(np.nanmedian(values)) if not np.isnan(values).all() else math.nan

    def worst(self, name: str) -> tuple[float, str]:
        """The largest value, and where."""
        values = self.values(name)
        if np.isnan(values).all():
            return math.nan, ""
        index = int(np.nanargmax(values))
        return float(values[index]), list(self.scores)[index]

    @property
    def fails(self) -> float:
        """Share of the networks in which a bulk or a web primary is harmed by more than the margin."""
        harm = np.fmax(self.values("bulk"), self.values("web"))
        return float(np.mean(harm > MARGIN))


def lines(found: Scores, places: Iterable[Network]) -> list[Line]:
    """Best first: by the share of networks where a law fails, then by its median harm to throughput."""
    names = [place.name for place in places]
    made = [Line(row, {name: found[row.name, name] for name in names}) for row in ROWS]
    return sorted(made, key=lambda line: (line.fails, line.median("bulk")))


HEAD = (
    "law",
    "fails",
    "harm to throughput, median",
    "worst",
    "harm to answers, median",
    "worst",
    "harm to delay",
    "spare use",
    "use alone",
    "F of 2",
    "F of 5",
    "late-comer",
    "loss added (%)",
    "call: delay added (ms)",
    "call: MOS",
)


def board(made: list[Line]) -> Table:
    """One row a law."""
    rows = []
    for line in made:
        throughput, where = line.worst("bulk")
        answers, where_answers = line.worst("web")
        rows.append(
            [
                line.row.name,
                f"{line.fails:.0%}",
                number(line.median("bulk")),
                f"{number(throughput)} ({where})",
                number(line.median("web")),
                f"{number(answers)} ({where_answers})",
                *(number(line.median(name)) for name in ("delay", "spare", "alone", "two", "five", "late")),
                number(100 * line.median("loss")),
                number(line.median("voice_ms"), 0),
                number(line.median("mos"), 1),
            ]
        )
    caption = (
        f"Every law over {len(made[0].scores)} networks, best first: by the share of networks where it fails, which "
        f"is where a bulk or a web primary is harmed by more than {MARGIN:g}, then by the median harm to "
        "throughput. Medians over the networks."
    )
    return Table("scoreboard", caption, HEAD, rows)


def number(value: float, digits: int = 2) -> str:
    """Or a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def details(made: list[Line]) -> list[Table]:
    """A table a law, a row a network."""
    tables = []
    for line in made:
        rows = [
            [name, *(number(getattr(score, column), 3) for column in COLUMNS)] for name, score in line.scores.items()
        ]
        caption = f"{line.row.name} ({line.row.law}; {line.row.source}) on each network."
        tables.append(Table(f"details-{line.row.slug}", caption, ("network", *COLUMNS.values()), rows))
    return tables


STEPS = (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1)
SHADES = ("#2166ac", "#67a9cf", "#c6dcec", "#fdd9a8", "#f1a340", "#cf5f1c", "#8a2f08")
"""Blues up to the margin, then yellow to dark brown: told apart with any kind of colour vision."""


def draw_map(made: list[Line]) -> Callable:
    """Law by network, the larger harm to throughput of NewReno and CUBIC."""

    def draw(canvas) -> None:
        axes = canvas.subplots()
        values = np.array([line.values("bulk") for line in made])
        colours = ListedColormap(SHADES)
        image = axes.pcolormesh(
            values, cmap=colours, norm=BoundaryNorm(STEPS, colours.N), edgecolors="#7f879255", linewidth=0.4
        )
        answers = np.argwhere(np.array([line.values("web") for line in made]) > MARGIN) + 0.5
        axes.scatter(answers[:, 1], answers[:, 0], s=9, color="#ffffff", edgecolors="#101418", linewidths=0.6)
        axes.set_yticks(np.arange(len(made)) + 0.5, [line.row.name for line in made], fontsize="small")
        axes.set_xticks(np.arange(values.shape[1]) + 0.5, list(made[0].scores), rotation=90, fontsize="x-small")
        axes.invert_yaxis()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        canvas.colorbar(image, ax=axes, label="harm to throughput", pad=0.02, ticks=STEPS)
        canvas.tight_layout()

    return draw


def draw_scatter(made: list[Line]) -> Callable:
    """Median harm against median spare use; a thin line goes on to the worst network."""

    def draw(canvas) -> None:
        axes = canvas.subplots()
        axes.axvline(MARGIN, color=PALETTE["grey"], linestyle=":", linewidth=1.2)
        for rank, line in enumerate(made, start=1):
            style = look(line.row.law, marker=True)
            x, y = line.median("bulk"), line.median("spare")
            axes.plot([x, line.worst("bulk")[0]], [y, y], color=style["color"], linewidth=0.8, alpha=0.5)
            label = f"{rank}  {line.row.name}"
            axes.plot(x, y, marker=style["marker"], color=style["color"], markersize=7, linestyle="none", label=label)
            axes.annotate(str(rank), (x, y), xytext=(6, 3), textcoords="offset points", fontsize="x-small")
        across = "harm to bulk primaries, median (line: to the worst network)"
        frame(axes, across, "spare use beside web, median", legend=False)
        axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(0)
        canvas.tight_layout()

    return draw


def claims(made: list[Line]) -> list[Claim]:
    """What has to be so for the board to say anything."""
    found = []
    for line in made:
        if line.row.source == CONTROL:
            median = line.median(line.row.law)
            found.append(
                Claim.fact(
                    f"Control: {line.row.name} as background takes an equal share from its like",
                    "a harm of one half",
                    f"median harm {median:.2f}; fails on {line.fails:.0%} of the networks",
                    line.fails > 0.5 and 0.4 <= median <= 0.6,
                    accept="a median harm of 0.4 to 0.6, and failing on more than half of the networks",
                )
            )
    control = next(line for line in made if line.row.law == "newreno").median("bulk")
    worse = [line.row.name for line in made if line.row.source != CONTROL and line.median("bulk") > control]
    text = "Background laws that harm bulk primaries more than NewReno does, in the median"
    found.append(Claim.open(text, ", ".join(worse) or "none"))
    truly = [line.row.name for line in made if line.fails == 0]
    found.append(Claim.open("Laws that fail nowhere", ", ".join(truly) or "none"))
    return found


@experiment("scoreboard:all", "Every law beside every primary, over the networks of all papers", kind="scoreboard")
def everything(setting: Setting) -> Steps:
    """Which law is truly less than best effort, where, and at what cost.

    Settings: the networks of Rossi 2010, Kuhn 2013, Komnios 2014 and Trang 2014; on each of them every law beside
    NewReno and CUBIC (bulk), beside web-like requests and beside a call; alone, with one and with four of its kind,
    and with one that comes 20 s late. SACK for everybody, ns-2's profile otherwise. docs/scoreboard.md explains each
    column.
    """
    places = networks(setting.full)
    seeds = setting.seeds(quick=1, full=3)
    results = yield [case for place in places for case in cases(place, ROWS, seeds)]
    made = lines(scores(results), places)
    picture = Figure(
        "map",
        "Harm to the throughput of bulk primaries (NewReno or CUBIC, the larger), law by network, best law first: "
        f"blue is up to {MARGIN:g}. A dot: answers to web-like requests are harmed by more than {MARGIN:g}.",
        draw_map(made),
        (max(7.0, 2.5 + 0.24 * len(places)), 4.8),
    )
    scatter = Figure(
        "scatter",
        "Harm against use of spare capacity: a good law is at the upper left. The line leads to the harm on the "
        "worst network.",
        draw_scatter(made),
        (8.0, 4.6),
    )
    notes = (
        f"{len(results)} runs ({sum(1 for r in results if r.labels['row'] == NOBODY)} of them references); "
        "what each column means is in docs/scoreboard.md.",
    )
    return Outcome(claims(made), [picture, scatter], [board(made), *details(made)], notes)
