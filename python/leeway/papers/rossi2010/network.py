"""The paper's dumbbell and flows, and how a claim without chance in it is judged."""

from __future__ import annotations

from collections.abc import Callable

from leeway import Channel, Dumbbell, Flow, Run, Scenario, Series, Window
from leeway.lab import Case, Claim, Interval, Setting
from leeway.lab import jain as jain_index
from leeway.papers.common import history

TARGET_MS = 25.0
TARGET_PKT = 20.8
ROUND_TRIP_S = 0.05
TCP = "newreno:slow_start=none"
LEDBAT = "ledbat:target=25ms,base_history=0,filter_length=1,slow_start=none,floor=1,window=whole"
FIG3 = ((2, 40), (10, 40), (10, 100))
"""Start of the second flow (s) and buffer (packets) of figure 3's cases."""


def scenario(
    flows: list[Flow],
    buffer: int,
    duration: float,
    *,
    rate_mbps: float = 10,
    window: Window | None = None,
    series: bool = True,
) -> Scenario:
    """The paper's dumbbell, with series every 10 ms."""
    return Scenario(
        duration=f"{duration:g} s",
        profile="ns2",
        dumbbell=Dumbbell(
            bottleneck=Channel(rate=f"{rate_mbps:g} Mbit/s", delay="25 ms", buffer=f"{buffer} pkt", queue="droptail")
        ),
        flow=flows,
        window=[window] if window else [],
        series=Series(every="10 ms") if series else None,
    )


def flow(name: str, law: str, start: float = 0.0, jitter: float = 0.0, **tcp: object) -> Flow:
    """A flow that begins with one packet, at `start` (s) or up to `jitter` (s) later."""
    begin = {"uniform": [f"{start:g} s", f"{start + jitter:g} s"]} if jitter else f"{start:g} s"
    role = "primary" if law.startswith("newreno") else "background"
    return Flow(name=name, law=law, role=role, start=begin, tcp={"initial_window": 1, **tcp})


def beside_tcp(jitter: float = 0.0, alone: bool = False) -> Scenario:
    """Figure 2a: TCP and LEDBAT from the beginning; or TCP alone."""
    ledbat = [] if alone else [flow("ledbat", LEDBAT, jitter=jitter)]
    return scenario([flow("tcp", TCP, jitter=jitter), *ledbat], 40, 20)


def two_ledbat(delay: float, buffer: int, duration: float, jitter: float = 0.0, **tcp: object) -> Scenario:
    """Two LEDBAT flows, the second `delay` seconds later; `tcp` are choices of the second."""
    second = flow("second", LEDBAT, delay, jitter, **tcp)
    return scenario([flow("first", LEDBAT, jitter=jitter), second], buffer, duration)


def twice(make: Callable[[float], Scenario], setting: Setting, **labels: object) -> list[Case]:
    """The published case, and the same with starts drawn within one round trip."""
    seeds = setting.seeds(quick=5, full=30)
    drawn = [Case(make(ROUND_TRIP_S), seed, {**labels, "starts": "drawn"}) for seed in seeds]
    return [Case(make(0.0), 1, {**labels, "starts": "published"}), *drawn]


def judged(
    text: str,
    published: str,
    exact: float,
    drawn: Interval | None,
    accept: tuple[float, float],
    unit: str = "",
    why: str = "",
) -> Claim:
    """A claim judged by the published starts; what comes out of drawn ones stands beside it."""
    claim = Claim.number(text, published, Interval(exact, 0.0, 1), accept, unit, why=why)
    found = f"{exact:.3g}{f' {unit}' if unit else ''}"
    if drawn is not None:
        found += f"; starts drawn: {drawn.text(unit)}"
    return Claim(text, published, found, claim.holds, "" if claim.holds else why, claim.accept)


def ratio(run: Run) -> float:
    """TCP's bytes over LEDBAT's."""
    groups = run.windows[0].group
    return groups("tcp").throughput_bps / groups("ledbat").throughput_bps


def fairness(run: Run) -> float:
    """Jain's index of the whole run, or of its window."""
    return run.windows[0].jain


def utilisation(run: Run) -> float:
    """Utilisation of the bottleneck."""
    return run.windows[0].link().utilisation


def window_fairness(run: Run, at: float) -> float:
    """Jain's index of the two windows at an instant (s): the shares while both see the same
    round-trip time."""
    return jain_index([history(run, name).cwnd_at(at) for name in ("first", "second")])
