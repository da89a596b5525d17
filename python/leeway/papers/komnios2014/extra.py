"""What the study tried besides its figures, and what its authors recommend, before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leeway.lab import Case, Claim, Figure, Interval, Outcome, Setting, Table, experiment
from leeway.lab.experiment import Steps
from leeway.papers.common import curve, frame, law_name, look
from leeway.papers.komnios2014.network import BACKHAULS, LAWS, METRICS, bulk, scenario
from leeway.papers.komnios2014.recommended import shared_bottlenecks, timeouts_in_a_row

SIZES = ("10 kB", "50 kB", "200 kB")
INSIDE = {"a": 30, "b": 64, "c": 64}
"""Numbers of flows well inside the regime."""


def transfers(setting: Setting) -> Steps:
    """Short transfers of different sizes, one after the other, inside the regime."""
    cases = [
        Case(
            scenario(
                backhaul,
                [
                    replace(
                        bulk("web", law, flows), app={"kind": "transfer", "size": size, "count": 1000, "gap": "2 s"}
                    ),
                ],
            ),
            seed,
            {"backhaul": backhaul, "law": name, "size": size},
        )
        for backhaul, flows in INSIDE.items()
        for size in SIZES
        for name, law in LAWS.items()
        for seed in setting.seeds(quick=3, full=30)
    ]
    results = yield cases
    completion = {
        key: group.interval(lambda run: run.window().groups[0].completion.mean_s)
        for key, group in results.groups("backhaul", "size", "law")
        if all(run.window().groups[0].completed for run in (result.run() for result in group))
    }
    rows = [
        [
            f"({backhaul})",
            size,
            law_name(law),
            completion.get((backhaul, size, law)),
            group.interval(lambda run: run.window().groups[0].completed),
            group.interval(METRICS["loss"]),
            group.interval(METRICS["timeouts"]),
        ]
        for (backhaul, size, law), group in results.groups("backhaul", "size", "law")
    ]
    columns = ("backhaul", "size", "law", "completion (s)", "completed", "dropped / sent", "timeouts")
    claims = []
    for law in ("ledbat", "fledbat"):
        ratios = {
            key[:2]: completion[key].mean / completion[*key[:2], "newreno"].mean
            for key in completion
            if key[2] == law and (*key[:2], "newreno") in completion
        }
        text = ", ".join(f"({backhaul}) {size} {ratio:.2f}" for (backhaul, size), ratio in ratios.items())
        claims.append(Claim.open(f"Short transfers: {law_name(law)}'s mean completion time over NewReno's", text))
    table = Table("transfers", "Short transfers, a connection each, with 2 s between them.", columns, rows)
    return Outcome(claims, (), [table])


def parameters(setting: Setting) -> Steps:
    """The target and zeta of fLEDBAT, outside and inside the regime."""
    values = {"target": ("25ms", "50ms", "100ms", "200ms"), "zeta": ("0.5", "1", "5", "10")}
    cases = [
        Case(
            scenario(backhaul, [bulk("ftp", f"{base},{name}={value}", flows)]),
            seed,
            {"backhaul": backhaul, "where": where, "parameter": name, "value": value},
        )
        for backhaul, inside in INSIDE.items()
        for where, flows in (("outside", 4), ("inside", inside))
        for name, each in values.items()
        for base in ("fledbat:alpha=1,floor=1" if name == "zeta" else "fledbat:alpha=1,zeta=5,floor=1",)
        for value in each
        for seed in setting.seeds(quick=3, full=30)
    ]
    results = yield cases
    shown = {"eta": "η", "fairness": "F", "loss": "dropped / sent", "fill": "D_Q"}
    rows, claims = [], []
    for (backhaul, where, parameter, value), group in results.groups("backhaul", "where", "parameter", "value"):
        found = (group.interval(METRICS[metric]) for metric in shown)
        rows.append([f"({backhaul})", where, f"{parameter} = {value}", *found])
    for parameter in values:
        for metric, margin in (("eta", 0.03), ("fairness", 0.1), ("loss", 0.05)):
            ranges = {}
            for backhaul in BACKHAULS:
                for where in ("outside", "inside"):
                    part = results.where(backhaul=backhaul, where=where, parameter=parameter)
                    means = [group.interval(METRICS[metric]).mean for _, group in part.groups("value")]
                    ranges[backhaul, where] = max(means) - min(means)
            inside = {backhaul: ranges[backhaul, "inside"] for backhaul in BACKHAULS}
            outside = max(ranges[backhaul, "outside"] for backhaul in BACKHAULS)
            text = ", ".join(f"({backhaul}) {value:.3f}" for backhaul, value in inside.items())
            claims.append(
                Claim.fact(
                    f"fLEDBAT's {parameter} has no effect on {shown[metric]} inside the regime",
                    "none",
                    f"largest minus smallest mean: {text}; outside up to {outside:.3f}",
                    max(inside.values()) <= margin,
                    accept=f"at most {margin}",
                    why=BASE_DELAY if parameter == "target" and max(inside.values()) > margin else "",
                )
            )
    columns = ("backhaul", "regime", "parameter", *shown.values())
    table = Table("parameters", "fLEDBAT with other targets and zeta; 4 flows outside, 30 or 64 inside.", columns, rows)
    return Outcome(claims, (), [table])


BASE_DELAY = (
    "komnios2014:difference-base-delay: a flow that starts later takes the queue for a part of the path, and with "
    "a larger target it never sees the target exceeded; with a known base delay the target has no effect"
)


def buffers(setting: Setting) -> Steps:
    """Larger buffers, inside the regime."""
    factors = (1, 2, 4, 8)
    cases = [
        Case(
            scenario(backhaul, [bulk("ftp", law, flows)], buffer_factor=factor),
            seed,
            {"backhaul": backhaul, "law": name, "factor": factor},
        )
        for backhaul, flows in INSIDE.items()
        for name, law in LAWS.items()
        for factor in factors
        for seed in setting.seeds(quick=3, full=30)
    ]
    results = yield cases
    shown: dict[str, Callable] = {
        "F": METRICS["fairness"],
        "dropped / sent": METRICS["loss"],
        "queuing delay (s)": lambda run: run.window().link().delay.mean_s,
    }
    published = {"F": "fairer", "dropped / sent": "less loss", "queuing delay (s)": "more delay"}
    claims, rows = [], []
    for (backhaul, law, factor), group in results.groups("backhaul", "law", "factor"):
        rows.append([f"({backhaul})", law_name(law), factor, *(group.interval(metric) for metric in shown.values())])
    for name, metric in shown.items():
        changes = {}
        for (backhaul, law), group in results.groups("backhaul", "law"):
            before, after = (group.where(factor=factor).values(metric) for factor in (1, 8))
            changes[backhaul, law] = Interval.of(b - a for a, b in zip(before, after, strict=True))
        sign = -1 if name == "dropped / sent" else 1
        text = "; ".join(
            f"({b}) " + ", ".join(f"{law_name(law)} {changes[b, law].mean:+.2f}" for law in LAWS) for b in BACKHAULS
        )
        means = [sign * change.mean for change in changes.values()]
        holds = sum(means) > 0 and min(means) > -0.02
        claims.append(
            Claim.fact(
                f"A buffer of 8 times the size: change of {name}",
                published[name],
                text,
                holds,
                accept="so in the mean of the nine cases, and in none the other way by more than 0.02",
            )
        )
    columns = ("backhaul", "law", "times the buffer", *shown)
    table = Table("buffers", "Larger buffers; 30 flows in (a), 64 in (b) and (c).", columns, rows)

    points = {
        (name, law): [results.where(backhaul="b", law=law, factor=factor).interval(metric) for factor in factors]
        for name, metric in shown.items()
        for law in LAWS
    }

    def draw(canvas) -> None:
        for axes, name in zip(canvas.subplots(1, 3), shown, strict=True):
            for law in LAWS:
                curve(axes, factors, points[name, law], label=law_name(law), **look(law, marker=True))
            axes.set_xscale("log", base=2)
            axes.set_xticks(factors, [str(factor) for factor in factors])
            frame(axes, "buffer, times the paper's", name, legend=name == "F")
            axes.set_ylim(0)
        canvas.tight_layout()

    caption = "Larger buffers in (b), 64 flows of one law: fairness, loss and mean queuing delay."
    return Outcome(claims, [Figure("buffers", caption, draw, (9.0, 3.2))], [table])


def together(*outcomes: Outcome) -> Outcome:
    """One outcome of several."""
    parts = ("claims", "figures", "tables", "notes")
    return Outcome(*([item for outcome in outcomes for item in getattr(outcome, part)] for part in parts))


@experiment("komnios2014:extra", "Short transfers, parameters, buffers, and the two recommendations before and after")
def extra(setting: Setting) -> Steps:
    """Variations of the backhauls, and what the authors recommend.

    Settings: (1) short transfers of 10, 50 and 200 kB; (2) fLEDBAT with targets of 25 to 200 ms
    and zeta of 0.5 to 10; (3) buffers of 1 to 8 times the paper's; all with 30 flows in (a), 64 in
    (b) and (c). (4) Half NewReno, half fLEDBAT, and fLEDBAT alone, with a conservative reaction to
    timeouts in a row (`climb`). (5) The same with flows that find out by RFC 8382 that they share
    a bottleneck, and then behave as one.

    Published: target and zeta have no effect inside the regime; larger buffers are fairer, with
    less loss and more delay. Of (4) and (5) nothing: they are recommended, and nobody has shown
    them.
    """
    outcomes = []
    for part in (transfers, parameters, buffers, timeouts_in_a_row, shared_bottlenecks):
        outcomes.append((yield from part(setting)))
    return together(*outcomes)
