"""Table 1: two flows over a satellite whose queue never overflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway import Channel, Dumbbell, Run, Scenario, Series, Window
from leeway.lab import Case, Claim, Figure, Outcome, Setting, Table, experiment
from leeway.papers.common import frame, history, law_name, look, thin
from leeway.papers.kuhn2013.laws import CUBIC, VEGAS, flow, ledbat

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from leeway.lab.experiment import Steps

CASES: dict[int, tuple[str, str | None]] = {
    1: (CUBIC, None),
    2: (CUBIC, VEGAS),
    3: (CUBIC, ledbat(25)),
    4: (CUBIC, ledbat(100)),
    5: (VEGAS, ledbat(100)),
}
"""Law of the primary and of the secondary."""

QUEUES = ("1 BDP", "4 BDP", "16 BDP")
"""Finite queues that are tried beside the endless one."""

HEADINGS = ("case", "primary", "secondary", "primary (% of C)", "secondary (% of C)", "mean queue (s)")


def scenario(number: int, buffer: str = "unlimited", jitter: float = 0.0, slow_start: bool = True) -> Scenario:
    """One case; the secondary starts at 500 s, or up to `jitter` (s) later; LEDBAT in slow start
    or not."""
    primary, secondary = CASES[number]
    if secondary and not slow_start:
        secondary = secondary.replace("slow_start=standard", "slow_start=none")
    flows = [flow("primary", primary)]
    if secondary:
        start = {"uniform": ["500 s", f"{500 + jitter:g} s"]} if jitter else "500 s"
        flows.append(flow("secondary", secondary, start=start))
    return Scenario(
        duration="800 s",
        profile="rfc",
        dumbbell=Dumbbell(bottleneck=Channel(rate="10 Mbit/s", delay="250 ms", buffer=buffer, queue="droptail")),
        flow=flows,
        window=[Window(name="shared", from_="500 s", to="800 s")],
        series=Series(every="1 s"),
    )


def primary(run: Run) -> float:
    """Throughput of the primary over the shared period, in % of the capacity."""
    return 100 * run.window("shared").group("primary").capacity_share


def secondary(run: Run) -> float:
    """The same of the secondary; 0 where there is none."""
    groups = {group.name: group for group in run.window("shared").groups}
    return 100 * groups["secondary"].capacity_share if "secondary" in groups else 0.0


def queue(run: Run) -> float:
    """Mean time in the queue over the shared period (s)."""
    return run.window("shared").link().delay.mean_s


@experiment("kuhn2013:table1", title="Throughput of a primary and a secondary over an endless queue")
def table1(setting: Setting) -> Steps:
    """10 Mbit/s, 250 ms, queue effectively infinite; the primary from 0 to 800 s, the secondary
    from 500 to 800 s.

    Throughput of each, in % of the capacity, over the shared period. (1) CUBIC alone; (2) CUBIC
    and Vegas; (3) CUBIC and LEDBAT with a target of 25 ms; (4) the same with 100 ms; (5) Vegas and
    LEDBAT with 100 ms. Published: open.
    """
    seeds = setting.seeds(quick=2, full=10)
    queues = setting.pick(QUEUES[:1], QUEUES)
    results = yield [
        *(Case(scenario(number), 1, {"case": number, "starts": "published"}) for number in CASES),
        *(
            Case(scenario(number, jitter=0.5), seed, {"case": number, "starts": "drawn"})
            for number in CASES
            for seed in seeds
        ),
        *(Case(scenario(number, slow_start=False), 1, {"case": number, "starts": "linear"}) for number in (3, 4, 5)),
        *(
            Case(scenario(number, buffer), 1, {"case": number, "queue": buffer})
            for buffer in queues
            for number in CASES
        ),
    ]
    exact = {number: results.one(case=number, starts="published") for number in CASES}
    drawn = {number: results.where(case=number, starts="drawn") for number in CASES}
    names = {number: [law_name(law) for law in CASES[number] if law] for number in CASES}
    linear = results.one(case=5, starts="linear")
    claims = []
    for number, laws in names.items():
        metrics = [primary, secondary][: len(laws)]
        claims += [
            Claim.open(
                f"Case {number}: {law}{_beside(number, law)} (% of C)",
                f"{metric(exact[number]):.2f}; starts drawn: {drawn[number].interval(metric)}",
            )
            for law, metric in zip(laws, metrics, strict=True)
        ]
    claims += [
        Claim.open(f"Case 5 without LEDBAT's slow start: {law} (% of C)", f"{metric(linear):.2f}")
        for law, metric in (("Vegas", primary), ("LEDBAT (100 ms)", secondary))
    ]
    return Outcome(
        claims=claims,
        figures=[
            Figure(
                "table1",
                "Rate of each flow and the queue, case by case; the secondary starts at 500 s.",
                lambda canvas: _draw(canvas, exact),
                (10.0, 5.0),
            )
        ],
        tables=[
            Table("table1", "An endless queue, 500 to 800 s", HEADINGS, [_row(n, run) for n, run in exact.items()]),
            Table(
                "table1-linear",
                "The same when LEDBAT begins without slow start",
                HEADINGS,
                [_row(number, results.one(case=number, starts="linear")) for number in (3, 4, 5)],
            ),
            *(
                Table(
                    f"table1-{buffer.split()[0]}bdp",
                    f"The same with a queue of {buffer} ({417 * int(buffer.split()[0])} packets)",
                    HEADINGS,
                    [_row(number, results.one(case=number, queue=buffer)) for number in CASES],
                )
                for buffer in queues
            ),
        ],
        notes=[
            "No start-up is given: all begin in slow start with an unlimited threshold. A queue that never overflows "
            "then never ends the slow start of CUBIC, nor LEDBAT's in case 5, and the queue grows as long as the run "
            "lasts. The other tables show how far the outcome depends on that.",
            "Interval: the secondary starts up to one round trip (500 ms) later, drawn for each seed. Case 1 draws "
            "nothing.",
        ],
    )


def _beside(number: int, law: str) -> str:
    others = [other for other in CASES[number] if other and law_name(other) != law]
    target = {3: " (25 ms)", 4: " (100 ms)", 5: " (100 ms)"}.get(number, "") if law == "LEDBAT" else ""
    return target + (f" beside {law_name(others[0])}" if others else " alone")


def _row(number: int, run: Run) -> list:
    laws = [law_name(law) if law else None for law in CASES[number]]
    return [number, *laws, primary(run), secondary(run) if laws[1] else None, queue(run)]


def _draw(canvas: Canvas, runs: dict[int, Run]) -> None:
    rows = canvas.subplots(2, len(runs), sharex=True, sharey="row", height_ratios=(3, 2))
    for column, (number, run) in enumerate(runs.items()):
        top, bottom = rows[0][column], rows[1][column]
        for name, law in zip(("primary", "secondary"), CASES[number], strict=True):
            if law:
                past = history(run, name)
                top.plot(*thin(past.time, past.rate / 1e6), linewidth=1.2, label=law_name(law), **look(law))
        left = column == 0
        frame(top, "", "rate (Mbit/s)" if left else "", (0, 800), (0, 10.5), title=f"case {number}")
        table = run.links
        seconds = table["queue_bytes"].to_numpy().astype(float) * 8 / 10e6
        bottom.plot(table["time_s"].to_numpy(), seconds, linewidth=1, color=look("")["color"])
        bottom.set_yscale("symlog", linthresh=0.1)
        frame(bottom, "time (s)", "queue (s)" if left else "", (0, 800), (0, 1000))
    canvas.tight_layout()
