"""Figures 2 and 3: groups of CUBIC flows that come and go, and LEDBAT flows that fill the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leeway import Channel, Dumbbell, Run, Scenario, Window
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import MARKERS, PALETTE, curve, frame, with_causes
from leeway.papers.kuhn2013.laws import CUBIC, TARGETS_MS, flow, ledbat

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab.experiment import Steps

RATE_BPS = 5e6
DURATION_S = 300
GROUPS: dict[str, dict[str, tuple[float, float, float]]] = {
    "A": {"A": (300, 0, 300)},
    "B": {"B first half": (30, 0, 90), "B second half": (30, 180, 270)},
    "C": {"C": (75, 0, 225)},
}
"""The parts of each group of 100 CUBIC flows: how long they send and pause in turn, from when, and
until when (s).

So A sends in [0, 300]; B in [0, 30], [60, 90], [180, 210] and [240, 270]; C in [0, 75] and [150,
225].
"""

COUNTS = (0, 1, 10, 25, 50)
"""Numbers of LEDBAT flows."""

READINGS = {"LEDBAT from 0 to 300 s": 300, "LEDBAT from 0 to 90 s": 90}
"""How long the LEDBAT flows send (s); the table of times is ambiguous in print."""

WHOLE, SHORT = READINGS

METRICS = ("LEDBAT", "CUBIC", "both")


def scenario(
    count: int,
    target_ms: float,
    with_a: bool,
    end: float,
    *,
    gain: float = 1.0,
    access_rate: str | None = None,
    window: Sequence[Window] = (),
) -> Scenario:
    """The groups, and `count` LEDBAT flows that all start together and send until `end` (s)."""
    access = {"access_rate": access_rate, "access_delay": {"uniform": ["20 ms", "50 ms"]}}
    flows = [
        flow(name, CUBIC, count=100, **times, **access)
        for group in (GROUPS if with_a else ("B", "C"))
        for name, times in cubic_times(group).items()
    ]
    if count:
        flows.append(flow("ledbat", ledbat(target_ms, gain), count=count, start="0 s", **until(end), **access))
    return Scenario(
        duration=f"{DURATION_S} s",
        profile="rfc",
        dumbbell=Dumbbell(bottleneck=Channel(rate="5 Mbit/s", delay="250 ms", buffer="50 pkt", queue="droptail")),
        flow=flows,
        window=list(window),
    )


def cubic_times(group: str) -> dict[str, dict[str, Any]]:
    """When the parts of a group send, as fields of a flow."""
    return {
        name: {
            "app": {"kind": "on_off", "on": f"{span} s", "off": f"{span} s"} if span < DURATION_S else {"kind": "bulk"},
            "start": f"{start} s",
            **until(stop),
        }
        for name, (span, start, stop) in GROUPS[group].items()
    }


def until(end: float) -> dict[str, str]:
    """The field that ends a flow before the run does."""
    return {"stop": f"{end:g} s"} if end < DURATION_S else {}


def shares(run: Run) -> dict[str, float]:
    """Goodput of LEDBAT, of CUBIC and of both at the end, in % of the capacity."""
    goodput = {"LEDBAT": 0.0, "CUBIC": 0.0}
    for group in run.windows[0].groups:
        goodput["LEDBAT" if group.name.startswith("ledbat") else "CUBIC"] += 100 * group.goodput_bps / RATE_BPS
    return goodput | {"both": sum(goodput.values())}


def cases(setting: Setting, with_a: bool) -> list[Case]:
    """The grid; without LEDBAT flows neither target nor period matters."""
    counts = setting.pick((10, 50), COUNTS[1:])
    targets = setting.pick((5, 100), TARGETS_MS)
    seeds = setting.seeds(quick=4, full=20)
    alone = [Case(scenario(0, 5, with_a, DURATION_S), seed, {"count": 0}) for seed in seeds]
    return alone + [
        Case(scenario(count, target, with_a, end), seed, {"count": count, "target": target, "reading": reading})
        for reading, end in READINGS.items()
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
    "The printed table of transmission times is ambiguous. Two readings are run: LEDBAT flows send as long as the run "
    "lasts, or from 0 to 90 s. The published gains are only possible with the first, by which the claims are judged: "
    "the experiment kuhn2013:difference-ledbat-period shows why.",
    "CUBIC connections go on after a pause with the window they had, as an application of ns-2 that starts and stops; "
    "group B is the one exception: its second half, from 180 s, is a new connection. Each flow's access delay is drawn "
    "anew for each seed; a group's flows start together. Goodput is of application bytes, so 97.3 % is the most there "
    "is.",
    "Access links have their delay only. Their rate is that of the satellite; what it does to single flows depends on "
    "a queue that the paper does not give. The experiment kuhn2013:difference-access compares.",
)

TOLERANCE = 6
"""What is accepted as agreement in figure 2 (points of the capacity)."""

_GAIN = (
    "kuhn2013:difference-gain: with a gain of 1/target per millisecond, on top of the division by the target that the "
    "law already has, the published number comes out; with a gain of 1 LEDBAT fills the pauses with any target."
)

PUBLISHED = {5: {"CUBIC": -8, "LEDBAT": 28, "both": 20}, 100: {"CUBIC": -11, "LEDBAT": 22, "both": 11}}


@experiment("kuhn2013:fig2", title="LEDBAT flows beside two groups of CUBIC flows that come and go")
def fig2(setting: Setting) -> Steps:
    """Satellite 5 Mbit/s, 250 ms; access 5 Mbit/s with a delay in [20, 50] ms; queue of 50
    packets; 300 s.

    CUBIC in groups B and C of 100 flows; 0, 1, 10, 25 and 50 LEDBAT flows with targets of 5, 15,
    25 and 100 ms. Published: with 50 flows at 5 ms CUBIC gives up 8 % of the capacity, LEDBAT
    takes 28 %, the link gains 20 %; at 100 ms 11 %, 22 % and 11 %.
    """
    grid = Grid((yield cases(setting, with_a=False)))
    verbs = {"CUBIC": "CUBIC gives up", "LEDBAT": "LEDBAT takes", "both": "the link gains"}
    claims = []
    for target, values in PUBLISHED.items():
        for metric, change in values.items():
            sign = -1 if metric == "CUBIC" else 1
            found = {reading: grid.change(reading, target, 50, metric).scaled(sign) for reading in READINGS}
            text, published = f"50 flows, target {target} ms, {{}}: {verbs[metric]}", abs(change)
            accept = (published - TOLERANCE, published + TOLERANCE)
            claims += [
                Claim.number(text.format(WHOLE), f"{published} % of C", found[WHOLE], accept, "% of C", why=_GAIN),
                Claim.open(text.format(SHORT), found[SHORT], "% of C"),
            ]
    return Outcome(
        claims=with_causes(claims),
        figures=[grid.figure(f"fig2{letter}", reading) for letter, reading in zip("ab", READINGS, strict=True)],
        tables=[grid.table(f"fig2{letter}", reading) for letter, reading in zip("ab", READINGS, strict=True)],
        notes=_SILENT,
    )


@experiment("kuhn2013:fig3", title="LEDBAT flows beside CUBIC flows that never stop")
def fig3(setting: Setting) -> Steps:
    """As figure 2, with group A: 100 more CUBIC flows that send from 0 to 300 s. Published:
    open."""
    grid = Grid((yield cases(setting, with_a=True)))
    claims = [
        Claim.open(
            f"50 flows, target {target} ms, {reading}: LEDBAT; CUBIC; both, against without (% of C)",
            "; ".join(grid.change(reading, target, 50, metric).text() for metric in METRICS),
        )
        for reading in READINGS
        for target in grid.targets
    ]
    return Outcome(
        claims=claims,
        figures=[grid.figure(f"fig3{letter}", reading) for letter, reading in zip("ab", READINGS, strict=True)],
        tables=[grid.table(f"fig3{letter}", reading) for letter, reading in zip("ab", READINGS, strict=True)],
        notes=_SILENT,
    )
