"""The three backhauls, the laws, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leeway import Channel, Dumbbell, Flow, Run, Scenario
from leeway.lab import Interval, Results

PACKET_BITS = 1500 * 8

LAWS = {
    "newreno": "newreno",
    "ledbat": "ledbat:slow_start=standard,floor=1",
    "fledbat": "fledbat:alpha=1,zeta=5,floor=1",
}
"""The laws as the study ran them, by their short names."""

QUEUES = {"droptail": "droptail", "red": "red:max=50%"}
"""RED without ECN: the upper threshold at half of the buffer, the lower one at a third of that."""

QUEUE_NAMES = {"droptail": "DropTail", "red": "RED"}


@dataclass(frozen=True, slots=True)
class Backhaul:
    """One of the scenarios (a), (b), (c): rates in kbit/s, round-trip time in ms, buffers in
    packets."""

    name: str
    up: int
    down: int
    rtt: int
    buffer_up: int
    buffer_down: int

    @property
    def regime(self) -> int:
        """The number of flows from which C/N < P/RTT."""
        return int(self.up * self.rtt / PACKET_BITS) + 1

    def dumbbell(self, queue: str = "droptail", buffer_factor: float = 1.0) -> Dumbbell:
        """Uplink and downlink; only the uplink's queue is varied, and its buffer may be a multiple
        of the paper's."""
        delay = f"{self.rtt / 2:g} ms"
        up = Channel(
            rate=f"{self.up} kbit/s",
            delay=delay,
            buffer=f"{round(self.buffer_up * buffer_factor)} pkt",
            queue=QUEUES[queue],
        )
        down = Channel(rate=f"{self.down} kbit/s", delay=delay, buffer=f"{self.buffer_down} pkt")
        return Dumbbell(bottleneck=up, reverse=down)


BACKHAULS = {
    "a": Backhaul("a", 58, 135, 900, 4, 10),
    "b": Backhaul("b", 600, 1200, 450, 22, 45),
    "c": Backhaul("c", 800, 2200, 450, 30, 82),
}


def bulk(name: str, law: str, count: int, role: str = "primary", **fields) -> Flow:
    """Bulk uploads that start within the first 30 s."""
    return Flow(name=name, law=law, count=count, role=role, start={"uniform": ["0 s", "30 s"]}, **fields)


def scenario(
    backhaul: str, flows: Iterable[Flow], queue: str = "droptail", buffer_factor: float = 1.0, **fields
) -> Scenario:
    """300 s of these flows on a backhaul."""
    return Scenario(
        duration="300 s",
        profile="rfc",
        dumbbell=BACKHAULS[backhaul].dumbbell(queue, buffer_factor),
        flow=list(flows),
        **fields,
    )


METRICS: dict[str, Callable[[Run], float]] = {
    "eta": lambda run: run.window().link().utilisation,
    "fairness": lambda run: run.window().jain,
    "loss": lambda run: run.window().groups[0].loss,
    "fill": lambda run: run.window().link().queue_fill,
    "again": lambda run: run.window().groups[0].retransmitted / run.window().groups[0].sent,
    "timeouts": lambda run: run.window().groups[0].timeouts,
    "useful": lambda run: run.window().groups[0].goodput_bps / run.window().link().capacity_bps,
}
"""Metrics of a run with one group of flows: η, F, dropped / sent, D_Q, retransmitted / sent,
timeouts, goodput / C."""


class Curves:
    """Metrics over the number of flows N: for each law an array with a row for each N and a column
    for each seed."""

    def __init__(self, results: Results):
        self.flows = np.array(sorted({result.labels["flows"] for result in results}))
        seeds = sorted({result.case.seed for result in results})
        laws = dict.fromkeys(result.labels["law"] for result in results)
        self.values = {law: {name: np.full((len(self.flows), len(seeds)), np.nan) for name in METRICS} for law in laws}
        for result in results:
            place = int(np.searchsorted(self.flows, result.labels["flows"])), seeds.index(result.case.seed)
            run = result.run()
            for name, metric in METRICS.items():
                self.values[result.labels["law"]][name][place] = metric(run)

    def at(self, law: str, metric: str, where: np.ndarray | int) -> np.ndarray:
        """The metric of each seed at one N, or its mean over the N selected by a mask."""
        values = self.values[law][metric]
        return values[np.flatnonzero(self.flows == where)[0]] if isinstance(where, int) else values[where].mean(axis=0)

    def interval(self, law: str, metric: str, where: np.ndarray | int) -> Interval:
        """The same, as an interval over the seeds."""
        return Interval.of(self.at(law, metric, where))

    def points(self, law: str, metric: str) -> list[Interval]:
        """An interval for each N."""
        return [Interval.of(row) for row in self.values[law][metric]]

    def difference(self, metric: str, law: str, other: str, where: np.ndarray | int) -> Interval:
        """`law` minus `other`, seed by seed."""
        return Interval.of(self.at(law, metric, where) - self.at(other, metric, where))

    def ratio(self, metric: str, law: str, other: str, where: np.ndarray | int) -> Interval:
        """`law` over `other`, seed by seed."""
        return Interval.of(self.at(law, metric, where) / self.at(other, metric, where))


def numbers(values: Sequence[int]) -> str:
    """``2, 3, 5 to 9`` of an ascending list."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ", ".join(parts) or "none"
