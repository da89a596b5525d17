"""Experiments that were never run, with every kind of claim, figure and table that a report can hold."""

from __future__ import annotations

import numpy as np

from leeway.lab.driver import Finished
from leeway.lab.experiment import Claim, Experiment, Figure, Outcome, Setting, Table
from leeway.lab.report import Context
from leeway.lab.statistics import Interval

HOSTILE = "<script>alert(\"x\")</script> & '|' *a*_b_ [c](javascript:d) `<i>`"

CONTEXT = Context(
    title="Demonstration",
    date="2014-06-30 12:00 UTC",
    engine="0.3.0+abcdef",
    packages={"numpy": "2.4.6", "matplotlib": "3.11.2"},
    python="3.11.2",
    machine="A processor, 2 cores, 4.0 GiB of memory",
    system="Debian GNU/Linux 12 (bookworm)",
    command="leeway-lab report --full --workers 2",
    wall_s=4321.0,
)


def finished() -> list[Finished]:
    """The list that a report is made of."""
    return [
        _done(_windows, "rossi2010:fig2a", "One TCP and one LEDBAT flow", _windows_outcome(), runs=10, cached=3),
        _done(_maps, "trang2014:fig3.4", "Right and wrong settings", _maps_outcome(), runs=29_000, full=True),
        _done(_broken, "trang2014:fig5.4", "Under active queue management", None, error=f"ValueError: {HOSTILE}"),
        _done(_cause, "difference:initial-window", "The initial window", _cause_outcome(), kind="difference", runs=6),
        _done(
            _score, "scoreboard:all", "Every law beside every primary", _score_outcome(), kind="scoreboard", runs=900
        ),
    ]


def _done(steps, name, title, outcome, *, error="", runs=1, cached=0, kind="paper", full=False) -> Finished:
    setting = Setting(full=full, seed_count=10)
    return Finished(Experiment(name, title, steps, kind), setting, outcome, error, runs, cached, runs * 0.21, 7.5, 10)


def _windows(setting):
    """C = 10 Mb/s, P = 1500, RTT = 50 ms, ``tau`` = 25 ms, B = 40.

    Reported: both ramp at 1 packet/RTT; LEDBAT flattens at the target soon after t = 2 s; F = 0.65.

    - first
    - second
    """


def _maps(setting):
    """Histograms of R and W by C, tau and gain; about 30,000 runs of 1000 s."""


def _broken(setting):
    """5 TCP and 5 LBE from t = 0."""


def _cause(setting):
    """One thing is changed: the initial window, from one packet to ten."""


def _score(setting):
    """All laws with their literature and RFC settings, over the union of all papers' networks."""


def _windows_outcome() -> Outcome:
    def windows(canvas):
        above, below = canvas.subplots(2, 1, sharex=True)
        t = np.linspace(0, 20, 4000)
        above.plot(t, 20 + 10 * np.sin(t), label="TCP")
        above.plot(t, 10 * np.abs(np.cos(t / 2)), label="LEDBAT")
        above.axhline(20.8, color="black", linestyle="--", label=r"target $\tau_0$")
        above.set_ylabel("window (packets)")
        above.legend()
        below.plot(t, 20 + 15 * np.sin(t * 1.3), color="C2")
        below.set_xlabel("time (s)")
        below.set_ylabel("queue (packets)")

    def broken(canvas):
        raise ZeroDivisionError("nothing was delivered")

    return Outcome(
        claims=[
            Claim.number("fairness of the two flows", "0.65", Interval(0.652, 0.004, 10), accept=(0.6, 0.7)),
            Claim.number(
                "utilisation above that of TCP alone",
                "16 %",
                Interval(3.1, 0.2, 10),
                accept=(11, 21),
                unit="%",
                why="difference:initial-window: alone, TCP fills 94 % of the link already",
            ),
            Claim.fact("TCP overflows the buffer", "slightly after 6 s", "10.1 s", False, why="it may be the `cwnd`"),
            Claim.fact("elsewhere", "a", "b", False, why="difference:absent-from-it: not known by this name"),
            Claim.open("timeouts of LEDBAT", Interval(2.5, 0.5, 10)),
            Claim.fact(HOSTILE, HOSTILE, HOSTILE, True, accept=HOSTILE),
        ],
        figures=[
            Figure("fig2a", "Windows and queue against time. LEDBAT yields at 6 s.", windows, (7, 5)),
            Figure("broken", "A figure with a mistake.", broken),
            Figure("hostile <b>", HOSTILE, lambda canvas: canvas.subplots().set_title("<b> & $x^2$")),
        ],
        tables=[
            Table(
                "shares",
                f"Share by target. {HOSTILE}",
                ["law", "target", "share", "loss", "runs"],
                [
                    ["ledbat", 25.0, Interval(0.123, 0.01, 10), 0.0, 10],
                    ["flower", None, Interval(0.08, 0.02, 10), float("nan"), np.int64(10)],
                    [HOSTILE, float("inf"), Interval(0.5, 0.1, 10), 1e-7, 123456],
                ],
            )
        ],
        notes=[
            "The *start* is drawn for each run.",
            HOSTILE,
            "Second\nline with [a link](https://www.rfc-editor.org/).",
        ],
    )


def _maps_outcome() -> Outcome:
    def histogram(canvas):
        left, right = canvas.subplots(1, 2, sharey=True)
        left.hist(np.random.default_rng(1).normal(size=500), bins=20)
        right.errorbar(range(5), range(5), yerr=0.4, fmt="o-", capsize=3)
        left.set_ylabel("runs")

    def heat(canvas):
        axes = canvas.subplots()
        mesh = axes.pcolormesh(np.random.default_rng(1).random((30, 40)))
        axes.grid(False)
        canvas.colorbar(mesh, label="share of LEDBAT")

    def cloud(canvas):
        x, y = np.random.default_rng(1).random((2, 20_000))
        canvas.subplots().scatter(x, y, s=2, alpha=0.5)

    def heavy(canvas):
        axes = canvas.subplots()
        for i in range(400):
            axes.plot(np.random.default_rng(i).random(60), linewidth=0.3)

    return Outcome(
        claims=[Claim.fact("R falls as C falls", "yes", "yes", True)],
        figures=[
            Figure("fig3.4", "Histograms of right and wrong.", histogram),
            Figure("heat", "Share of LEDBAT by buffer and target.", heat),
            Figure("cloud", "All runs.", cloud),
            Figure("heavy", "Too much for an SVG.", heavy),
        ],
        tables=[
            Table(
                "all settings",
                "One row a setting.",
                ["C (Mb/s)", "owd (ms)", "tau (ms)", "gain", "R", "W", "not clustered", "share of R"],
                [
                    [c, owd, 5, 1, i, 12, 2, i / 14]
                    for i, c in enumerate((1, 5, 10, 20, 50))
                    for owd in range(10, 250, 40)
                ],
            )
        ],
    )


def _cause_outcome() -> Outcome:
    return Outcome(
        claims=[Claim.fact("with ten packets the published time appears", "6 s", "6.1 s", True)],
        figures=[Figure("window", "The window.", lambda canvas: canvas.subplots().plot([1, 2, 4, 8]))],
    )


def _score_outcome() -> Outcome:
    laws = ["newreno", "cubic", "ledbat", "ledbat:target=5ms", "fledbat", "flower", "nice", "lp", "vegas"]
    columns = ["law", "harm, median", "harm, worst", "share of networks where it fails", "fairness among its own"]
    columns += ["late-comer", "loss caused", "delay added to a call (ms)", "spare use"]
    rows = [[law, *(Interval(0.1 * i, 0.01, 5 + j) for j in range(8))] for i, law in enumerate(laws)]
    return Outcome(tables=[Table("scoreboard", "Rows are laws, worst last.", columns, rows)])
