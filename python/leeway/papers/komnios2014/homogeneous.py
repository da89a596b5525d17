"""Figures 1 to 6: all flows of one law, over the number of flows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.lab.experiment import Steps
from leeway.papers.common import PALETTE, curve, frame, law_name, look
from leeway.papers.komnios2014.network import BACKHAULS, LAWS, QUEUE_NAMES, Curves, bulk, numbers, scenario

QUICK_FLOWS = (2, 3, 4, 6, 9, 12, 16, 22, 30, 38, 48, 64, 80, 96)
FULL_FLOWS = tuple(range(2, 97))

# Causes of what differs, each shown by the experiment that it names.
FLOOR = (
    "komnios2014:difference-floor: windows of at least one packet do not all fit; those that time out back off, "
    "and the others keep their packet"
)
SLOW_START = (
    "komnios2014:difference-slow-start: LEDBAT comes out of every timeout by slow start, as NewReno does, and "
    "loses the second packet as often"
)
RED_DROPS = (
    "komnios2014:difference-red-drops: RED goes on dropping where DropTail's losses stop, and every loss takes the "
    "late-comer's advantage back"
)
PHASE = (
    "komnios2014:difference-phase: the round-trip time is exactly 30 packets, so packets arrive in phase with "
    "departures, and the same flows lose again and again"
)

PANELS = (
    ("eta", "link utilisation η", (0.6, 1.01)),
    ("fairness", "Jain's index F", (0.0, 1.02)),
    ("loss", "dropped / sent", (0.0, None)),
    ("fill", "mean queue / full queue, D_Q", (0.0, 1.02)),
)


def grid(setting: Setting, backhaul: str, queue: str) -> list[Case]:
    """NewReno, LEDBAT and fLEDBAT, N = 2 to 96, 30 seeds."""
    return [
        Case(
            scenario(backhaul, [bulk("ftp", spelling, flows)], queue),
            seed,
            {"backhaul": backhaul, "queue": queue, "law": law, "flows": flows},
        )
        for flows in setting.pick(QUICK_FLOWS, FULL_FLOWS)
        for law, spelling in LAWS.items()
        for seed in setting.seeds(quick=4, full=30)
    ]


def mark_regime(axes, start: int) -> None:
    """A line where the sub-packet regime begins."""
    axes.axvline(start - 0.5, color=PALETTE["grey"], linestyle=":", linewidth=1.2)


def draw_panels(curves: Curves, start: int) -> Callable:
    """η, F, loss and D_Q over N."""

    def draw(canvas) -> None:
        for axes, (metric, label, limits) in zip(canvas.subplots(2, 2, sharex=True).flat, PANELS, strict=True):
            for law in curves.values:
                style = look(law, marker=len(curves.flows) < 30)
                curve(axes, curves.flows, curves.points(law, metric), label=law_name(law), **style)
            frame(axes, "flows N" if metric in ("loss", "fill") else "", label, (0, 98), legend=metric == "fairness")
            axes.set_ylim(*limits)
            mark_regime(axes, start)
        canvas.tight_layout()

    return draw


def everywhere(curves: Curves, metric: str, law: str, other: str, margin: float) -> tuple[list[int], Interval]:
    """The N at which `law` is below `other` by more than `margin`, and the mean difference over
    all N."""
    differences = [curves.difference(metric, law, other, int(flows)) for flows in curves.flows]
    below = [int(flows) for flows, d in zip(curves.flows, differences, strict=True) if d.mean < -margin]
    return below, curves.difference(metric, law, other, curves.flows > 0)


def efficiency(curves: Curves, start: int) -> list[Claim]:
    """What the paper says about η, retransmissions and timeouts."""
    inside = curves.flows >= start
    claims = [
        Claim.number(
            f"Inside the regime {law_name(law)} fills the uplink",
            "almost always full",
            curves.interval(law, "eta", inside),
            (0.97, 1.0),
        )
        for law in LAWS
    ]
    alone = curves.difference("eta", "fledbat", "newreno", 2)
    claims.append(
        Claim.number("Outside the regime fLEDBAT under-uses: η minus NewReno's, 2 flows", "below 0", alone, (-1, -0.01))
    )
    for law in ("ledbat", "fledbat"):
        for metric, text in (("again", "retransmissions"), ("timeouts", "timeouts")):
            found = curves.ratio(metric, law, "newreno", inside)
            cause = SLOW_START if law == "ledbat" else FLOOR
            why = cause if metric == "timeouts" and found.mean > 0.999 else ""
            claims.append(
                Claim.number(
                    f"Inside, {law_name(law)}'s {text} over NewReno's", "below 1", found, (0.0, 0.999), why=why
                )
            )
    return claims


def fairness(curves: Curves, backhaul: str, queue: str, start: int) -> list[Claim]:
    """What the paper says about F."""
    outside, inside = curves.flows < start, curves.flows >= start
    below, mean = everywhere(curves, "fairness", "fledbat", "newreno", 0.02)
    tight = backhaul == "a"
    claims = [
        Claim.fact(
            "fLEDBAT is fairer than NewReno at every N",
            "yes",
            f"F above by {mean.text()} in the mean; below by more than 0.02 at N = {numbers(below)}",
            not below,
            accept="at no N is the mean F below NewReno's by more than 0.02",
            why=FLOOR if below else "",
        ),
    ]
    unfair = curves.difference("fairness", "ledbat", "fledbat", outside)
    claims.append(
        Claim.number(
            "Outside the regime LEDBAT is unfair (late-comer): F minus fLEDBAT's",
            "below 0",
            unfair,
            (-1.0, -0.02),
            why=RED_DROPS if unfair.mean > -0.02 and queue == "red" else "",
        )
    )
    claims.append(
        Claim.number(
            "Inside it is not: F minus NewReno's",
            "not below 0",
            curves.difference("fairness", "ledbat", "newreno", inside),
            (-0.1, 1.0),
        )
    )
    if tight:
        first = int(curves.flows[inside][0])
        for law in LAWS:
            change = Interval.of(curves.at(law, "fairness", 96) - curves.at(law, "fairness", first))
            claims.append(
                Claim.number(
                    f"{law_name(law)}'s fairness falls with N: F(96) - F({first})", "below 0", change, (-1, -0.05)
                )
            )
    return claims


def likeness(curves: Curves, where: np.ndarray) -> Interval:
    """Smallest over largest of the laws' loss."""
    values = np.array([curves.at(law, "loss", where) for law in LAWS])
    return Interval.of(values.min(axis=0) / values.max(axis=0))


def loss_and_queue(curves: Curves, backhaul: str, queue: str, start: int) -> list[Claim]:
    """What the paper says about loss and D_Q of one queue."""
    last = curves.flows >= 80
    middle = (curves.flows >= start) & (curves.flows <= start + 20)
    near, far = likeness(curves, middle), likeness(curves, last)
    claims = [
        Claim.fact(
            "The loss of the three laws converges as N grows",
            "yes",
            f"smallest over largest {near.text()} where the regime begins, {far.text()} from 80 flows on",
            far.mean > near.mean,
            accept="smallest over largest from 80 flows on is above that of the first 20 N of the regime",
        )
    ]
    for law in LAWS:
        found = curves.interval(law, "fill", last)
        name = f"{law_name(law)}: D_Q from 80 flows on"
        if queue == "red":
            continue
        if backhaul == "a":
            claims.append(Claim.number(name, "never reaches 1", found, (0.0, 0.97)))
        else:
            why = PHASE if backhaul == "c" and found.mean < 0.9 else ""
            claims.append(Claim.number(name, "converges to 1", found, (0.9, 1.0), why=why))
    return claims


def against_droptail(red: Curves, droptail: Curves) -> list[Claim]:
    """What the paper says about RED: more loss, a shorter queue."""
    claims = []
    everything = red.flows > 0
    for law in LAWS:
        loss = Interval.of(red.at(law, "loss", everything) - droptail.at(law, "loss", everything))
        fill = Interval.of(red.at(law, "fill", everything) - droptail.at(law, "fill", everything))
        name = law_name(law)
        claims.append(Claim.number(f"{name}: loss under RED minus DropTail's", "above 0", loss, (0.0, 1.0)))
        claims.append(Claim.number(f"{name}: D_Q under RED minus DropTail's", "below 0", fill, (-1.0, 0.0)))
    return claims


def table(name: str, curves: Curves) -> Table:
    """The curves as numbers, at a few N."""
    shown = [int(n) for n in curves.flows if n in QUICK_FLOWS]
    rows = [
        [
            law_name(law),
            n,
            *(curves.interval(law, metric, n) for metric in ("eta", "useful", "fairness", "loss", "fill")),
        ]
        for law in LAWS
        for n in shown
    ]
    columns = ("law", "N", "η", "goodput / C", "F", "dropped / sent", "D_Q")
    return Table(f"{name}-table", "The same as numbers.", columns, rows)


NOTES = (
    "The list of experiments names six figures and four metrics for three backhauls and two queues; here figures 1 "
    "to 3 are backhauls (a) to (c) under DropTail, 4 to 6 the same under RED, each with all four metrics.",
    "The target of LEDBAT and fLEDBAT is 100 ms. LEDBAT begins with slow start, as the TCP-Linux module does, "
    "fLEDBAT grows linearly. Nobody uses SACK. RED's other parameters are ns-2's. The dotted line is where C/N < "
    "P/RTT begins.",
)


def outcome(results: Results, name: str, backhaul: str, queue: str) -> Outcome:
    """Claims, figure and table of one backhaul under one queue."""
    start = BACKHAULS[backhaul].regime
    curves = Curves(results.where(queue=queue))
    claims = [
        *efficiency(curves, start),
        *fairness(curves, backhaul, queue, start),
        *loss_and_queue(curves, backhaul, queue, start),
    ]
    if queue == "red":
        claims += against_droptail(curves, Curves(results.where(queue="droptail")))
    caption = (
        f"Backhaul ({backhaul}), {QUEUE_NAMES[queue]}: utilisation, fairness, loss and mean queue over the number "
        "of flows, all of one law; means and 95 % intervals over seeds. The sub-packet regime begins at N = "
        f"{start}."
    )
    figure = Figure(name, caption, draw_panels(curves, start), size=(8.0, 6.0))
    return Outcome(claims, [figure], [table(name, curves)], NOTES)


def define(number: int, backhaul: str, queue: str) -> None:
    """Registers one of the six figures."""
    b = BACKHAULS[backhaul]
    name = f"fig{number}"

    def steps(setting: Setting) -> Steps:
        queues = ("droptail", "red") if queue == "red" else (queue,)
        results = yield [case for each in queues for case in grid(setting, backhaul, each)]
        return outcome(results, name, backhaul, queue)

    steps.__doc__ = f"""Backhaul ({backhaul}), {QUEUE_NAMES[queue]}, all flows of one law.

    Settings: uplink {b.up} kbit/s, downlink {b.down} kbit/s, RTT {b.rtt} ms, buffers of {b.buffer_up} and
    {b.buffer_down} packets; 2 to 96 bulk uploads of NewReno, LEDBAT or fLEDBAT (alpha 1, zeta 5), starting within 30 s;
    300 s, 30 seeds.

    Published: the uplink is almost always full; outside the sub-packet regime fLEDBAT under-uses; inside it LEDBAT and
    fLEDBAT are more efficient than TCP, which times out and retransmits more; fLEDBAT is fairer than NewReno
    everywhere; LEDBAT is unfair outside the regime and not inside; fairness falls with N in (a); the loss of all
    three converges as N grows, and is higher under RED; D_Q converges to its maximum in (b) and (c), never reaches it
    in (a), and is lower under RED.
    """
    title = (
        f"Backhaul ({backhaul}), {QUEUE_NAMES[queue]}: efficiency, fairness, loss and delay over the number of flows"
    )
    experiment(f"komnios2014:{name}", title)(steps)


for _number, (_queue, _backhaul) in enumerate(((q, b) for q in QUEUE_NAMES for b in BACKHAULS), start=1):
    define(_number, _backhaul, _queue)
