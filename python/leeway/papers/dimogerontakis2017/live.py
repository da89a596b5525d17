"""The live figures of docs/testbed.md beside the simulated ones.

A figure agrees if the simulated one is within 15 % of the live one. Nothing of the simulation is chosen so that figures
agree: setups, durations and loads are those of `crates/testbed`, and the rest is Linux's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leeway.lab import Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import PALETTE, frame
from leeway.papers.dimogerontakis2017.causes import cause
from leeway.papers.dimogerontakis2017.measure import Measured, Points, cases
from leeway.papers.dimogerontakis2017.network import AT_LINE, BEST, BORROWING, PACKETS, PROXY

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

WITHIN = 0.15
"""How far a simulated figure may be from the live one, as a part of the live one."""
MEAN, P99, PER_S = "home, x mean", "home, x p99", "neighbours / s"
LINE, SERVICE, SCORE = "part of the line", "neighbours' mean (s)", "MOS"


@dataclass(frozen=True, slots=True)
class Row:
    """Live figures of a setup with a mechanism, in the order of `MEAN`, `P99` and `PER_S`; None where there is none."""

    setup: str
    mechanism: str
    mean: float | None = None
    p99: float | None = None
    per_s: float | None = None
    line: float | None = None
    service: float | None = None
    mos: float | None = None

    def figures(self) -> Iterator[tuple[str, float]]:
        """What was measured."""
        names = (MEAN, P99, PER_S, LINE, SERVICE, SCORE)
        values = (self.mean, self.p99, self.per_s, self.line, self.service, self.mos)
        for name, value in zip(names, values, strict=True):
            if value is not None:
                yield name, value


# docs/testbed.md, "Figures".
FIGURES = (
    Row("overload", BEST, 40, 106, 11.1),
    Row("overload, 15 s", BORROWING, 7.4, 42, 9.4),
    Row("overload", PROXY, 1.20, 1.42, 10.7),
    Row("deep", BEST, 34, 132, 10.9),
    Row("deep", PROXY, 1.20, 1.40, 10.4),
    Row("changing", BEST, 39, 91, 13.2),
    Row("changing", PROXY, 1.14, 1.40, 11.2),
    Row("users 1", PROXY, 1.20, 1.31, 10.5),
    Row("users 10", PROXY, 1.20, 1.32, 10.3),
    Row("users 100", PROXY, 1.20, 1.33, 10.4),
    Row("greedy", PROXY, 1.21, 1.39, 10.4),
    Row("call", PROXY, 1.22, 1.40, 9.9, mos=4.35),
    Row("underload", BEST, 1.70, service=0.67),
    Row("underload", PROXY, 1.03, service=0.74),
    Row("idle", BEST, line=0.95),
    Row("idle", PROXY, line=0.96),
)
# docs/testbed.md, "Other lines".
LINES = (
    Row("10 Mbit/s", BEST, 15, 15, 65),
    Row("10 Mbit/s", PROXY, 1.18, 1.30, 43),
    Row("50 Mbit/s", BEST, 3.6, 3.6, 325),
    Row("50 Mbit/s", PROXY, 1.19, 1.22, 297),
    Row("100 ms", BEST, 14, 43, 11.1),
    Row("100 ms", PROXY, 1.19, 1.28, 8.0),
    Row("600 ms", BEST, 2.9, 9.4, 11.1),
    Row("600 ms", PROXY, 1.00, 1.04, 0.7),
    Row("0.5 BDP", BEST, 6.5, 23, 11.3),
    Row("0.5 BDP", PROXY, 1.40, 1.91, 4.1),
    Row("1 BDP", PROXY, 1.23, 4.64, 6.8),
    Row("3 BDP", PROXY, 1.17, 1.27, 7.9),
    Row("10 BDP", PROXY, 1.20, 1.31, 7.9),
    Row("lte", BEST, 25, 35, 11.1),
    Row("lte", PROXY, 1.14, 1.07, 7.2),
    Row("satellite", BEST, 3.1, 9.6, 12.4),
    Row("satellite", PROXY, 1.02, 1.21, 2.0),
    Row("upload", BEST, 11, 31, 15.7),
    Row("upload", PROXY, 1.05, 1.07, 3.8),
    Row("transfer", PROXY, 1.02, 1.03, 0.3),
)
# docs/testbed.md, "The paper's experiments".
PAPER = (
    *(Row(size, PROXY, mean) for size, mean in (("2.5 kB", 1.57), ("12.5 kB", 1.18), ("62.5 kB", 1.15))),
    *(Row(size, BORROWING, mean) for size, mean in (("2.5 kB", 2.7), ("12.5 kB", 6.1), ("62.5 kB", 19))),
    *(Row(ratio, PROXY, mean) for ratio, mean in (("1:2.5", 1.21), ("1:5", 1.19), ("1:10", 1.22))),
    *(Row(ratio, BORROWING, mean) for ratio, mean in (("1:2.5", 6.5), ("1:5", 7.9), ("1:10", 6.1))),
    Row("small home, 15 s", BEST, 5.4),
    Row("small home, 15 s", BORROWING, 5.1),
    Row("small home, 15 s", PROXY, 1.25),
    Row("large home, 15 s", BEST, 1.62),
    Row("large home, 15 s", BORROWING, 1.49),
    Row("large home, 15 s", PROXY, 1.03),
    Row("overload, 15 s", AT_LINE, 1.05),
)
LIVE = (*FIGURES, *LINES, *PAPER)
"""The live figures: medians over rounds on two cores; the page says how many, and how long they are."""
SHORT = (*FIGURES, *(row for row in LINES if row.setup in ("0.5 BDP", "upload")))
"""The rows of the short form: most lines of 1.72 Mbit/s."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A live figure beside the simulated one.

    Attributes
    ----------
    packets
        The figure of a gateway that sees each packet, where the mechanism is `proxy`.
    """

    setup: str
    mechanism: str
    figure: str
    live: float
    simulated: Interval
    packets: Interval | None

    @property
    def difference(self) -> float:
        """By what part the simulated figure is larger than the live one."""
        return self.simulated.mean / self.live - 1

    @property
    def agrees(self) -> bool:
        """Whether the two are close."""
        return abs(self.difference) <= WITHIN

    @property
    def cause(self) -> str:
        """Why they differ, as far as an experiment shows it."""
        return "" if self.agrees else cause(self.setup, self.mechanism)

    def claim(self) -> Claim:
        """Of what differs for no known reason there is no claim: the difference is recorded."""
        text = f"{self.setup}, {self.mechanism}: {self.figure}"
        if not self.agrees and not self.cause:
            return Claim.open(f"{text} (live {self.live:g}, cause unknown)", self.simulated)
        bounds = (self.live * (1 - WITHIN), self.live * (1 + WITHIN))
        return Claim.number(text, f"{self.live:g} (live)", self.simulated, bounds, why=self.cause)


def points(rows: Sequence[Row]) -> Points:
    """The mechanisms of each setup; where there is a proxy, also a gateway that sees each packet."""
    found: dict[str, list[str]] = {}
    for row in rows:
        names = found.setdefault(row.setup, [])
        names += [row.mechanism] + ([PACKETS] if row.mechanism == PROXY else [])
    return {setup: tuple(dict.fromkeys(names)) for setup, names in found.items()}


def pairs(rows: Sequence[Row], results: Results) -> list[Pair]:
    """The live figures of these rows beside the simulated ones."""
    measured = Measured(results)
    ways = {MEAN: measured.mean, P99: measured.p99, PER_S: measured.per_s}

    def of(setup: str, mechanism: str, figure: str) -> Interval:
        if figure in ways:
            return ways[figure](setup, mechanism)
        return measured.of(setup, mechanism, {LINE: "goodput", SERVICE: "service_s", SCORE: "mos"}[figure])

    return [
        Pair(
            row.setup,
            row.mechanism,
            figure,
            live,
            of(row.setup, row.mechanism, figure),
            of(row.setup, PACKETS, figure) if row.mechanism == PROXY else None,
        )
        for row in rows
        for figure, live in row.figures()
    ]


@experiment("dimogerontakis2017:live", title="The live testbed beside the simulator")
def live(setting: Setting) -> Steps:
    """Every figure of docs/testbed.md that a scenario can express, of best effort, borrowing and proxy.

    A simulated figure is to be within 15 % of the live one.
    """
    chosen = setting.pick(SHORT, LIVE)
    found = pairs(chosen, (yield cases(points(chosen), setting)))
    rows = [
        [
            pair.setup,
            pair.mechanism,
            pair.figure,
            pair.live,
            pair.simulated,
            f"{100 * pair.difference:+.0f} %",
            pair.packets,
            "agrees" if pair.agrees else pair.cause or "cause unknown",
        ]
        for pair in found
    ]
    columns = ("setup", "mechanism", "figure", "live", "simulated", "difference", "packets", "within 15 %")
    count = sum(pair.agrees for pair in found)
    summary = Claim.open("figures that are within 15 % of the live ones", f"{count} of {len(found)}")
    notes = (
        "The live gateway sees its packets' delays through a packet socket and reads through sockets: it is between "
        "`proxy` and `packets`. Live rows are medians over few rounds; simulated ones are means over seeds.",
    )
    caption = "Live figures beside simulated ones. Hollow: they differ by more than 15 %."
    return Outcome(
        [summary, *(pair.claim() for pair in found)],
        [Figure("live", caption, lambda canvas: draw(canvas, found), (6.0, 5.4))],
        [Table("live", "Live figures beside simulated ones.", columns, rows)],
        notes,
    )


def draw(canvas, found: list[Pair]) -> None:
    """Simulated figures over live ones."""
    axes = canvas.subplots()
    looks = {BEST: ("orange", "o"), BORROWING: ("grey", "D"), AT_LINE: ("teal", "v"), PROXY: ("blue", "s")}
    for mechanism, (colour, marker) in looks.items():
        for agrees in (True, False):
            # Zeros have no place on a logarithmic axis.
            some = [p for p in found if p.mechanism == mechanism and p.agrees == agrees and p.simulated.mean > 0.01]
            face = PALETTE[colour] if agrees else "none"
            label = mechanism if agrees else None
            x, y = [p.live for p in some], [p.simulated.mean for p in some]
            axes.plot(x, y, marker, color=PALETTE[colour], markerfacecolor=face, label=label)
    ends = (0.2, 500)
    axes.plot(ends, ends, color=PALETTE["grey"], linewidth=0.8)
    for side in (1 - WITHIN, 1 + WITHIN):
        axes.plot(ends, [side * end for end in ends], color=PALETTE["grey"], linewidth=0.6, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    frame(axes, "live", "simulated")
