"""Settings and metrics that the thesis's experiments share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leeway import Channel, Dumbbell, Flow, Scenario, Series, Window
from leeway.papers.common import PALETTE, frame, history, law_name, look, queue_history, thin

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from leeway import Run

RATE = 10
"""Capacity in Mbit/s, unless an experiment says otherwise."""

OWD = 50
"""One-way propagation delay of the bottleneck in ms, unless an experiment says otherwise."""

PACKET_BITS = 12_000

CUBIC = "cubic:flavour=2010"
FLOWER = "flower"

RECOVERY = (
    "Recovery: NewReno is ns-2's own agent, without SACK; the laws that run as TCP-Linux modules (LEDBAT, FLOWER, "
    "CUBIC, Nice, TCP-LP) recover with SACK, as that agent does. Initial window 2, no delayed ACKs, timeouts of 200 "
    "ms at least."
)
BUFFERS = (
    "A buffer of n BDP is n C 2 owd, rounded up once, at the end: 1.1 BDP are then the 92 packets that the thesis uses "
    "(rounding the BDP to 84 packets first would give 93)."
)
PHASES = (
    "Packets of equal size through one drop-tail queue lock in phase, so one run proves little. Beside the paper's own "
    "starts the experiment is repeated with starts drawn within one round trip (100 ms) after them; intervals are over "
    "those runs."
)
JITTER = 0.1
"""Within how many seconds starts are drawn where the paper's own are fixed."""


def bdp(rate: int = RATE, owd: int = OWD, tenths: int = 10) -> int:
    """So many tenths of a bandwidth-delay product in packets, rounded up; `rate` in Mbit/s, `owd`
    in ms."""
    return -(-tenths * rate * 2 * owd * 1000 // (10 * PACKET_BITS))


def drain_ms(packets: float, rate: float = RATE) -> float:
    """Delay of a queue of this number of packets at `rate` Mbit/s, in ms."""
    return packets * PACKET_BITS / (rate * 1000)


def ledbat(target: int = 100, gain: int = 1) -> str:
    """LEDBAT as the TCP-Linux module has it: RFC 6817 with the slow start and the loss reaction of
    TCP.

    Parameters
    ----------
    target
        Queuing delay aimed at, ms.
    gain
        Gain of the decrease above it.
    """
    decrease = f",gain_down={gain}" if gain != 1 else ""
    return f"ledbat:target={target}ms,slow_start=standard,floor=1{decrease}"


def tcp(law: str = "newreno", name: str = "tcp", **fields: Any) -> Flow:
    """Ordinary TCP: NewReno as ns-2 has it, without SACK; CUBIC as TCP-Linux has it, with it."""
    return Flow(name=name, law=law, tcp={} if law == "newreno" else {"sack": True}, **fields)


def background(name: str, law: str, **fields: Any) -> Flow:
    """One flow or several of a less-than-best-effort law, as TCP-Linux has them."""
    return Flow(name=name, role="background", law=law, tcp={"sack": True}, **fields)


def at(start: float, spread: float = 0.0) -> str | dict[str, list[str]]:
    """A start: that instant (s), or anything within `spread` seconds after it."""
    return {"uniform": [f"{start:g} s", f"{start + spread:g} s"]} if spread else f"{start:g} s"


def network(
    flows: Sequence[Flow],
    duration: float,
    buffer: int,
    rate: int = RATE,
    owd: int = OWD,
    queue: str = "droptail",
    windows: Mapping[str, tuple[float, float]] | None = None,
    every: str | None = None,
    title: str = "",
) -> Scenario:
    """The thesis's dumbbell.

    Parameters
    ----------
    flows
        Who sends.
    duration
        Length of the run, s.
    buffer
        Of the bottleneck, packets.
    rate, owd
        Mbit/s; ms.
    queue
        Discipline of the bottleneck.
    windows
        From and to of each window in which metrics are taken, s; without any it is the whole run.
    every
        Period of the series; none without it.
    title
        For charts.
    """
    return Scenario(
        title=title,
        duration=f"{duration:g} s",
        profile="rfc",
        dumbbell=Dumbbell(
            bottleneck=Channel(rate=f"{rate} Mbit/s", delay=f"{owd} ms", buffer=f"{buffer} pkt", queue=queue)
        ),
        flow=list(flows),
        window=[Window(name=name, from_=f"{a:g} s", to=f"{b:g} s") for name, (a, b) in (windows or {}).items()],
        series=Series(every=every) if every else None,
    )


def part(name: str, window: str | None = None) -> Callable[[Run], float]:
    """Metric: the part of the capacity that group `name` takes."""
    return lambda run: _group(run, name, window).capacity_share or 0.0


def share(name: str, window: str | None = None) -> Callable[[Run], float]:
    """Metric: group `name`'s part of all that was delivered."""
    return lambda run: _group(run, name, window).share or 0.0


def ratio(one: str, other: str, window: str | None = None) -> Callable[[Run], float]:
    """Metric: throughput of group `one` over that of `other`."""
    return lambda run: share(one, window)(run) / max(share(other, window)(run), 1e-9)


def _group(run: Run, name: str, window: str | None):
    return (run.window(window) if window else run.window()).group(name)


def instant(value: float) -> str:
    """In words: an instant, or that it never came."""
    return "never" if math.isinf(value) else f"{value:.1f} s"


def percent(value: float) -> str:
    """In words: a part as a percentage."""
    return f"{100 * value:.3g} %"


def draw_windows(
    axes: Axes, run: Run, flows: Mapping[str, str], title: str = "", x: str = "", legend: bool = True
) -> None:
    """Congestion windows against time.

    Parameters
    ----------
    axes, run
        Where, and of which run.
    flows
        Names of flows, each with the law whose look it has.
    title, x, legend
        Title and label of the x axis, if any; whether there is a legend.
    """
    several = len(set(flows.values())) < len(flows)
    for index, (name, law) in enumerate(flows.items()):
        line = history(run, name)
        time, cwnd = thin(line.time, line.cwnd, points=2500)
        colour = list(PALETTE.values())[index] if several else look(law)["color"]
        label = f"{law_name(law)}, {name}" if several else law_name(law)
        axes.plot(time, cwnd, color=colour, linewidth=1.0, label=label)
    frame(axes, x, "cwnd (packets)", title=title, legend=legend)


def draw_queue(axes: Axes, run: Run, target: float | None = None, rate: float = RATE) -> None:
    """Queuing delay of the bottleneck against time; the target (ms), if there is one, is a dashed
    line."""
    time, queue = thin(*queue_history(run), points=2500)
    axes.plot(time, drain_ms(1, rate) * queue, color=PALETTE["grey"], linewidth=0.8)
    if target is not None:
        axes.axhline(target, color=PALETTE["orange"], linewidth=1.0, linestyle="--", label="target")
    frame(axes, "time (s)", "queuing delay (ms)", legend=False)


def from_zero(axes: np.ndarray) -> None:
    """Lets both axes begin at zero; only when all is drawn, as it also fixes the other ends."""
    for panel in axes.flat:
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
