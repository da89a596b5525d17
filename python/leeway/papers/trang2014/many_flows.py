"""Many background flows beside many TCP flows: figure 3.9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import curve, frame, law_name, look
from leeway.papers.trang2014.common import RECOVERY, background, ledbat, network, part, tcp

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run, Scenario
    from leeway.lab.experiment import Steps

BUFFER = 84
LAWS = {"ledbat": ledbat(5, 10), "nice": "nice", "lp": "lp:reset=on"}


def scenario(flows: int, law: str | None) -> Scenario:
    """So many TCP flows beside as many of the law, or alone."""
    groups = [tcp(count=flows, start={"uniform": ["0 s", "200 s"]})]
    if law:
        groups.append(background("lbe", LAWS[law], count=flows, start={"uniform": ["300 s", "500 s"]}))
    return network(groups, 1200, BUFFER, windows={"end": (600, 1200)}, title=f"{flows} TCP, {law or 'alone'}")


@experiment("trang2014:fig3.9", title="N background flows beside N TCP flows")
def fig3_9(setting: Setting) -> Steps:
    """An aggregate of less-than-best-effort flows stops being one.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 84; N LBE and N TCP flows, N in {1, 10, 20, 40, 60, 80,
    100}; TCP starts drawn from 0 to 200 s, LBE from 300 to 500 s, 1200 s, metrics over the last
    600 s. LBE in LEDBAT (5 ms; 10), Nice, TCP-LP; baseline N TCP alone; TCP released = part of the
    capacity of TCP beside LBE over that of TCP alone.

    Published: LBE aggregates stop being LBE as N grows; LEDBAT's mean window is 1.3 packets at N =
    100. How much TCP loses there: open.

    Accepted: LEDBAT's mean window at the largest N 1.0 to 1.6 packets; for LEDBAT, Nice and TCP-LP
    the part of the LBE aggregate at the largest N at least 0.1 of the capacity and at least twice
    what one flow takes.
    """
    numbers = setting.pick((1, 20, 100), (1, 10, 20, 40, 60, 80, 100))
    seeds = setting.seeds(quick=2, full=10)
    results = yield [
        Case(scenario(n, law), seed, {"n": n, "law": law}) for n in numbers for law in (None, *LAWS) for seed in seeds
    ]
    taken = {key: runs.interval(part("lbe")) for key, runs in results.groups("law", "n") if key[0]}
    released = {(law, n): _released(results, law, n) for law in LAWS for n in numbers}
    windows = {n: results.where(n=n, law="ledbat").interval(_window) for n in numbers}
    most = numbers[-1]
    claims = [
        Claim.number(f"LEDBAT's mean window at N = {most} (packets)", "1.3", windows[most], (1.0, 1.6)),
        *(
            Claim.fact(
                f"{law_name(law)} stops being LBE as N grows (its part of the capacity)",
                "yes",
                f"{taken[law, 1]} at N = 1, {taken[law, most]} at N = {most}",
                taken[law, most].mean >= max(0.1, 2 * taken[law, 1].mean),
                accept=f"at N = {most} at least 0.1 and twice that at N = 1",
            )
            for law in LAWS
        ),
        *(Claim.open(f"TCP released beside {law_name(law)} at N = {most}", released[law, most]) for law in LAWS),
    ]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "fig3.9",
                "Part of the capacity that the LBE aggregate takes, and what TCP keeps of what it has alone; mean "
                "and 95 % interval.",
                lambda canvas: _draw(canvas, numbers, taken, released),
                size=(9.0, 3.8),
            )
        ],
        tables=[
            Table(
                "fig3.9",
                "Parts of the capacity, TCP released, and the mean window of a LEDBAT flow",
                [
                    "N",
                    *(f"{law_name(law)}: part" for law in LAWS),
                    *(f"{law_name(law)}: TCP released" for law in LAWS),
                    "LEDBAT: window (pkt)",
                ],
                [
                    [n, *(taken[law, n] for law in LAWS), *(released[law, n] for law in LAWS), windows[n]]
                    for n in numbers
                ],
            )
        ],
        notes=[
            RECOVERY,
            "TCP-LP is the kernel's, which TCP-Linux runs: an indication also resets the extremes of the delay. Nice "
            "has the parameters of its paper; its window may fall below one packet.",
            "TCP released compares runs with the same seed, whose TCP flows start at the same instants.",
        ],
    )


def _window(run: Run) -> float:
    return run.window().group("lbe").cwnd_mean_pkt


def _released(results: Results, law: str, n: int) -> Interval:
    beside, alone = results.where(n=n, law=law), results.where(n=n, law=None)
    pairs = zip(beside.values(part("tcp")), alone.values(part("tcp")), strict=True)
    return Interval.of(with_lbe / without for with_lbe, without in pairs)


def _draw(canvas: Canvas, numbers, taken, released) -> None:
    left, right = canvas.subplots(1, 2, sharex=True)
    for axes, values, label in ((left, taken, "utilisation of LBE"), (right, released, "TCP released")):
        for law in LAWS:
            curve(axes, numbers, [values[law, n] for n in numbers], label=law_name(law), **look(law, marker=True))
        frame(axes, "N", label, ylim=(0, 1.02), legend=axes is left)
    left.axhline(0.5, color=look("newreno")["color"], linewidth=0.8, linestyle=":")
