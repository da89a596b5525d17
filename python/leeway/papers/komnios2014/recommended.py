"""What the study's authors recommend: a conservative reaction to timeouts in a row, and
shared-bottleneck detection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from leeway import Channel, Flow, Link, Run, Scenario, Series, sbd
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Results, Setting, Table
from leeway.lab.experiment import Steps
from leeway.papers.common import PALETTE, curve, frame, history
from leeway.papers.komnios2014.homogeneous import mark_regime
from leeway.papers.komnios2014.network import BACKHAULS, LAWS, METRICS, bulk, scenario

BEFORE = LAWS["fledbat"]
CLIMB = BEFORE + ",climb=0.1"
REACTIONS = {
    "as published": BEFORE,
    "timeouts in a row below one packet (climb)": CLIMB,
    "floor of 1/4 packet": BEFORE.replace("floor=1", "floor=0.25"),
}
COLOURS = dict(zip(REACTIONS, ("green", "orange", "grey"), strict=True))
UNSHOWN = "recommended, not shown"


def halves(backhaul: str, law: str, flows: int, **fields) -> Scenario:
    """Half of the flows NewReno, half of this law."""
    tcp = bulk("tcp", LAWS["newreno"], flows // 2)
    return scenario(backhaul, [tcp, bulk("lbe", law, flows // 2, role="background")], **fields)


def share(run: Run) -> float:
    """Of the background in the load."""
    groups = run.window().groups
    background = sum(group.throughput_bps for group in groups if group.role == "background")
    return background / sum(group.throughput_bps for group in groups)


def timeouts_in_a_row(setting: Setting) -> Steps:
    """fLEDBAT beside NewReno, and alone, before and after."""
    flows_of = setting.pick((8, 16, 32, 48, 64, 96), tuple(range(4, 97, 4)))
    seeds = setting.seeds(quick=3, full=30)
    results = yield [
        Case(made, seed, {"backhaul": backhaul, "flows": flows, "reaction": name, "mixed": mixed})
        for backhaul in BACKHAULS
        for flows in flows_of
        for name, law in REACTIONS.items()
        for mixed, made in (
            (True, halves(backhaul, law, flows)),
            (False, scenario(backhaul, [bulk("ftp", law, flows)])),
        )
        for seed in seeds
    ]
    claims, rows = [], []
    before, after, _ = REACTIONS
    for backhaul, place in BACKHAULS.items():
        inside = [flows for flows in flows_of if flows >= place.regime]

        def mean(metric, name: str, mixed: bool, backhaul: str = backhaul, inside: list[int] = inside) -> np.ndarray:
            """Over the N inside the regime, of each seed."""
            part = results.where(backhaul=backhaul, reaction=name, mixed=mixed)
            return np.mean([part.where(flows=flows).values(metric) for flows in inside], axis=0)

        where = f"({backhaul}), inside the regime"
        claims += [
            Claim.open(f"{where}: fLEDBAT's share beside NewReno, before", Interval.of(mean(share, before, True))),
            Claim.number(f"{where}: its share after", UNSHOWN, Interval.of(mean(share, after, True)), (0.0, 0.25)),
            Claim.number(
                f"{where}: loss of fLEDBAT alone, after minus before",
                UNSHOWN,
                Interval.of(mean(METRICS["loss"], after, False) - mean(METRICS["loss"], before, False)),
                (-1.0, 0.0),
            ),
            Claim.number(
                f"{where}: its utilisation alone, after minus before",
                UNSHOWN,
                Interval.of(mean(METRICS["eta"], after, False) - mean(METRICS["eta"], before, False)),
                (-0.05, 1.0),
            ),
            Claim.open(
                f"{where}: its fairness alone, after minus before",
                Interval.of(mean(METRICS["fairness"], after, False) - mean(METRICS["fairness"], before, False)),
            ),
        ]
        for name in REACTIONS:
            row = [Interval.of(mean(share, name, True))]
            row += [Interval.of(mean(METRICS[metric], name, False)) for metric in ("eta", "loss", "fairness", "fill")]
            rows.append([f"({backhaul})", name, *row])

    panels = ((True, share, "share beside NewReno"), (False, METRICS["loss"], "dropped / sent, alone"))
    points = {
        (backhaul, mixed, name): [
            results.where(backhaul=backhaul, reaction=name, mixed=mixed, flows=flows).interval(metric)
            for flows in flows_of
        ]
        for backhaul in BACKHAULS
        for mixed, metric, _ in panels
        for name in REACTIONS
    }

    def draw(canvas) -> None:
        axes_of = canvas.subplots(2, 3, sharex=True, sharey="row")
        for column, backhaul in zip(axes_of.T, BACKHAULS, strict=True):
            for axes, (mixed, _, label) in zip(column, panels, strict=True):
                for name, colour in COLOURS.items():
                    style = {"color": PALETTE[colour], "marker": "o", "markersize": 3}
                    curve(axes, flows_of, points[backhaul, mixed, name], label=name, **style)
                first = backhaul == "a"
                frame(axes, "" if mixed else "flows N", label if first else "", (0, 98), legend=False)
                axes.set_ylim(0)
                mark_regime(axes, BACKHAULS[backhaul].regime)
            column[0].set_title(f"({backhaul})", fontsize="medium")
        handles, labels = axes_of[0, 0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize="small")
        canvas.tight_layout(rect=(0, 0.06, 1, 1))

    caption = (
        "fLEDBAT with a conservative reaction to timeouts in a row. Above: its share beside as many NewReno flows. "
        "Below: its loss when all flows are fLEDBAT."
    )
    notes = (
        "The reaction (`climb=0.1`): a timeout halves a window of one packet or less, down to 1/64; each packet "
        "acknowledged makes it a tenth larger, until it is one packet again. Such windows hold still at 12 % of "
        "loss, and fall below NewReno's that bear more. The floor of a quarter of a packet is shown beside it: a "
        "lower floor yields as well, but to delay, and so leaves the link idle when there is nobody to yield to.",
    )
    columns = ("backhaul", "fLEDBAT", "share beside NewReno", "η alone", "loss alone", "F alone", "D_Q alone")
    table = Table("timeouts", "Means over the N inside the regime, before and after.", columns, rows)
    return Outcome(claims, [Figure("timeouts", caption, draw, (9.0, 5.6))], [table], notes)


LISTENING = BEFORE + ",filter_length=1"
"""fLEDBAT whose estimate is the delay of each packet, so that the series hold what RFC 8382
needs."""

INTERVALS = (sbd.RFC.interval, 3.0)
PLACES = (("a", 16), ("b", 16), ("b", 48), ("c", 16), ("c", 48))


def coupled(size: int) -> str:
    """fLEDBAT as one of a group of this size, which together behaves as one flow with a window of
    a packet or more."""
    part = max(0.01, round(1 / size, 3))
    return f"fledbat:alpha={part:g},zeta=5,floor={part:g},timeout=halve"


def groups_of(run: Run, names: list[str], interval: float) -> list[set[str]]:
    """Which of these flows RFC 8382 finds to share a bottleneck by the end of a run; each flow is
    in one group."""
    parameters = sbd.Parameters(interval=interval)
    end = run.window().to_s
    found = {}
    for name in names:
        flow = history(run, name)
        cuts = flow.time[1:][flow.cwnd[1:] <= 0.75 * flow.cwnd[:-1]]
        statistics = sbd.detect(flow.time, flow.delay, cuts, end, parameters)
        found[name] = statistics[-1]
    together = sbd.group(found, parameters)
    alone = set(names).difference(*together)
    return [*together, *({name} for name in sorted(alone))]


def flow_names(run: Run, prefix: str) -> list[str]:
    """Names in the series."""
    return sorted(name for name in run.flows["flow"].unique().to_pylist() if name.startswith(prefix))


def two_links(flows: int) -> Scenario:
    """As many flows over a link of (b) as over a link of (c), with traffic of its own on each."""
    links, groups = [], []
    for name, tcp in (("b", 4), ("c", 12)):
        place = BACKHAULS[name]
        delay = f"{place.rtt / 2:g} ms"
        forward = Channel(rate=f"{place.up} kbit/s", delay=delay, buffer=f"{place.buffer_up} pkt")
        reverse = Channel(rate=f"{place.down} kbit/s", delay=delay, buffer=f"{place.buffer_down} pkt")
        links.append(Link(name=name, from_="here", to=f"end-{name}", forward=forward, reverse=reverse))
        ends = {"from_": "here", "to": f"end-{name}"}
        groups += [
            bulk(f"tcp-{name}", LAWS["newreno"], tcp, **ends),
            bulk(f"lbe-{name}", LISTENING, flows, role="background", **ends),
        ]
    return Scenario(duration="300 s", profile="rfc", link=links, flow=groups, series=Series(every="event"))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Of all pairs of flows: which part of those that share a bottleneck was found, and of those
    that do not."""

    together: float
    wrongly: float

    @staticmethod
    def of(groups: list[set[str]], place) -> Pairs:
        """`place` says where a flow goes."""
        group = {name: index for index, names in enumerate(groups) for name in names}
        pairs = [(a, b) for a in group for b in group if a < b]
        hits = {True: [], False: []}
        for a, b in pairs:
            hits[place(a) == place(b)].append(group[a] == group[b])
        return Pairs(*(float(np.mean(hits[same])) if hits[same] else 0.0 for same in (True, False)))


def shared_bottlenecks(setting: Setting) -> Steps:
    """Flows that find out that they share a bottleneck, and then behave as one, before and
    after."""
    seeds = setting.seeds(quick=2, full=10)
    listening = [
        Case(
            halves(backhaul, LISTENING, flows, series=Series(every="event")),
            seed,
            {"backhaul": backhaul, "flows": flows},
        )
        for backhaul, flows in PLACES
        for seed in seeds
    ]
    apart = [Case(two_links(4), seed, {"backhaul": "two links", "flows": 8}) for seed in seeds]
    results = yield [*listening, *apart]
    rows, sizes = [], {}
    for (backhaul, flows), group in results.groups("backhaul", "flows"):
        for interval in INTERVALS:
            pairs, largest = [], []
            for result in group:
                run = result.run()
                groups = groups_of(run, flow_names(run, "lbe"), interval)
                sizes[backhaul, flows, interval, result.case.seed] = Counter(len(names) for names in groups)
                pairs.append(Pairs.of(groups, lambda name: name.rstrip("0123456789#[].- ")))
                largest.append(max(len(names) for names in groups))
            rows.append(
                [
                    f"({backhaul})" if backhaul in BACKHAULS else backhaul,
                    flows,
                    interval,
                    Interval.of(largest),
                    Interval.of(pair.together for pair in pairs),
                    Interval.of(pair.wrongly for pair in pairs) if backhaul == "two links" else None,
                ]
            )
    after = yield [
        Case(couple(backhaul, flows, found), seed, {"backhaul": backhaul, "flows": flows, "interval": interval})
        for (backhaul, flows, interval, seed), found in sizes.items()
        if backhaul in BACKHAULS
    ]
    return sbd_outcome(results, after, rows)


def couple(backhaul: str, flows: int, sizes: Counter[int]) -> Scenario:
    """The same flows, each with the law of its group's size; `sizes` counts groups of each
    size."""
    lbe: list[Flow] = [
        bulk(f"lbe{size}", coupled(size) if size > 1 else BEFORE, size * count, role="background")
        for size, count in sizes.items()
    ]
    return scenario(backhaul, [bulk("tcp", LAWS["newreno"], flows // 2), *lbe])


def sbd_outcome(before: Results, after: Results, rows: list[list]) -> Outcome:
    """Claims and tables."""
    claims, changes = [], []
    for (backhaul, flows, interval), group in after.groups("backhaul", "flows", "interval"):
        was = before.where(backhaul=backhaul, flows=flows).interval(share)
        changes.append([f"({backhaul})", flows, interval, was, group.interval(share), group.interval(METRICS["eta"])])
        if interval != sbd.RFC.interval:
            claims.append(
                Claim.fact(
                    f"({backhaul}), {flows} flows, T = {interval:g} s: coupled flows take a smaller share beside "
                    "NewReno",
                    UNSHOWN,
                    f"{was.text()} before, {group.interval(share).text()} after",
                    group.interval(share).mean < was.mean,
                    accept="the mean share after is below that before",
                )
            )
    found = {(row[0], row[1], row[2]): row for row in rows}
    for backhaul, flows in PLACES:
        rfc, longer = (found[f"({backhaul})", flows, interval][4] for interval in INTERVALS)
        claims.append(
            Claim.open(
                f"({backhaul}), {flows} flows: part of the pairs that RFC 8382 finds to share the bottleneck",
                f"T = {INTERVALS[0]:g} s: {rfc.text()}; T = {INTERVALS[1]:g} s: {longer.text()}",
            )
        )
    rfc, longer = (found["two links", 8, interval][5] for interval in INTERVALS)
    claims.append(
        Claim.open(
            "Two links: part of the pairs that share none, and are taken for sharing one",
            f"T = {INTERVALS[0]:g} s: {rfc.text()}; T = {INTERVALS[1]:g} s: {longer.text()}",
        )
    )
    notes = (
        "Detection uses the one-way delay of each acknowledged packet, and the cuts of the window as losses. RFC "
        "8382 sums over 30 or 50 intervals of 350 ms; in the sub-packet regime hardly one in ten of them holds a "
        "packet, so that the statistics of like flows differ by chance. Intervals of 3 s hold one or two.",
        "A flow of a group of n has 1/n of the increase and of the floor, so that the group together behaves as "
        "one flow. Flows that nothing was found about go on as before. The coupled run is a run of its own: "
        "detection is that of the run before.",
    )
    detection = Table(
        "detection",
        "What RFC 8382 finds at the end of 300 s; T is the length of its intervals.",
        ("backhaul", "N", "T (s)", "largest group", "pairs found", "pairs taken wrongly"),
        rows,
    )
    coupling = Table(
        "coupling",
        "fLEDBAT's share beside NewReno, before and after the flows of a group behave as one.",
        ("backhaul", "N", "T (s)", "share before", "share after", "η after"),
        changes,
    )
    return Outcome(claims, (), [detection, coupling], notes)
