"""LEDBAT at settings that make it yield: tables 3.1 and 3.2, figures 3.7 and 3.8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.common import history, with_causes
from leeway.papers.trang2014.common import (
    CUBIC,
    JITTER,
    PHASES,
    RECOVERY,
    at,
    background,
    draw_queue,
    draw_windows,
    from_zero,
    instant,
    ledbat,
    network,
    part,
    share,
    tcp,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway import Run, Scenario
    from leeway.lab.experiment import Steps

TIMES = (
    "Times: those of the grid (figure 3.4), which the thesis does not repeat here: LEDBAT from 0, TCP from 200 s, "
    "1000 s, parts of the capacity over the last 500 s."
)

LAWS = {"newreno": ("NewReno", "newreno"), "cubic": ("CUBIC", CUBIC)}


def beside(
    primary: str, setting: tuple[int, int] | None, buffer: int, spread: float, every: str | None = None
) -> Scenario:
    """TCP from 200 s beside LEDBAT (target in ms, gain) from 0, or alone, for 1000 s."""
    flows = [tcp(LAWS[primary][1], name=primary, start=at(200, spread))]
    if setting:
        flows.append(background("ledbat", ledbat(*setting), start=at(0, spread)))
    return network(
        flows, 1000, buffer, windows={"end": (500, 1000)}, every=every, title=f"{LAWS[primary][0]}, {_spelled(setting)}"
    )


def _spelled(setting: tuple[int, int] | None) -> str:
    return f"LEDBAT ({setting[0]} ms; {setting[1]})" if setting else "alone"


def _percent(results: Results, group: str) -> Interval:
    return results.interval(part(group)).scaled(100)


@experiment("trang2014:table3.1", title="NewReno beside LEDBAT at the best settings")
def table3_1(setting: Setting) -> Steps:
    """Parts of the capacity at the settings that the clustering recommends.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 84 (1 BDP) and 42 packets; NewReno alone, and beside
    LEDBAT at (tau; gain) = (25 ms; 1), (25 ms; 10), (5 ms; 10).

    Published, B = 84 (NewReno / LEDBAT, %): alone 99.99; 98.04 / 1.95; 98.02 / 1.97; 99.13 / 0.86.
    B = 42: open.

    Accepted: each within 1 percentage point.
    """
    seeds = setting.seeds(quick=3, full=20)
    settings = (None, (25, 1), (25, 10), (5, 10))
    published = {None: (99.99, None), (25, 1): (98.04, 1.95), (25, 10): (98.02, 1.97), (5, 10): (99.13, 0.86)}
    results = yield [
        Case(beside("newreno", chosen, buffer, JITTER), seed, {"buffer": buffer, "setting": chosen})
        for buffer in (84, 42)
        for chosen in settings
        for seed in seeds
    ]
    claims, rows = [], []
    for (buffer, chosen), runs in results.groups("buffer", "setting"):
        taken = {"newreno": _percent(runs, "newreno")} | ({"ledbat": _percent(runs, "ledbat")} if chosen else {})
        for group, reported in zip(taken, published[chosen], strict=False):
            text = f"B = {buffer}, {_spelled(chosen)}: {'NewReno' if group == 'newreno' else 'LEDBAT'}"
            if buffer == 84:
                accept = (max(reported - 1, 0.0), min(reported + 1, 100.0))
                claims.append(Claim.number(text, f"{reported} %", taken[group], accept, "%", digits=4))
            else:
                claims.append(Claim.open(text, taken[group], "%", digits=4))
        rows.append([buffer, _spelled(chosen), *published[chosen], taken["newreno"], taken.get("ledbat")])
        if buffer != 84:
            rows[-1][2:4] = [None, None]
    columns = ["B (pkt)", "background", "NewReno, published (%)", "LEDBAT, published (%)", "NewReno (%)", "LEDBAT (%)"]
    return Outcome(
        claims=claims,
        tables=[Table("table3.1", "Parts of the capacity, mean and 95 % interval over drawn starts", columns, rows)],
        notes=[RECOVERY, PHASES, TIMES],
    )


LOCAL = {"newreno": ((65, 1), (5, 10)), "cubic": ((80, 1), (5, 10))}


@experiment("trang2014:table3.2", title="Locally best settings beside the overall best")
def table3_2(setting: Setting) -> Steps:
    """The settings that are best for one buffer, beside those that are best over all.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 84; LEDBAT at (65 ms; 1) beside NewReno and (80 ms; 1)
    beside CUBIC, and at (5 ms; 10) beside either.

    Published: open.
    """
    seeds = setting.seeds(quick=3, full=20)
    results = yield [
        Case(beside(primary, chosen, 84, JITTER), seed, {"primary": primary, "setting": chosen})
        for primary, settings in LOCAL.items()
        for chosen in (None, *settings)
        for seed in seeds
    ]
    claims, rows = [], []
    for (primary, chosen), runs in results.groups("primary", "setting"):
        taken, used = _percent(runs, primary), runs.interval(lambda run: run.window().link().utilisation).scaled(100)
        background_part = _percent(runs, "ledbat") if chosen else None
        if chosen:
            found = f"{LAWS[primary][0]} {taken.text('%', 4)}, LEDBAT {background_part.text('%')}"
            claims.append(Claim.open(f"{LAWS[primary][0]} beside {_spelled(chosen)}", found))
        rows.append([LAWS[primary][0], _spelled(chosen), taken, background_part, used])
    columns = ["primary", "background", "primary (%)", "LEDBAT (%)", "utilisation (%)"]
    return Outcome(
        claims=claims,
        tables=[
            Table("table3.2", "Parts of the capacity, B = 84, mean and 95 % interval over drawn starts", columns, rows)
        ],
        notes=[
            RECOVERY,
            PHASES,
            TIMES,
            "That these are the best settings for this buffer is so only while LEDBAT remembers the empty path: "
            "trang2014:difference-base-history.",
        ],
    )


@experiment("trang2014:fig3.7", title="Windows at the locally best settings")
def fig3_7(setting: Setting) -> Steps:
    """Windows in time at the settings of table 3.2.

    Settings: those of table 3.2, one run each.

    Published: open.
    """
    results = yield [
        Case(beside(primary, chosen, 84, 0.0, every="100 ms"), labels={"primary": primary, "setting": chosen})
        for primary, settings in LOCAL.items()
        for chosen in settings
    ]
    runs = {(r.labels["primary"], r.labels["setting"]): r.run() for r in results}
    claims = [
        Claim.open(
            f"{LAWS[primary][0]} beside {_spelled(chosen)}: LEDBAT's mean window over the last 500 s; time until it "
            "first falls to one packet after TCP starts",
            f"{run.window().group('ledbat').cwnd_mean_pkt:.2f} packets; {instant(_yields(run))}",
        )
        for (primary, chosen), run in runs.items()
    ]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "fig3.7",
                "Windows and queuing delay (LEDBAT's target dashed), B = 84 packets, TCP from 200 s.",
                lambda canvas: _draw_settings(canvas, runs),
                size=(10.0, 4.6),
            )
        ],
        notes=[RECOVERY, TIMES],
    )


def _yields(run: Run) -> float:
    flow = history(run, "ledbat")
    return flow.when(flow.cwnd < 1.5, after=200) - 200


def _draw_settings(canvas: Canvas, runs: dict) -> None:
    axes = canvas.subplots(2, len(runs), sharex=True, sharey="row", height_ratios=[2, 1])
    for column, ((primary, chosen), run) in enumerate(runs.items()):
        flows = {primary: LAWS[primary][1], "ledbat": "ledbat"}
        draw_windows(axes[0][column], run, flows, title=f"({chosen[0]} ms; {chosen[1]})")
        draw_queue(axes[1][column], run, chosen[0])
        if column:
            axes[0][column].set_ylabel("")
            axes[1][column].set_ylabel("")
    from_zero(axes)


def late_comer(spread: float, setting: tuple[int, int] = (5, 10), every: str | None = None) -> Scenario:
    """Two LEDBAT flows, the second 20 s later, B = 84, 200 s."""
    flows = [
        background(name, ledbat(*setting), start=at(start, spread)) for name, start in (("first", 0), ("second", 20))
    ]
    return network(
        flows, 200, 84, windows={"end": (100, 200)}, every=every, title=f"two LEDBAT flows {_spelled(setting)}"
    )


@experiment("trang2014:fig3.8", title="Two LEDBAT flows at the best setting")
def fig3_8(setting: Setting) -> Steps:
    """The setting that makes LEDBAT yield to TCP does not make it fair to itself.

    Settings: C = 10 Mb/s, owd = 50 ms, B = 84; two LEDBAT flows at (5 ms; 10), the second 20 s
    later, 200 s.

    Published: the late-comer advantage persists.

    Accepted: the second flow's share of the last 100 s is 0.8 or more.
    """
    seeds = setting.seeds(quick=5, full=30)
    results = yield [
        Case(late_comer(0.0, every="20 ms"), labels={"own": True}),
        *(Case(late_comer(JITTER), seed, {"own": False}) for seed in seeds),
    ]
    own, drawn = results.one(own=True), results.where(own=False)

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        draw_windows(axes[0], own, {"first": "ledbat", "second": "ledbat"})
        draw_queue(axes[1], own, 5)
        from_zero(axes)

    return Outcome(
        claims=with_causes(
            [
                Claim.number(
                    "The second flow's share of the last 100 s",
                    "late-comer advantage",
                    drawn.interval(share("second")),
                    (0.8, 1.0),
                    why="trang2014:difference-slow-start: slow start takes the late-comer over the buffer's end, the "
                    "loss empties the queue, and it sees the true base delay; without slow start it takes nearly all",
                )
            ]
        ),
        figures=[
            Figure(
                "fig3.8", "Windows of two LEDBAT flows at (5 ms; 10), and queuing delay; the target is dashed.", draw
            )
        ],
        notes=[
            RECOVERY,
            PHASES,
            "Second start and buffer are not given: 20 s and 84 packets, as elsewhere in chapter 3.",
        ],
    )
