"""Experiments: a grid of cases to simulate, and an outcome with claims, figures and tables.

An experiment is a generator function. It yields the cases it needs, receives their results, and
returns an `Outcome`:

>>> from leeway.lab import Case, Claim, Outcome, experiment
>>> @experiment("example:one", title="One law alone")
... def one(setting):
...     results = yield [Case(scenario, seed) for seed in setting.seeds(quick=3, full=30)]
...     found = results.interval(lambda run: run.windows[0].links[0].utilisation)
...     return Outcome(claims=[Claim.number("utilisation", "0.98", found, accept=(0.97, 0.99))])

So the same function can be listed, counted, run on any engine, and resumed from a cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from leeway.lab.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run
    from leeway.lab.subjects import Subject


@dataclass(frozen=True, slots=True)
class Case:
    """One run that an experiment needs.

    Attributes
    ----------
    scenario
        What to simulate: a scenario, or a community.
    seed
        Seed of the run.
    labels
        Place of this case in the grid (``{"law": "ledbat", "flows": 16}``); results are selected
        by labels.
    """

    scenario: Subject
    seed: int = 1
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """A case and its result. ``run()`` decodes the result, so that thirty thousand results fit
    into memory."""

    case: Case
    run: Callable[[], Run]

    @property
    def labels(self) -> Mapping[str, Any]:
        """Labels of the case."""
        return self.case.labels

    def __repr__(self) -> str:
        values = "".join(f"{name} {value}, " for name, value in self.labels.items() if name != "seed")
        return f"<Result {values}seed {self.case.seed}>"


class Results(Sequence[Result]):
    """Results of a grid, in the order of its cases."""

    def __init__(self, results: Iterable[Result]):
        self._results = list(results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index):
        return Results(self._results[index]) if isinstance(index, slice) else self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def where(self, **labels: Any) -> Results:
        """The results whose labels have these values."""
        return Results(r for r in self._results if all(r.labels.get(name) == value for name, value in labels.items()))

    def one(self, **labels: Any) -> Run:
        """The run of the only result with these labels.

        Raises
        ------
        LookupError
            If there is none or more than one.
        """
        found = self.where(**labels)
        if len(found) != 1:
            raise LookupError(f"{len(found)} results with {labels}, not one")
        return found[0].run()

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Results]]:
        """Results by the values of the named labels, in the order in which the values first
        occur."""
        groups: dict[tuple[Any, ...], list[Result]] = {}
        for result in self._results:
            groups.setdefault(tuple(result.labels[name] for name in names), []).append(result)
        for key, members in groups.items():
            yield key, Results(members)

    def values(self, metric: Callable[[Run], float]) -> list[float]:
        """`metric` of each run."""
        return [metric(result.run()) for result in self._results]

    def interval(self, metric: Callable[[Run], float]) -> Interval:
        """Mean of `metric` over the runs, with its 95 % confidence interval."""
        return Interval.of(self.values(metric))

    def plot(self, metric: str = "throughput_bps", **options: Any) -> Canvas:
        """Draws a metric against the labels, as `leeway.Sweep.plot` does."""
        from leeway import plotting

        return plotting.sweep(self._results, metric, **options)

    def __repr__(self) -> str:
        names = list(dict.fromkeys(name for result in self._results for name in result.labels))
        return f"<Results of {len(self)} runs, by {' and '.join(names) or 'seed'}>"


Half = Literal["tuning", "report"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Size of an experiment.

    Attributes
    ----------
    full
        The published grid (True), or a small part of it that shows the same in seconds.
    seed_count
        Number of seeds of each case; the experiment's own number if None.
    sample
        Number of runs to draw from a very large grid, stratified, or number of networks of a
        scoreboard; all of them if None. Other experiments ignore it.
    laws
        Laws of a scoreboard, as scenarios spell them; all rows if empty.
    half
        Half of the networks of a scoreboard that has two: "tuning" or "report".
    """

    full: bool = False
    seed_count: int | None = None
    sample: int | None = None
    laws: tuple[str, ...] = ()
    half: Half = "tuning"

    def pick(self, quick, full):
        """The value for this size."""
        return full if self.full else quick

    def seeds(self, quick: int, full: int) -> range:
        """Seeds to run each case with: 1, 2, ..."""
        return range(1, 1 + (self.seed_count or self.pick(quick, full)))


Verdict = Literal["holds", "differs", "undecided", "open"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A published result beside the result here.

    Attributes
    ----------
    text
        The claim, in one sentence.
    published
        Result in the paper; empty where the paper leaves it open.
    found
        Result here, with its confidence interval.
    holds
        Whether the two agree; None where nothing was published.
    why
        Cause of a difference: the id of the experiment of the kind "difference" that shows it, a
        colon, and one sentence.
    accept
        What is accepted as agreement, in words: "0.60 to 0.70".
    undecided
        Whether the confidence interval contains a bound of what is accepted. `holds` then says on
        which side the mean is, and more runs may change it.
    """

    text: str
    published: str
    found: str
    holds: bool | None
    why: str = ""
    accept: str = ""
    undecided: bool = False

    @property
    def verdict(self) -> Verdict:
        """The verdict in one word."""
        if self.holds is None:
            return "open"
        if self.undecided:
            return "undecided"
        return "holds" if self.holds else "differs"

    def cause(self, known: Container[str]) -> tuple[str, str]:
        """The experiment that `why` begins with, if its id is in `known`, and the sentence after
        it.

        Otherwise an empty string, and all of `why`.
        """
        found = re.match(r"(\S+?:\S+?):\s+(.*)", self.why, re.DOTALL)
        return (found[1], found[2]) if found and found[1] in known else ("", self.why)

    @staticmethod
    def number(
        text: str,
        published: str,
        found: Interval,
        accept: tuple[float, float],
        unit: str = "",
        digits: int = 3,
        why: str = "",
    ) -> Claim:
        """A number that has to be between two bounds, which are inclusive and may be infinite.

        The claim holds if the confidence interval is between the bounds. It differs if the
        interval is outside, and is undecided if the interval contains a bound. A single run has no
        interval: its value decides.
        """
        low, high = accept
        mean = low <= found.mean <= high
        decided = found.count < 2 or (low <= found.low and found.high <= high if mean else not found.meets(low, high))
        return Claim(
            text, published, found.text(unit, digits), mean, why, _between(low, high, unit), undecided=not decided
        )

    @staticmethod
    def fact(text: str, published: str, found: str, holds: bool, why: str = "", accept: str = "") -> Claim:
        """A claim that is true or false."""
        return Claim(text, published, found, bool(holds), why, accept)

    @staticmethod
    def open(text: str, found: str | Interval, unit: str = "", digits: int = 3) -> Claim:
        """A result that the paper leaves open, and that is recorded here."""
        return Claim(text, "", found.text(unit, digits) if isinstance(found, Interval) else found, None)


def _between(low: float, high: float, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    if low == float("-inf"):
        return f"at most {high:g}{unit}"
    if high == float("inf"):
        return f"at least {low:g}{unit}"
    return f"{low:g} to {high:g}{unit}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, drawn when it is needed.

    Attributes
    ----------
    name
        Name of the file: ``fig3.3``.
    caption
        What the figure shows, in one or two sentences.
    draw
        Draws into an empty figure of matplotlib that has the size below.
    size
        Width and height in inches.
    """

    name: str
    caption: str
    draw: Callable[[Canvas], None]
    size: tuple[float, float] = (7.0, 4.2)

    def _repr_html_(self) -> str:
        from leeway import plotting
        from leeway.lab.figures import Drawing

        return plotting.html(Drawing(self))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of numbers, texts and `Interval`. If `shown`, `leeway-lab run` prints it with a line
    for each column."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | Interval | None]]
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an experiment. `notes` are paragraphs of Markdown about choices that the paper
    leaves open."""

    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


Steps = Generator[Iterable[Case], Results, Outcome]
Kind = Literal["paper", "difference", "scoreboard"]


@dataclass(frozen=True)
class Experiment:
    """A registered experiment.

    Attributes
    ----------
    id
        ``paper:figure``.
    title
        One line.
    steps
        The generator function.
    kind
        "paper" for a published experiment, "difference" for one that shows the cause of a known
        difference, or "scoreboard".
    """

    id: str
    title: str
    steps: Callable[[Setting], Steps]
    kind: Kind = "paper"

    @property
    def paper(self) -> str:
        """The part of the id before the colon."""
        return self.id.partition(":")[0]

    @cached_property
    def description(self) -> str:
        """The docstring: settings and published outcome."""
        return (self.steps.__doc__ or "").strip()

    def first_cases(self, setting: Setting) -> list[Case]:
        """The first grid that the experiment yields, without running it; the only one unless it is
        adaptive."""
        steps = self.steps(setting)
        try:
            return list(next(steps))
        except StopIteration:
            return []
        finally:
            steps.close()


_registry: dict[str, Experiment] = {}


def experiment(name: str, title: str, kind: Kind = "paper") -> Callable[[Callable[[Setting], Steps]], Experiment]:
    """Registers a generator function as the experiment with the id `name`."""

    def register(steps: Callable[[Setting], Steps]) -> Experiment:
        if name in _registry and _registry[name].steps.__module__ != steps.__module__:
            raise ValueError(f"two experiments are called {name}")
        _registry[name] = Experiment(name, title, steps, kind)
        return _registry[name]

    return register


def experiments() -> dict[str, Experiment]:
    """All experiments by id, in the order of the papers; a paper's differences come after its
    experiments."""
    import leeway.papers  # noqa: F401  (registers them)

    papers = list(dict.fromkeys(each.paper for each in _registry.values()))

    def place(each: Experiment) -> tuple[int, bool, list[str | int]]:
        parts = [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", each.id)]
        return papers.index(each.paper), each.kind == "difference", parts

    return {each.id: each for each in sorted(_registry.values(), key=place)}


def registered() -> frozenset[str]:
    """Ids of the experiments that are registered so far; imports none."""
    return frozenset(_registry)
