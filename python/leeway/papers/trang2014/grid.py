"""The grid of about 30,000 runs: for which settings LEDBAT yields; figures 3.4 and 3.5."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from leeway.lab import Case, Claim, Figure, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import PALETTE, frame, with_causes
from leeway.papers.trang2014.common import (
    BUFFERS,
    RECOVERY,
    at,
    background,
    bdp,
    drain_ms,
    ledbat,
    network,
    part,
    tcp,
)
from leeway.papers.trang2014.sampling import Share, by, draw, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Scenario
    from leeway.lab.experiment import Steps

RATES = (1, 5, 10, 20, 50)
OWDS = (10, 50, 100, 150, 200, 250)
TARGETS = (5, 25, 50, 75, 100)
GAINS = tuple(range(1, 11))

BUSY = 0.8
"""What TCP has to take of the capacity."""

NEAR = 0.15
"""How far LEDBAT's part may be from that at one BDP."""

QUICK = 200
"""Runs of each figure's sample at quick size."""

SEED = 1
"""Of the generator that draws a sample."""

CLUSTERING = (
    "Clustering: a row is one (C, owd, tau, gain) with all its buffers. If TCP takes less than 0.8 at one BDP the "
    "row has no reference, and all its buffers count as Wrong; the thesis does not say what becomes of them."
)
SAVED = (
    "Not simulated twice: where the whole buffer drains in less than the target the delay is never above it, so the "
    "gain of the decrease does not matter, and one run stands for all ten gains (15 % of the grid)."
)
SAMPLED = (
    "Sampled: from each (C, tau) the same number of points is drawn, spread evenly over gain, owd and B, each with "
    "its row's reference; bars are the estimated share times the number of points, error bars 95 % intervals "
    "(Wilson). `--full` runs every point; `--sample N` draws points for about N runs: 900 give both figures in about "
    "two minutes on 2 cores."
)


class Point(NamedTuple):
    """One run of the grid: Mbit/s, ms, ms, gain of the decrease, packets."""

    rate: int
    owd: int
    target: int
    gain: int
    buffer: int

    @property
    def reference(self) -> Point:
        """The point of the same row with a buffer of one BDP."""
        return self._replace(buffer=bdp(self.rate, self.owd))

    @property
    def run(self) -> Point:
        """The point whose run stands for this one: with gain 1 where the delay cannot pass the
        target."""
        waits = drain_ms(self.buffer + 1, self.rate)
        return self._replace(gain=1) if waits <= self.target else self


@cache
def buffers(rate: int, owd: int) -> tuple[int, ...]:
    """Buffers of 0.1 to 2.0 BDP in packets, without duplicates and without 1."""
    return tuple(sorted({bdp(rate, owd, tenths) for tenths in range(1, 21)} - {1}))


def cell(rate: int, target: int, gains: Sequence[int] = GAINS) -> list[Point]:
    """The points of one capacity and one target, ordered by gain, delay and buffer."""
    return [Point(rate, owd, target, gain, b) for gain in gains for owd in OWDS for b in buffers(rate, owd)]


def cells() -> Iterator[tuple[int, int]]:
    """All capacities with all targets."""
    return ((rate, target) for rate in RATES for target in TARGETS)


def scenario(point: Point) -> Scenario:
    """LEDBAT from 0, TCP from 200 s, 1000 s; measured over the last 500 s."""
    return network(
        [tcp(start=at(200)), background("ledbat", ledbat(point.target, point.gain))],
        duration=1000,
        buffer=point.buffer,
        rate=point.rate,
        owd=point.owd,
        windows={"end": (500, 1000)},
    )


def grid(points: Iterable[Point]) -> list[Case]:
    """The runs that these points need, their references among them; each once."""
    needed = dict.fromkeys(run for point in points for run in (point.run, point.reference.run))
    return [Case(scenario(run), labels={"point": run}) for run in needed]


def parts(results: Results) -> dict[Point, tuple[float, float]]:
    """Parts of the capacity of TCP and LEDBAT in each run."""
    measured = {}
    for result in results:
        run = result.run()
        measured[result.labels["point"]] = (part("tcp")(run), part("ledbat")(run))
    return measured


def right(point: Point, measured: Mapping[Point, tuple[float, float]]) -> bool:
    """Whether a point is Right: TCP takes 0.8, here and at one BDP, and LEDBAT within 0.15 of what
    it takes there."""
    tcp_part, ledbat_part = measured[point.run]
    tcp_reference, ledbat_reference = measured[point.reference.run]
    return tcp_part >= BUSY and tcp_reference >= BUSY and abs(ledbat_part - ledbat_reference) <= NEAR


def sample_size(setting: Setting) -> int | None:
    """About how many runs to draw; None for all of the grid."""
    return setting.sample or (None if setting.full else QUICK)


def chosen(line: Sequence[Point], runs: int | None, generator: np.random.Generator, cost: int = 2) -> list[Point]:
    """The points of a cell to look at, if `runs` runs are spread over all cells and each point
    costs `cost` of them."""
    if runs is None:
        return list(line)
    return draw(line, max(1, round(runs / (cost * len(RATES) * len(TARGETS)))), generator)


@experiment("trang2014:fig3.4", title="Right and Wrong by capacity and target")
def fig3_4(setting: Setting) -> Steps:
    """For which settings of LEDBAT does it stay out of TCP's way, whatever the buffer?

    Settings: C in {1, 5, 10, 20, 50} Mb/s, owd in {10, 50, 100, 150, 200, 250} ms, B = n BDP for n
    = 0.1 to 2.0 (duplicates and B = 1 dropped), tau in {5, 25, 50, 75, 100} ms, decrease gain 1 to
    10; LEDBAT from 0, TCP from 200 s, 1000 s, parts of the capacity over the last 500 s: 28,750
    points. At B = BDP, if TCP takes 0.8 or more, LEDBAT's part is the reference; a buffer is Right
    if LEDBAT's part is within 0.15 of it and TCP takes 0.8 or more, otherwise Wrong.

    Published: Right falls as C falls; tau = 5 ms wins overall.

    Accepted: the number of Right at each capacity is no higher than at the next larger one, and
    lower at 1 than at 50 Mb/s; the share at 5 ms is above that at any other target. In a sample:
    as far as intervals tell.
    """
    generator, runs = np.random.default_rng(SEED), sample_size(setting)
    points = {key: chosen(cell(*key), runs, generator) for key in cells()}
    results = yield grid(point for line in points.values() for point in line)
    measured = parts(results)
    shares = {key: share((right(p, measured) for p in line), len(cell(*key))) for key, line in points.items()}
    rates = {rate: found for (rate,), found in by(shares, 0).items()}
    targets = {target: found for (target,), found in by(shares, 1).items()}
    tables = [_table("fig3.4", "gains 1 to 10", shares)]
    if runs is None:
        tables += [_by_gain(points, measured), _by_delay(points, measured)]
    return Outcome(
        claims=with_causes(
            [
                Claim.fact(
                    "Right falls as C falls",
                    "yes",
                    "; ".join(f"{rate} Mb/s {_count(s)} of {s.size}, {s}" for rate, s in rates.items()),
                    rising([rates[rate] for rate in RATES]),
                    "trang2014:difference-displacement: at large C and long delays LEDBAT leaves slow start "
                    "with a window that TCP, growing by a packet per round trip, has not displaced by the end",
                    "numbers rise with C (in a sample: no step down beyond the intervals); 1 below 50 Mb/s",
                ),
                Claim.fact(
                    "A target of 5 ms has the most Right",
                    "yes",
                    "; ".join(f"{target} ms {found}" for target, found in targets.items()),
                    best(targets, 5),
                    accept="5 ms above every other (in a sample: not significantly below any)",
                ),
            ]
        ),
        figures=[
            Figure(
                "fig3.4",
                "Histogram of Right and Wrong by capacity and target, all gains of the decrease together.",
                lambda canvas: _draw(canvas, {"gains 1 to 10": shares}),
                size=(9.0, 3.4),
            )
        ],
        tables=tables,
        notes=[BUFFERS, RECOVERY, CLUSTERING, SAVED, *([] if runs is None else [SAMPLED])],
    )


@experiment("trang2014:fig3.5", title="Right and Wrong by capacity and target, decrease gain 1 against 10")
def fig3_5(setting: Setting) -> Steps:
    """What a larger gain of the decrease changes.

    Settings: the grid of figure 3.4; its runs with gain 1 against those with gain 10.

    Published: gain 10 wins overall, and (5 ms; 10) of all.

    Accepted: the share of Right with gain 10 above that with gain 1; (5 ms; 10) above every other
    target with either gain. In a sample the first with an interval of the difference above 0, the
    second as far as intervals tell.
    """
    generator, runs = np.random.default_rng(SEED), sample_size(setting)
    points = {key: chosen(cell(*key, gains=(1,)), runs, generator, cost=4) for key in cells()}
    both = {(*key, gain): [p._replace(gain=gain) for p in line] for key, line in points.items() for gain in (1, 10)}
    results = yield grid(point for line in both.values() for point in line)
    measured = parts(results)
    shares = {
        key: share((right(p, measured) for p in line), len(cell(*key[:2], gains=(1,)))) for key, line in both.items()
    }
    gains = {gain: found for (gain,), found in by(shares, 2).items()}
    settings = by(shares, 1, 2)
    ranked = sorted(settings.items(), key=lambda item: -item[1].mean)
    return Outcome(
        claims=with_causes(
            [
                Claim.fact(
                    "Gain 10 has more Right than gain 1",
                    "yes",
                    "; ".join(f"gain {gain} {found}" for gain, found in gains.items()),
                    gains[10].mean > gains[1].mean,
                    accept="above (a sample looks at the same points with both)",
                ),
                Claim.fact(
                    "(5 ms; 10) has the most Right",
                    "yes",
                    "; ".join(f"({target} ms; {gain}) {found}" for (target, gain), found in ranked),
                    best(settings, (5, 10)),
                    accept="above every other (in a sample: not significantly below any)",
                ),
            ]
        ),
        figures=[
            Figure(
                "fig3.5",
                "Histogram of Right and Wrong by capacity and target, decrease gain 1 above, 10 below.",
                lambda canvas: _draw(
                    canvas,
                    {f"gain {gain}": {key[:2]: s for key, s in shares.items() if key[2] == gain} for gain in (1, 10)},
                ),
                size=(9.0, 5.4),
            )
        ],
        tables=[
            _table("fig3.5, gain 1", "gain 1", {key[:2]: s for key, s in shares.items() if key[2] == 1}),
            _table("fig3.5, gain 10", "gain 10", {key[:2]: s for key, s in shares.items() if key[2] == 10}),
        ],
        notes=[BUFFERS, RECOVERY, CLUSTERING, SAVED, *([] if runs is None else [SAMPLED])],
    )


def rising(shares: Sequence[Share]) -> bool:
    """Whether no number is significantly above the next, and the first is significantly below the
    last."""
    steps = all(one.low * one.size <= other.high * other.size for one, other in itertools.pairwise(shares))
    return steps and shares[0].high * shares[0].size < shares[-1].low * shares[-1].size


def best(shares: Mapping, key: object) -> bool:
    """Whether the share under `key` is above all others; in a sample, whether none is
    significantly above it."""
    own = shares[key]
    others = [found for other, found in shares.items() if other != key]
    return all(own.mean > found.mean if own.counted else found.low <= own.high for found in others)


def _count(found: Share) -> int:
    return round(found.mean * found.size)


def _table(name: str, what: str, shares: Mapping[tuple[int, int], Share]) -> Table:
    rows = [
        [rate, target, found.size, _count(found), found.size - _count(found), str(found)]
        for (rate, target), found in shares.items()
    ]
    columns = ["C (Mb/s)", "tau (ms)", "points", "Right", "Wrong", "share of Right"]
    return Table(name, f"Right and Wrong by capacity and target, {what}", columns, rows)


def _by_gain(points: Mapping, measured: Mapping) -> Table:
    rows = []
    for gain in GAINS:
        found = {
            target: [
                right(p, measured) for (_, t), line in points.items() if t == target for p in line if p.gain == gain
            ]
            for target in TARGETS
        }
        rows.append([gain, *(f"{100 * np.mean(found[target]):.1f} %" for target in TARGETS)])
    return Table(
        "fig3.4, by gain",
        "Share of Right by gain and target, all capacities",
        ["gain", *(f"{t} ms" for t in TARGETS)],
        rows,
    )


def _by_delay(points: Mapping, measured: Mapping) -> Table:
    rows = []
    for owd in OWDS:
        found = {
            rate: [right(p, measured) for (r, _), line in points.items() if r == rate for p in line if p.owd == owd]
            for rate in RATES
        }
        rows.append([owd, *(f"{100 * np.mean(found[rate]):.1f} %" for rate in RATES)])
    return Table(
        "fig3.4, by delay",
        "Share of Right by one-way delay and capacity, all targets and gains",
        ["owd (ms)", *(f"{r} Mb/s" for r in RATES)],
        rows,
    )


def _draw(canvas: Canvas, rows: Mapping[str, Mapping[tuple[int, int], Share]]) -> None:
    axes = canvas.subplots(len(rows), len(RATES), sharex=True, sharey=True, squeeze=False)
    x = np.arange(len(TARGETS))
    for row, (title, shares) in enumerate(rows.items()):
        for column, rate in enumerate(RATES):
            panel = axes[row][column]
            found = [shares[rate, target] for target in TARGETS]
            size = np.array([f.size for f in found])
            for offset, colour, label, values in (
                (-0.2, PALETTE["green"], "R", [(f.mean, f.low, f.high) for f in found]),
                (0.2, PALETTE["red"], "W", [(1 - f.mean, 1 - f.high, 1 - f.low) for f in found]),
            ):
                mean, low, high = np.array(values).T * size
                panel.bar(x + offset, mean, 0.38, color=colour, label=label)
                if not all(f.counted for f in found):
                    error = np.clip([mean - low, high - mean], 0, None)
                    panel.errorbar(x + offset, mean, error, fmt="none", ecolor=PALETTE["grey"], elinewidth=1, capsize=2)
            panel.set_xticks(x, [str(target) for target in TARGETS])
            frame(
                panel,
                "tau (ms)" if row == len(rows) - 1 else "",
                f"points, {title}" if column == 0 else "",
                legend=False,
                title=f"{rate} Mb/s" if row == 0 else "",
            )
    top = max(found.size for shares in rows.values() for found in shares.values())
    axes[0][0].set_ylim(0, 1.25 * top)
    axes[0][0].legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
