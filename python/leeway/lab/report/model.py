"""The contents of a report, for HTML and Markdown: chapters of experiments, claims and their
causes."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from leeway.lab import figures
from leeway.lab.driver import Finished
from leeway.lab.experiment import Claim, Figure, Table, registered
from leeway.lab.report.context import Context
from leeway.lab.report.words import cell, column_kind, common_count, count, duration, paper, size, slug

LARGEST_SVG = 400_000
"""Bytes of an SVG above which the page gets an image instead, if that is smaller."""


class Standing(Enum):
    """Verdict on a claim, with its sign and words."""

    HOLDS = ("✓", "holds")
    EXPLAINED = ("≠", "differs, cause known")
    DIFFERS = ("✗", "differs, cause unknown")
    UNDECIDED = ("?", "undecided")
    OPEN = ("○", "open, recorded")

    @property
    def sign(self) -> str:
        """One character."""
        return self.value[0]

    @property
    def words(self) -> str:
        """The verdict in words."""
        return self.value[1]

    @property
    def css(self) -> str:
        """Class in the style sheet."""
        return self.name.lower()


class Counts(Counter[Standing]):
    """Numbers of claims by verdict."""

    @property
    def claims(self) -> int:
        """Number of claims."""
        return sum(self.values())

    @property
    def shown(self) -> list[tuple[Standing, int]]:
        """Those that occur, in the order above."""
        return [(standing, self[standing]) for standing in Standing if self[standing]]


@dataclass
class Row:
    """A claim, and its cause in the report.

    Attributes
    ----------
    why
        Where it differs: the cause in words.
    cause_id
        Id of the experiment that shows the cause.
    cause
        Its section, if it is part of the report.
    """

    claim: Claim
    section: Section
    why: str = ""
    cause_id: str = ""
    cause: Section | None = None

    @property
    def published(self) -> str:
        """What the paper reports, or that it was left open; a claim of our own has nothing
        there."""
        return self.claim.published or ("open" if self.claim.holds is None else "-")

    @property
    def standing(self) -> Standing:
        """The verdict on the claim."""
        if self.claim.holds is None:
            return Standing.OPEN
        if self.claim.undecided:
            return Standing.UNDECIDED
        if self.claim.holds:
            return Standing.HOLDS
        return Standing.EXPLAINED if self.cause_id else Standing.DIFFERS


@dataclass
class Picture:
    """A drawn figure, or the error of drawing it.

    Attributes
    ----------
    name
        Name of its files and its anchor; unique in a report.
    inline
        SVG element for the page; empty where it would be too large.
    file
        SVG for a file.
    png
        Image.
    """

    figure: Figure
    name: str
    inline: str = ""
    file: str = ""
    png: bytes = b""
    error: str = ""


@dataclass
class Grid:
    """A table whose cells are text.

    Attributes
    ----------
    kinds
        What each column holds: "number", "word" or "text".
    runs
        Number of runs of each interval, if it is the same for all; otherwise the cells show it.
    """

    table: Table
    rows: list[list[str]]
    kinds: list[str]
    runs: int | None

    @property
    def remark(self) -> str:
        """What the caption adds on the intervals; empty without any."""
        if not self.runs:
            return ""
        stop = "" if self.table.caption.rstrip().endswith((".", ";", ":", "!", "?")) else "."
        said = "One run each" if self.runs == 1 else f"± is the 95 % confidence interval, n = {self.runs}"
        return f"{stop} {said}."

    @property
    def long(self) -> bool:
        """Whether it is folded."""
        return len(self.rows) > 24


@dataclass
class Section:
    """An experiment.

    Attributes
    ----------
    explains
        For a known difference: the claims whose cause it shows.
    """

    finished: Finished
    anchor: str
    rows: list[Row] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    explains: list[Row] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Of the experiment."""
        return self.finished.experiment.id

    @property
    def name(self) -> str:
        """The part of the id after the colon."""
        return self.id.partition(":")[2] or self.id

    @property
    def title(self) -> str:
        """Of the experiment."""
        return self.finished.experiment.title

    @property
    def description(self) -> str:
        """Settings and published outcome: paragraphs of Markdown."""
        return inspect.cleandoc(self.finished.experiment.description)

    @property
    def notes(self) -> Sequence[str]:
        """Paragraphs of Markdown."""
        return [inspect.cleandoc(note) for note in self.finished.outcome.notes] if self.finished.outcome else []

    @property
    def leading(self) -> list[Grid]:
        """Tables that come first: a scoreboard is its first table."""
        return self.grids[:1] if self.finished.experiment.kind == "scoreboard" else []

    @property
    def following(self) -> list[Grid]:
        """The other tables, after the pictures."""
        return self.grids[len(self.leading) :]

    @property
    def counts(self) -> Counts:
        """Its claims by how they stand."""
        return Counts(row.standing for row in self.rows)

    @property
    def cost(self) -> str:
        """Size, runs and time, in a sentence."""
        done = self.finished
        cached = f" ({done.cached:,} from the cache)" if done.cached else ""
        parts = [f"{size(done.setting)}: {count(done.runs, 'run')}{cached} with {count(done.seeds, 'seed')}"]
        parts.append(f"{duration(done.simulated_s)} of processor time")
        parts.append(f"{duration(done.wall_s)} from beginning to end")
        text = ", ".join(parts)
        return f"{text[0].upper()}{text[1:]}."


@dataclass
class Chapter:
    """Experiments of a paper, of the scoreboard, or of the known differences.

    Attributes
    ----------
    citation
        Authors, title and place of a paper, in one line.
    text
        Text about all its experiments: paragraphs of Markdown.
    """

    anchor: str
    title: str
    kind: str
    citation: str = ""
    text: str = ""
    sections: list[Section] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        """Its claims by how they stand."""
        return Counts(row.standing for section in self.sections for row in section.rows)

    @property
    def runs(self) -> int:
        """Runs of all its experiments."""
        return sum(section.finished.runs for section in self.sections)

    @property
    def cpu_s(self) -> float:
        """Processor time of these runs, in seconds."""
        return sum(section.finished.simulated_s for section in self.sections)


@dataclass
class Report:
    """The whole report, in the order of the page."""

    context: Context
    chapters: list[Chapter]

    @property
    def sections(self) -> list[Section]:
        """Sections of all chapters."""
        return [section for chapter in self.chapters for section in chapter.sections]

    @property
    def pictures(self) -> list[Picture]:
        """Pictures of all sections, without those that could not be drawn."""
        return [picture for section in self.sections for picture in section.pictures if not picture.error]

    @property
    def papers(self) -> list[Chapter]:
        """Chapters of published experiments."""
        return [chapter for chapter in self.chapters if chapter.kind == "paper"]

    @property
    def counts(self) -> Counts:
        """Numbers of claims of the literature, by verdict."""
        return Counts(row.standing for chapter in self.papers for section in chapter.sections for row in section.rows)

    @property
    def differing(self) -> list[Row]:
        """Claims of the literature with another outcome."""
        return [
            row
            for chapter in self.papers
            for section in chapter.sections
            for row in section.rows
            if row.claim.verdict == "differs"
        ]

    @property
    def failed(self) -> list[Section]:
        """Experiments that failed."""
        return [section for section in self.sections if section.finished.outcome is None]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Facts that a reader needs to judge and to repeat the report: names and values."""
        context, settings = self.context, Counter(size(section.finished.setting) for section in self.sections)
        seeds = [section.finished.seeds for section in self.sections if section.finished.seeds]
        packages = [f"{name} {version}" for name, version in context.packages.items()]
        cached = f", {self.cached:,} of them from the cache" if self.cached else ""
        least, most = (min(seeds), max(seeds)) if seeds else (0, 0)
        facts = {
            "Made": context.date,
            "Machine": context.machine,
            "System": context.system,
            "Engine": context.engine,
            "Packages": ", ".join(([f"Python {context.python}"] if context.python else []) + packages),
            "Experiments": ", ".join(f"{number} {name}" for name, number in settings.items()),
            "Seeds": f"{least} in each experiment" if least == most else f"{least} to {most} an experiment",
            "Runs": f"{self.runs:,}{cached}",
            "Time": f"{duration(context.wall_s)}; simulating all runs takes {duration(self.cpu_s)} of processor time",
        }
        return [(name, value) for name, value in facts.items() if value]

    @property
    def runs(self) -> int:
        """Runs of all experiments."""
        return sum(chapter.runs for chapter in self.chapters)

    @property
    def cached(self) -> int:
        """Those of them that were taken from the cache."""
        return sum(section.finished.cached for section in self.sections)

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs, in seconds."""
        return sum(chapter.cpu_s for chapter in self.chapters)


def build(finished: Sequence[Finished], context: Context) -> Report:
    """Arranges experiments in chapters, draws their figures, finds the causes of their
    differences."""
    taken: set[str] = {"summary", "contents", "reading", "made", "top"}
    drawn: set[str] = set()
    sections = [_section(each, taken, drawn) for each in finished]
    chapters: dict[tuple[str, str], Chapter] = {}
    order = {"scoreboard": 0, "paper": 1, "difference": 2}
    for section in sorted(sections, key=lambda section: order[section.finished.experiment.kind]):
        kind = section.finished.experiment.kind
        name = section.finished.experiment.paper if kind == "paper" else kind
        if (kind, name) not in chapters:
            chapters[kind, name] = _chapter(section, kind, name, taken)
        chapters[kind, name].sections.append(section)
    _link(sections)
    return Report(context, list(chapters.values()))


def _chapter(section: Section, kind: str, name: str, taken: set[str]) -> Chapter:
    if kind == "scoreboard":
        return Chapter(_unique("scoreboard", taken), "Scoreboard", kind)
    if kind == "difference":
        return Chapter(
            _unique("differences", taken),
            "Known differences",
            kind,
            text="Where something other than the published outcome comes out, the cause is looked for by experiment: "
            "one thing is changed at a time until the published outcome appears, or the change is shown to matter. "
            "No control law, seed or tolerance is tuned to a figure.",
        )
    citation, _, text = _about(section, name).partition("\n\n")
    return Chapter(_unique(slug(name), taken), paper(name), kind, " ".join(citation.split()), text.strip())


def _about(section: Section, name: str) -> str:
    """The docstring of a paper's module: its first paragraph cites the paper."""
    for module in (f"leeway.papers.{name}", section.finished.experiment.steps.__module__):
        if module.startswith("leeway.papers.") and module in sys.modules and sys.modules[module].__doc__:
            return inspect.cleandoc(sys.modules[module].__doc__ or "")
    return ""


def _section(finished: Finished, taken: set[str], drawn: set[str]) -> Section:
    section = Section(finished, _unique(slug(finished.experiment.id), taken))
    if finished.outcome:
        section.rows = [Row(claim, section, why=claim.why) for claim in finished.outcome.claims]
        section.pictures = [
            _picture(figure, _unique(_picture_name(section, figure), drawn)) for figure in finished.outcome.figures
        ]
        section.grids = [_grid(table) for table in finished.outcome.tables]
    return section


def _picture_name(section: Section, figure: Figure) -> str:
    """``rossi2010-fig2a-windows``; a figure named after its experiment does not say it twice."""
    whole, (paper, _, own), name = slug(section.id), section.id.partition(":"), slug(figure.name)
    if name.startswith(whole):
        return name
    return f"{slug(paper)}-{name}" if own and name.startswith(slug(own)) else f"{whole}-{name}"


def _picture(figure: Figure, name: str) -> Picture:
    try:
        drawing = figures.Drawing(figure)
        inline, png = drawing.inline(f"{name}-"), drawing.png()
        large = len(inline) > max(LARGEST_SVG, len(png))
        return Picture(figure, name, "" if large else inline, drawing.svg(), png)
    except Exception as error:  # an error in one figure must not lose the report of a day of runs
        message = f"{type(error).__name__}: {error}"
        warnings.warn(f"{name} cannot be drawn: {message}", RuntimeWarning, stacklevel=2)
        return Picture(figure, name, error=message)


def _grid(table: Table) -> Grid:
    runs = common_count(table)
    rows = [[cell(value, runs) for value in row] for row in table.rows]
    return Grid(table, rows, [column_kind([row[i] for row in rows]) for i in range(len(table.columns))], runs)


def _link(sections: Iterable[Section]) -> None:
    """Finds the experiment that the reason of a difference begins with, and writes both ends of
    the link."""
    by_id = {section.id: section for section in sections}
    known = by_id.keys() | registered()
    for section in by_id.values():
        for row in section.rows:
            row.cause_id, row.why = row.claim.cause(known)
            if row.cause_id:
                row.cause = by_id.get(row.cause_id)
                if row.cause and row.claim.verdict == "differs":
                    row.cause.explains.append(row)


def _unique(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken."""
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    taken.add(unique)
    return unique
