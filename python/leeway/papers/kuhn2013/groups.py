"""Figures 2 and 3: groups of CUBIC flows that come and go, and LEDBAT flows that fill the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway import Channel, Dumbbell, Run, Scenario
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import MARKERS, PALETTE, curve, frame
from leeway.papers.kuhn2013.laws import CUBIC, TARGETS_MS, flow, ledbat

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab.experiment import Steps

RATE_BPS = 5e6
DURATION_S = 300
GROUPS = {
    "A": [[0, 300]],
    "B": [[0, 30], [60, 90], [180, 210], [240, 270]],
    "C": [[0, 75], [150, 225]],
}
"""When the 100 CUBIC flows of each group send (s)."""

COUNTS = (0, 1, 10, 25, 50)
"""Numbers of LEDBAT flows."""

READINGS = {"LEDBAT from 0 to 90 s": (0, 90), "LEDBAT from 0 to 300 s": (0, 300)}
"""When the LEDBAT flows send (s); the table of times is ambiguous in print."""

METRICS = ("LEDBAT", "CUBIC", "both")


def scenario(count: int, target_ms: float, with_a: bool, period: tuple[float, float]) -> Scenario:
    """The groups, and `count` LEDBAT flows that all start together and send for `period` (s)."""
    access = {"access_rate": "5 Mbit/s", "access_delay": {"uniform": ["20 ms", "50 ms"]}}
    flows = [
        flow(name, CUBIC, count=100, intervals=[[f"{a} s", f"{b} s"] for a, b in spans], **access)
        for name, spans in GROUPS.items()
        if with_a or name != "A"
    ]
    if count:
        spans = [[f"{period[0]:g} s", f"{period[1]:g} s"]]
        flows.append(flow("ledbat", ledbat(target_ms), count=count, intervals=spans, **access))
    return Scenario(
        duration=f"{DURATION_S} s",
        profile="ns2",
        dumbbell=Dumbbell(
            bottleneck=Channel(rate="5 Mbit/s", delay="250 ms", buffer="50 pkt", queue="droptail"),
        ),
        flow=flows,
    )


def shares(run: Run) -> dict[str, float]:
    """Goodput of LEDBAT, of CUBIC and of both at the end, in % of the capacity."""
    goodput = {"LEDBAT": 0.0, "CUBIC": 0.0}
    for group in run.window().groups:
        goodput["LEDBAT" if group.name == "ledbat" else "CUBIC"] += 100 * group.goodput_bps / RATE_BPS
    return goodput | {"both": sum(goodput.values())}


def cases(setting: Setting, with_a: bool) -> list[Case]:
    """The grid; without LEDBAT flows neither target nor period matters."""
    counts = setting.pick((10, 50), COUNTS[1:])
    targets = setting.pick((5, 100), TARGETS_MS)
    seeds = setting.seeds(quick=2, full=10)
    alone = [Case(scenario(0, 5, with_a, (0, 90)), seed, {"count": 0}) for seed in seeds]
    return alone + [
        Case(scenario(count, target, with_a, period), seed, {"count": count, "target": target, "reading": reading})
        for reading, period in READINGS.items()
        for target in targets
        for count in counts
        for seed in seeds
    ]


class Grid:
    """Shares of all cases, and what LEDBAT changed."""

    def __init__(self, results: Results):
        self._values = {}
        for result in results:
            labels = result.labels
            key = (labels.get("reading"), labels.get("target"), labels["count"])
            self._values.setdefault(key, []).append(shares(result.run()))
        self.targets = list(dict.fromkeys(key[1] for key in self._values if key[1]))
        self.counts = list(dict.fromkeys(key[2] for key in self._values))

    def _of(self, reading: str, target: float, count: int) -> list[dict[str, float]]:
        return self._values[(reading, target, count) if count else (None, None, 0)]

    def share(self, reading: str, target: float, count: int, metric: str) -> Interval:
        """A share (% of the capacity)."""
        return Interval.of(value[metric] for value in self._of(reading, target, count))

    def change(self, reading: str, target: float, count: int, metric: str) -> Interval:
        """How much more than without LEDBAT, seed by seed (points of the capacity)."""
        pairs = zip(self._of(reading, target, count), self._of(reading, target, 0), strict=True)
        return Interval.of(value[metric] - alone[metric] for value, alone in pairs)

    def table(self, name: str, reading: str) -> Table:
        """All cases of a reading."""
        rows = [
            [target, count, *(self.share(reading, target, count, metric) for metric in METRICS)]
            for target in self.targets
            for count in self.counts
        ]
        columns = ("target (ms)", "LEDBAT flows", *(f"{metric} (% of C)" for metric in METRICS))
        return Table(name, f"Goodput at the end of the run; {reading}", columns, rows)

    def figure(self, name: str, reading: str) -> Figure:
        """The shares against the number of LEDBAT flows, a curve for each target."""
        caption = f"Goodput of LEDBAT, CUBIC and both against the number of LEDBAT flows; {reading}."
        return Figure(name, caption, lambda canvas: self._draw(canvas, reading), (9.0, 3.6))

    def _draw(self, canvas: Canvas, reading: str) -> None:
        colours = ("orange", "green", "purple", "blue")
        for axes, metric in zip(canvas.subplots(1, 3, sharey=True), METRICS, strict=True):
            for target, colour, marker in zip(self.targets, colours, MARKERS, strict=False):
                values = [self.share(reading, target, count, metric) for count in self.counts]
                label = f"target {target} ms"
                curve(axes, self.counts, values, label=label, color=PALETTE[colour], marker=marker, markersize=4)
            first = metric == METRICS[0]
            label = "goodput (% of C)" if first else ""
            frame(axes, "LEDBAT flows", label, (-2, 52), (0, 100), first, metric)
        canvas.tight_layout()


_SILENT = (
    "The printed table of transmission times is ambiguous. Two readings are run: LEDBAT flows send from 0 to 90 s, "
    "or as long as the run lasts. Goodput is of application bytes, so 97.3 % is the most there is. Each flow's access "
    "delay is drawn anew for each seed; a group's flows start together, and each interval is a connection of its own."
)

_PUBLISHED = {5: {"CUBIC": -8, "LEDBAT": 28, "both": 20}, 100: {"CUBIC": -11, "LEDBAT": 22, "both": 11}}


@experiment("kuhn2013:fig2", title="LEDBAT flows beside two groups of CUBIC flows that come and go")
def fig2(setting: Setting) -> Steps:
    """Satellite 5 Mbit/s, 250 ms; access 5 Mbit/s with a delay in [20, 50] ms; queue of 50 packets; 300 s.

    CUBIC in groups B and C of 100 flows; 0, 1, 10, 25 and 50 LEDBAT flows with targets of 5, 15, 25 and 100 ms. Published:
    with 50 flows at 5 ms CUBIC gives up 8 % of the capacity, LEDBAT takes 28 %, the link gains 20 %; at 100 ms 11 %, 22 %
    and 11 %.
    """
    grid = Grid((yield cases(setting, with_a=False)))
    short, whole = READINGS
    verbs = {"CUBIC": "CUBIC gives up", "LEDBAT": "LEDBAT takes", "both": "the link gains"}
    claims = []
    for target, values in _PUBLISHED.items():
        for metric, published in values.items():
            sign = -1 if metric == "CUBIC" else 1
            found = {reading: grid.change(reading, target, 50, metric).scaled(sign) for reading in READINGS}
            size = sign * published
            accept = (size - 6, size + 6)
            claims.append(
                Claim.number(
                    f"50 flows, target {target} ms, {whole}: {verbs[metric]}",
                    f"{size} % of C",
                    found[whole],
                    accept,
                    "% of C",
                )
            )
            claims.append(Claim.open(f"50 flows, target {target} ms, {short}: {verbs[metric]}", found[short], "% of C"))
    return Outcome(
        claims=claims,
        figures=[grid.figure(f"fig2{letter}", reading) for letter, reading in zip("ab", (whole, short), strict=True)],
        tables=[grid.table(f"fig2{letter}", reading) for letter, reading in zip("ab", (whole, short), strict=True)],
        notes=[_SILENT],
    )


@experiment("kuhn2013:fig3", title="LEDBAT flows beside CUBIC flows that never stop")
def fig3(setting: Setting) -> Steps:
    """As figure 2, with group A: 100 more CUBIC flows that send from 0 to 300 s. Published: open."""
    grid = Grid((yield cases(setting, with_a=True)))
    claims = [
        Claim.open(
            f"50 flows, target {target} ms, {reading}: LEDBAT; CUBIC; both, against without (% of C)",
            "; ".join(grid.change(reading, target, 50, metric).text() for metric in METRICS),
        )
        for reading in READINGS
        for target in grid.targets
    ]
    short, whole = READINGS
    return Outcome(
        claims=claims,
        figures=[grid.figure(f"fig3{letter}", reading) for letter, reading in zip("ab", (whole, short), strict=True)],
        tables=[grid.table(f"fig3{letter}", reading) for letter, reading in zip("ab", (whole, short), strict=True)],
        notes=[_SILENT],
    )
