"""The live figures of docs/testbed.md (bench/testbed.py measures them) beside the simulated ones.

A figure agrees if the simulated one is within 15 % of the live one. Nothing of the simulation is
chosen so that figures agree: setups, durations and loads are those of `crates/testbed`, and the
rest is Linux's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

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
    """Live figures of a setup with a mechanism, in the order of `MEAN`, `P99` and `PER_S`; None
    where there is none."""

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
            # A part of nothing says nothing.
            if value:
                yield name, value


def measured_live() -> dict[str, Any]:
    """What bench/testbed.py measured: rows with setup, mechanism and figures, and how they were
    measured."""
    return json.loads(files(__package__).joinpath("live.json").read_text(encoding="utf-8"))


KEYS = {MEAN: "mean", P99: "p99", PER_S: "per_s", LINE: "part_of_line", SERVICE: "service_s", SCORE: "mos"}
"""The figures by their names in live.json."""
PLAYED = (BEST, BORROWING, AT_LINE, PROXY)
"""The mechanisms that a scenario has."""


def compared(setup: str) -> tuple[str, ...]:
    """The figures of a setup that say something."""
    if setup == "idle":
        return (LINE,)
    if setup == "underload":
        return (MEAN, SERVICE)
    if setup == "call":
        return (MEAN, P99, PER_S, SCORE)
    # Of rounds of 15 s the paper's figures show the mean.
    return (MEAN,) if setup.endswith((" kB", ", 15 s")) or setup.startswith("1:") else (MEAN, P99, PER_S)


def live_rows() -> tuple[Row, ...]:
    """The live figures of the mechanisms that a scenario has."""

    def row(found: dict[str, Any]) -> Row:
        names = compared(found["setup"])
        values = (found.get(key) if name in names else None for name, key in KEYS.items())
        return Row(found["setup"], found["mechanism"], *values)

    return tuple(row(found) for found in measured_live()["rows"] if found["mechanism"] in PLAYED)


LIVE = live_rows()
"""The live figures: medians over the rounds of bench/testbed.py."""
_SHORT = {"overload", "overload, 15 s", "deep", "changing", "greedy", "call", "underload", "idle", "0.5 BDP", "upload"}
SHORT = tuple(row for row in LIVE if row.setup in _SHORT or row.setup.startswith("users "))
"""The rows of the short form: lines of 1.72 Mbit/s."""


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
    """The mechanisms of each setup; where there is a proxy, also a gateway that sees each
    packet."""
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
    """Every figure of docs/testbed.md that a scenario can express, of best effort, borrowing and
    proxy.

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
