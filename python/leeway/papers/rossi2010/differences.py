"""Why two outcomes of Rossi et al. (ICCCN 2010) do not come out: each cause shown by an
experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Claim, Figure, Interval, Outcome, Setting, Table, experiment
from leeway.papers.common import PALETTE, bdp_packets, frame, history, look, thin
from leeway.papers.rossi2010.network import beside_tcp, ratio, twice, two_ledbat, utilisation, window_fairness

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run
    from leeway.lab.experiment import Steps

DURATION_S = 20
PACKETS = 10e6 * DURATION_S / (8 * 1500)
"""What the bottleneck carries in figure 2a."""


@experiment("rossi2010:difference-tcp-alone", title="How much TCP alone leaves of the link", kind="difference")
def tcp_alone(setting: Setting) -> Steps:
    """Figure 2a's utilisation is published as 16 % above that of TCP alone; here it is 3 %.

    A window that grows from one packet by one each round trip reaches the BDP of 42 packets after
    42 round trips. Only until then is the link not full, so the least that TCP alone can use
    follows without any simulation, and with it the most that any company can add.
    """
    results = yield [
        *twice(lambda jitter: beside_tcp(jitter, alone=True), setting, flows="TCP alone"),
        *twice(beside_tcp, setting, flows="both"),
    ]
    alone = results.one(flows="TCP alone", starts="published")
    both = results.where(flows="both")
    full = bdp_packets(10e6, 0.025)
    ramp = sum(full - window for window in range(1, full))
    expected = 1 - ramp / PACKETS
    most = 100 * (1 / utilisation(alone) - 1)

    def part(run: Run) -> float:
        return 100 / ratio(run)

    drawn = both.where(starts="drawn")
    return Outcome(
        claims=[
            Claim.fact(
                "TCP alone fills the link but for its first 42 round trips",
                "",
                f"{utilisation(alone):.3f}, against {expected:.3f} without the ramp",
                abs(utilisation(alone) - expected) < 0.015,
                accept="within 0.015 of 1 - (packets missing in the ramp) / (packets of 20 s)",
            ),
            Claim.fact(
                "the most that company can add to it is below 16 %",
                "16 % above TCP alone",
                f"{most:.1f} %",
                most < 11,
                accept="below 11 %, the lower end of what figure 2a's claim accepts",
            ),
            Claim.number(
                "LEDBAT's bytes are 16 % of TCP's in the same run, which is probably what was meant",
                "16 %",
                Interval(part(both.one(starts="published")), 0.0, 1),
                (10, 22),
                "%",
            ),
        ],
        tables=[
            Table(
                "tcp-alone",
                "Over 20 s; starts drawn within 50 ms",
                ("", "utilisation", "LEDBAT's bytes over TCP's (%)"),
                [
                    ["TCP alone", results.where(flows="TCP alone", starts="drawn").interval(utilisation), None],
                    ["TCP and LEDBAT", drawn.interval(utilisation), drawn.interval(part)],
                ],
            )
        ],
    )


REPAIRS = {
    "fast retransmit": {},
    "fast retransmit, SACK": {"sack": True},
    "timeout": {"dupthresh": 1000},
}
"""How the late-comer's loss is repaired, as choices of its TCP."""


@experiment("rossi2010:difference-repair", title="How the late-comer repairs its loss", kind="difference")
def repair(setting: Setting) -> Steps:
    """Figure 3, second LEDBAT flow 10 s later, 40 packets: close to fair after the loss was
    published; here F = 0.7.

    The loss drains the queue, so that both flows see the same base delay from then on. What
    differs is how deep the late-comer falls: to half its window, or, with a timeout in place of
    the fast retransmit, to one packet.
    """
    results = yield [
        case
        for name, tcp in REPAIRS.items()
        for case in twice(lambda jitter, tcp=tcp: two_ledbat(10, 40, 60, jitter, **tcp), setting, repair=name)
    ]

    def fair(run: Run) -> float:
        return window_fairness(run, 50)

    def exact(name: str) -> float:
        return fair(results.one(repair=name, starts="published"))

    drawn = {name: results.where(repair=name, starts="drawn").interval(fair) for name in REPAIRS}
    accept = {"fast retransmit": (0.5, 0.85), "fast retransmit, SACK": (0.5, 0.85), "timeout": (0.95, 1)}
    return Outcome(
        claims=[
            Claim.fact(
                f"Jain's index of the windows at 50 s, repaired by {name}",
                "close to fair" if name == "timeout" else "",
                f"{exact(name):.3g}; starts drawn: {drawn[name].text()}",
                accept[name][0] <= exact(name) <= accept[name][1],
                accept=f"{accept[name][0]:g} to {accept[name][1]:g}",
            )
            for name in REPAIRS
        ],
        figures=[
            Figure(
                "repair",
                "Windows around the loss, repaired by a fast retransmit and by a timeout.",
                lambda canvas: _draw(
                    canvas,
                    {name: results.one(repair=name, starts="published") for name in ("fast retransmit", "timeout")},
                ),
                (8.0, 3.4),
            )
        ],
    )


def _draw(canvas: Canvas, runs: dict[str, Run]) -> None:
    for column, (axes, (name, run)) in enumerate(zip(canvas.subplots(1, 2, sharey=True), runs.items(), strict=True)):
        for flow, keywords in (("first", look("ledbat")), ("second", {"color": PALETTE["purple"]})):
            past = history(run, flow)
            axes.plot(*thin(past.time, past.cwnd), linewidth=1.4, label=flow, **keywords)
        label = "" if column else "window (packets)"
        frame(axes, "time (s)", label, (10, 60), (0, 90), not column, f"repaired by {name}")
    canvas.tight_layout()
