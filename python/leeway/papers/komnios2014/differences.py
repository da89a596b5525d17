"""Where the figures differ from what was published: the causes, each found by changing one
thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from leeway import Window
from leeway.lab import Case, Claim, Interval, Outcome, Results, Setting, Table, experiment
from leeway.lab.experiment import Steps
from leeway.papers.komnios2014.network import LAWS, METRICS, QUEUES, bulk, scenario

FLEDBAT = LAWS["fledbat"]
QUARTER = FLEDBAT.replace("floor=1", "floor=0.25")


def cases(setting: Setting, backhaul: str, flows: int, variants: Mapping[str, dict[str, Any]]) -> list[Case]:
    """All flows alike; a variant changes fields of the flows, or the queue."""
    found = []
    for name, fields in variants.items():
        fields = dict(fields)
        queue = fields.pop("queue", QUEUES["droptail"])
        base = scenario(backhaul, [bulk("ftp", fields.pop("law", LAWS["newreno"]), flows, **fields)])
        changed = base.set("dumbbell.bottleneck.queue", queue)
        labels = {"backhaul": backhaul, "flows": flows, "variant": name}
        found += [Case(changed, seed, labels) for seed in setting.seeds(quick=8, full=30)]
    return found


def values(results: Results, metric: str, variant: str, **labels: Any) -> np.ndarray:
    """The metric of each seed."""
    return np.array(results.where(variant=variant, **labels).values(METRICS[metric]))


def metric_table(name: str, caption: str, results: Results, metrics: Mapping[str, str]) -> Table:
    """A row for each variant of each case; `metrics` are named by column."""
    rows = [
        [f"({backhaul})", flows, variant, *(group.interval(METRICS[metric]) for metric in metrics.values())]
        for (backhaul, flows, variant), group in results.groups("backhaul", "flows", "variant")
    ]
    return Table(name, caption, ("backhaul", "N", "variant", *metrics), rows)


@experiment("komnios2014:difference-floor", "Why fLEDBAT is not fairer than NewReno everywhere", kind="difference")
def floor(setting: Setting) -> Steps:
    """In (a) with 10 to 50 flows, and in (b) with 80 and more, fLEDBAT is less fair than NewReno
    (figures 1 and 2), and in (c) its share beside NewReno rises towards one half (figure 7).

    Varied: the floor of fLEDBAT's window (one packet; a quarter), slow start (off; on), and the
    longest timeout (60 s; 4 s).
    """
    variants = {
        "NewReno": {},
        "fLEDBAT": {"law": FLEDBAT},
        "fLEDBAT, floor 1/4": {"law": QUARTER},
        "fLEDBAT, slow start": {"law": FLEDBAT + ",slow_start=standard"},
        "NewReno, timeouts up to 4 s": {"tcp": {"max_rto": "4 s"}},
        "fLEDBAT, timeouts up to 4 s": {"law": FLEDBAT, "tcp": {"max_rto": "4 s"}},
    }
    alike = [
        case for place in (("a", 16), ("a", 30), ("b", 32), ("b", 96)) for case in cases(setting, *place, variants)
    ]
    halves = [
        Case(
            scenario("c", [bulk("tcp", LAWS["newreno"], 48), bulk("lbe", law, 48, role="background")]),
            seed,
            {"backhaul": "c", "mixed": True, "variant": name},
        )
        for name, law in (("fLEDBAT", FLEDBAT), ("fLEDBAT, floor 1/4", QUARTER))
        for seed in setting.seeds(quick=8, full=30)
    ]
    under_red = {name: variants[name] | {"queue": QUEUES["red"]} for name in list(variants)[:3]}
    results = yield [*alike, *halves, *cases(setting, "a", 48, under_red)]
    claims = []
    red = results.where(backhaul="a", flows=48)
    for variant, accept in (("fLEDBAT", (0.95, 1.2)), ("fLEDBAT, floor 1/4", (0.0, 0.95))):
        ratio = Interval.of(values(red, "timeouts", variant) / values(red, "timeouts", "NewReno"))
        text = f"(a), RED, 48 flows, {variant}: timeouts over NewReno's"
        claims.append(Claim.number(text, "below 1", ratio, accept))
    homogeneous = Results(result for result in results if "mixed" not in result.labels and result.labels["flows"] != 48)
    for (backhaul, flows), group in homogeneous.groups("backhaul", "flows"):
        newreno = values(group, "fairness", "NewReno")
        for variant, accept in (
            ("fLEDBAT", (-1.0, 0.0)),
            ("fLEDBAT, floor 1/4", (0.0, 1.0)),
            ("fLEDBAT, slow start", (0.0, 1.0)),
        ):
            claims.append(
                Claim.number(
                    f"({backhaul}), {flows} flows, {variant}: F minus NewReno's",
                    "above 0 (fLEDBAT fairer)",
                    Interval.of(values(group, "fairness", variant) - newreno),
                    accept,
                )
            )
        if backhaul == "a":
            shorter = values(group, "fairness", "fLEDBAT, timeouts up to 4 s")
            reference = values(group, "fairness", "NewReno, timeouts up to 4 s")
            claims.append(
                Claim.number(
                    f"({backhaul}), {flows} flows, timeouts up to 4 s for both: F minus NewReno's",
                    "above 0 (fLEDBAT fairer)",
                    Interval.of(shorter - reference),
                    (0.0, 1.0),
                )
            )
    mixed = results.where(mixed=True)
    for variant, accept in (("fLEDBAT", (0.4, 0.5)), ("fLEDBAT, floor 1/4", (0.0, 0.35))):
        share = mixed.where(variant=variant).interval(lambda run: run.window().group("lbe").share)
        claims.append(Claim.number(f"(c), 48 + 48 flows: share of {variant}", "low", share, accept))
    columns = {"F": "fairness", "dropped / sent": "loss", "timeouts": "timeouts", "η": "eta", "D_Q": "fill"}
    notes = (
        "A window of one packet is the least that fLEDBAT is left with, and more of them than path and buffer hold "
        "do not fit. A flow that times out waits ever longer, the others keep their packet. A floor of a quarter "
        "lets all of them fit; slow start makes the ones that hold a place try for two, so that they lose theirs "
        "in turn; and short timeouts bring the losers back. Each of the three makes fLEDBAT fairer than NewReno.",
    )
    table = metric_table("variants", "Fairness of 16, 30 and 96 flows.", homogeneous, columns)
    return Outcome(claims, (), [table], notes)


@experiment("komnios2014:difference-slow-start", "Why LEDBAT times out as often as NewReno in (a)", kind="difference")
def slow_start(setting: Setting) -> Steps:
    """In (a), with 20 flows and more, LEDBAT has as many timeouts as NewReno (figures 1 and 4).

    Varied: slow start of LEDBAT. With it every recovery begins by doubling to two packets, as
    NewReno's does.
    """
    variants = {
        "NewReno": {},
        "LEDBAT": {"law": LAWS["ledbat"]},
        "LEDBAT, no slow start": {"law": LAWS["ledbat"].replace("standard", "none")},
    }
    results = yield [case for flows in (22, 30, 48) for case in cases(setting, "a", flows, variants)]
    claims = []
    for (flows,), group in results.groups("flows"):
        newreno = values(group, "timeouts", "NewReno")
        for variant, accept in (("LEDBAT", (0.95, 1.3)), ("LEDBAT, no slow start", (0.0, 0.9))):
            ratio = Interval.of(values(group, "timeouts", variant) / newreno)
            claims.append(
                Claim.number(f"(a), {flows} flows, {variant}: timeouts over NewReno's", "below 1", ratio, accept)
            )
    columns = {"timeouts": "timeouts", "retransmitted / sent": "again", "dropped / sent": "loss", "F": "fairness"}
    return Outcome(claims, (), [metric_table("variants", "Timeouts in (a).", results, columns)])


@experiment("komnios2014:difference-red-drops", "Why LEDBAT is fair under RED outside the regime", kind="difference")
def red_drops(setting: Setting) -> Steps:
    """With few flows LEDBAT is unfair under DropTail (the late-comer), and hardly so under RED
    (figures 5 and 6).

    Varied: RED's drop probability. With so few drops that it does nothing, RED's flows are as
    unfair as DropTail's.
    """
    law = {"law": LAWS["ledbat"]}
    variants = {
        "DropTail": law,
        "RED": law | {"queue": QUEUES["red"]},
        "RED, max_p 0.001": law | {"queue": QUEUES["red"] + ",max_p=0.001"},
    }
    results = yield [case for place in (("b", 9), ("c", 12)) for case in cases(setting, *place, variants)]
    claims = []
    for (backhaul, flows), group in results.groups("backhaul", "flows"):
        for variant, accept in (("DropTail", (0.0, 0.8)), ("RED", (0.85, 1.0)), ("RED, max_p 0.001", (0.0, 0.8))):
            found = Interval.of(values(group, "fairness", variant))
            claims.append(Claim.number(f"({backhaul}), {flows} flows, {variant}: F of LEDBAT", "unfair", found, accept))
    notes = (
        "A late-comer takes the queue it finds for a part of the path, and holds its window while the elders, who "
        "see that queue, give way. A loss halves the larger window first, and lets the queue be seen empty. Under "
        "DropTail losses stop once LEDBAT holds the queue at its target; RED goes on dropping.",
    )
    columns = {"F": "fairness", "dropped / sent": "loss", "D_Q": "fill", "η": "eta"}
    return Outcome(claims, (), [metric_table("variants", "Fairness of LEDBAT.", results, columns)], notes)


@experiment("komnios2014:difference-phase", "Why NewReno does not fill the queue of (c)", kind="difference")
def phase(setting: Setting) -> Steps:
    """In (c), D_Q of NewReno stays at 0.86 however many flows there are, and half of them get
    nearly nothing (figure 3).

    Varied: the flows' own access delay, which is zero for all or drawn between 0 and 5 ms. The
    round-trip time of (c) is 30 packets at its rate to the nanosecond, so all packets arrive in
    the instants at which one leaves, and always the same flows find the place that became free:
    the phase effect of Floyd and Jacobson (1991).
    """
    variants = {
        "equal delays": {},
        "delays of 0 to 5 ms": {"access_delay": {"uniform": ["0 ms", "5 ms"]}},
    }
    results = yield [case for flows in (48, 80) for case in cases(setting, "c", flows, variants)]
    claims = []
    for (flows,), group in results.groups("flows"):
        fill = {name: Interval.of(values(group, "fill", name)) for name in variants}
        fairness = {name: Interval.of(values(group, "fairness", name)) for name in variants}
        same, spread = variants
        claims += [
            Claim.number(f"(c), {flows} flows, {same}: D_Q of NewReno", "to 1", fill[same], (0.8, 0.9)),
            Claim.number(f"(c), {flows} flows, {spread}: D_Q of NewReno", "to 1", fill[spread], (0.9, 1.0)),
            Claim.number(f"(c), {flows} flows, {same}: F of NewReno", "", fairness[same], (0.0, 0.75)),
            Claim.number(f"(c), {flows} flows, {spread}: F of NewReno", "", fairness[spread], (0.8, 1.0)),
        ]
    columns = {"D_Q": "fill", "F": "fairness", "dropped / sent": "loss", "timeouts": "timeouts"}
    return Outcome(claims, (), [metric_table("variants", "NewReno in (c).", results, columns)])


@experiment("komnios2014:difference-base-delay", "Why fLEDBAT's target matters inside the regime", kind="difference")
def base_delay(setting: Setting) -> Steps:
    """Inside the regime, fLEDBAT loses more packets with a target of 200 ms than with one of 25 ms
    (extra).

    Varied: whether all flows know the base delay. They do where the uplink has 100 Mbit/s for the
    first 31 s, in which all of them start; then it has the rate of the backhaul. Loss is that from
    100 s on.
    """
    targets = ("25ms", "50ms", "100ms", "200ms")
    made = []
    for backhaul, flows in (("a", 30), ("b", 64), ("c", 64)):
        for target in targets:
            late = Window(name="late", from_="100 s", to="300 s")
            usual = scenario(backhaul, [bulk("ftp", f"{FLEDBAT},target={target}", flows)], window=[late])
            rate = usual.dumbbell.bottleneck.rate
            rates = [{"at": "0 s", "rate": "100 Mbit/s"}, {"at": "31 s", "rate": rate}]
            fast_first = replace(usual.dumbbell.bottleneck, rate=None, rates=rates)
            known = replace(usual, dumbbell=replace(usual.dumbbell, bottleneck=fast_first))
            for variant, each in (("as published", usual), ("known base delay", known)):
                labels = {"backhaul": backhaul, "flows": flows, "variant": variant, "target": target}
                made += [Case(each, seed, labels) for seed in setting.seeds(quick=6, full=30)]
    results = yield made
    claims = []
    for variant, accept in (("as published", (0.02, 1.0)), ("known base delay", (0.0, 0.02))):
        for backhaul in "abc":
            part = results.where(backhaul=backhaul, variant=variant)
            loss = np.array([part.where(target=target).values(METRICS["loss"]) for target in targets])
            means = loss.mean(axis=1)
            text = f"({backhaul}), {variant}: loss with the worst target minus that with the best"
            found = Interval.of(loss[means.argmax()] - loss[means.argmin()])
            claims.append(Claim.number(text, "no effect", found, accept))
    columns = {"dropped / sent": "loss", "F": "fairness", "timeouts": "timeouts"}
    rows = [
        [f"({backhaul})", flows, variant, target, *(group.interval(METRICS[metric]) for metric in columns.values())]
        for (backhaul, flows, variant, target), group in results.groups("backhaul", "flows", "variant", "target")
    ]
    table = Table("variants", "fLEDBAT from 100 s on.", ("backhaul", "N", "variant", "target", *columns), rows)
    return Outcome(claims, (), [table])
