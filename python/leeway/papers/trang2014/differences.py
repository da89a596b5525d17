"""Why some outcomes are not the published ones: each cause shown by changing what is held to be
it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Case, Claim, Outcome, Setting, Table, experiment
from leeway.papers.common import history
from leeway.papers.trang2014 import best_settings, flower, flower_many, grid, two_flows
from leeway.papers.trang2014.common import CUBIC, JITTER, at, bdp, drain_ms, instant, ledbat, part, ratio, share

if TYPE_CHECKING:
    from leeway import Scenario
    from leeway.lab.experiment import Steps


def changed(scenario: Scenario, **fields: object) -> Scenario:
    """A copy with these fields set; a double underscore stands for a dot."""
    return scenario.set({path.replace("__", "."): value for path, value in fields.items()})


@experiment(
    "trang2014:difference-recovery", title="Figure 3.2 A: recovery from the overshoot of slow start", kind="difference"
)
def fig3_2a(setting: Setting) -> Steps:
    """Figure 3.2 A in time, with other recoveries.

    Expected: LEDBAT at one packet after slow start, the delay above the target about 11 s, TCP
    halves at 15 s. TCP-Linux recovers with SACK, in which LEDBAT needs no timeout. Tried: no SACK;
    and timeouts that come later, as they do with a NewReno that restarts its timer with each
    partial ACK.
    """
    own = two_flows.pair("A", 92, every="20 ms")
    late = {"flow__tcp__tcp__min_rto": "2 s", "flow__ledbat__tcp__min_rto": "2 s"}
    variants = {
        "SACK": {},
        "no SACK": {"flow__ledbat__tcp__sack": False},
        "no SACK, timeouts of 2 s and more": {"flow__ledbat__tcp__sack": False, **late},
        "SACK, timeouts of 2 s and more": late,
    }
    results = yield [Case(changed(own, **fields), labels={"what": what}) for what, fields in variants.items()]
    found = {}
    for result in results:
        run = result.run()
        flow = history(run, "ledbat")
        _, over, halves = two_flows.timeline(run)
        found[result.labels["what"]] = (flow.when(flow.cwnd < 1.1, after=0.5), over, halves)
    without, later = found["no SACK"], found["no SACK, timeouts of 2 s and more"]
    return Outcome(
        claims=[
            Claim.fact(
                "With SACK LEDBAT has no timeout, without it falls to one packet",
                "one packet until 3 to 5 s",
                f"with SACK {instant(found['SACK'][0])}, without {instant(without[0])}, with late timeouts "
                f"{instant(later[0])}",
                found["SACK"][0] == float("inf") and without[0] < 5 and later[0] < 5,
            ),
            Claim.fact(
                "Without SACK the delay passes the target",
                "about 11 s",
                f"{instant(without[1])}; with late timeouts {instant(later[1])}",
                10 <= without[1] <= 12,
                accept="10 to 12 s",
            ),
            Claim.fact(
                "With timeouts that come late, too, TCP halves",
                "15 s",
                f"{instant(without[2])}; with late timeouts {instant(later[2])}",
                14 <= later[2] <= 16,
                accept="14 to 16 s",
            ),
        ],
        tables=[
            Table(
                "fig3.2A",
                "When things happen, by recovery",
                ["recovery", "LEDBAT at one packet", "delay above the target", "TCP halves"],
                [[what, *map(instant, times)] for what, times in found.items()],
            )
        ],
    )


@experiment(
    "trang2014:difference-long-recovery", title="Figure 5.1: how long TCP recovers from slow start", kind="difference"
)
def fig5_1(setting: Setting) -> Steps:
    """Figure 5.1 in time, with a longer recovery and with a larger buffer.

    Expected: FLOWER at one packet at 9.3 s, TCP in avoidance again at 10 s, halved at 21.8 s.
    NewReno repairs one loss in each round trip; whether it may be that long depends on its timer.
    Here the timeout comes after 2 s (RFC 6582's impatient variant). Tried: no timeout before 7 s,
    which stands for a timer that each partial ACK restarts; and 92 packets, as in chapter 3.
    """
    variants = {
        "84 packets": (bdp(), {}),
        "84 packets, TCP recovers until 8 s": (bdp(), {"flow__tcp__tcp__min_rto": "7 s"}),
        "92 packets": (bdp(tenths=11), {}),
    }
    results = yield [
        Case(changed(flower.beside_tcp("flower", buffer, every="20 ms"), **fields), labels={"what": what})
        for what, (buffer, fields) in variants.items()
    ]
    found = {}
    for result in results:
        _, yields, halves, _ = flower.timeline(result.run(), after=10.0)
        found[result.labels["what"]] = (yields, halves)
    longer, larger = found["84 packets, TCP recovers until 8 s"], found["92 packets"]
    return Outcome(
        claims=[
            Claim.fact(
                "With a long recovery of TCP FLOWER is at one packet when that ends",
                "9.3 s",
                instant(longer[0]),
                8 <= longer[0] <= 11,
                accept="8 to 11 s",
            ),
            Claim.fact(
                "With a long recovery TCP halves",
                "21.8 s",
                instant(longer[1]),
                20 <= longer[1] <= 24,
                accept="20 to 24 s",
            ),
            Claim.fact(
                "With 92 packets TCP halves at that time, too, but FLOWER is at one packet only shortly before",
                "9.3 s; 21.8 s",
                f"{instant(larger[0])}; {instant(larger[1])}",
                20 <= larger[1] <= 24 and larger[0] > 11,
                accept="20 to 24 s; after 11 s",
            ),
        ],
        tables=[
            Table(
                "fig5.1",
                "When things happen",
                ["setting", "FLOWER at one packet", "TCP halves"],
                [[what, *map(instant, times)] for what, times in found.items()],
            )
        ],
    )


@experiment("trang2014:difference-cubic-decrease", title="Figure 3.6: what CUBIC keeps after a loss", kind="difference")
def fig3_6(setting: Setting) -> Steps:
    """Figure 3.6 A with the decrease of the CUBIC of 2010 (0.8) and that of later Linux and RFC
    9438 (0.7).

    Expected: LEDBAT above CUBIC in the end.
    """
    seeds = setting.seeds(quick=3, full=20)
    windows = {"end": (450.0, 600.0)}
    laws = {"0.8": CUBIC, "0.7": f"{CUBIC},beta=0.7"}
    results = yield [
        Case(two_flows.pair("A", 92, law, JITTER, windows), seed, {"keeps": keeps})
        for keeps, law in laws.items()
        for seed in seeds
    ]
    found = {keeps: results.where(keeps=keeps).interval(ratio("ledbat", "cubic")) for keeps in laws}
    return Outcome(
        claims=[
            Claim.number(
                "CUBIC that keeps 0.7: LEDBAT's throughput over CUBIC's in the end",
                "above 1",
                found["0.7"],
                (1.0, float("inf")),
            ),
            Claim.number("CUBIC that keeps 0.8", "", found["0.8"], (0.0, 1.0)),
        ]
    )


@experiment("trang2014:difference-slow-start", title="Figure 3.8: the late-comer's slow start", kind="difference")
def fig3_8(setting: Setting) -> Steps:
    """Figure 3.8 with and without slow start of LEDBAT.

    Expected: the second flow takes nearly all. In slow start it overflows the buffer of 84
    packets; the loss empties the queue and shows it the empty path.
    """
    seeds = setting.seeds(quick=3, full=20)
    linear = ledbat(5, 10).replace("slow_start=standard", "slow_start=none")
    laws = {"slow start": ledbat(5, 10), "linear": linear}
    results = yield [
        Case(
            changed(best_settings.late_comer(JITTER), flow__first__law=law, flow__second__law=law),
            seed,
            {"begins": begins},
        )
        for begins, law in laws.items()
        for seed in seeds
    ]
    found = {begins: results.where(begins=begins).interval(share("second")) for begins in laws}
    return Outcome(
        claims=[
            Claim.number(
                "Without slow start: the second flow's share of the last 100 s",
                "late-comer advantage",
                found["linear"],
                (0.8, 1.0),
            ),
            Claim.number("With slow start", "", found["slow start"], (0.3, 0.7)),
        ]
    )


@experiment(
    "trang2014:difference-displacement", title="Figure 3.4: windows that TCP cannot displace in time", kind="difference"
)
def fig3_4(setting: Setting) -> Steps:
    """Points of figure 3.4 at 50 Mb/s and long delays, with and without slow start of LEDBAT.

    Expected: Right falls as C falls, so 50 Mb/s should have the most. A BDP is up to 2084 packets
    there; LEDBAT, alone for 200 s, fills it by slow start. TCP grows by a packet in each round
    trip, and LEDBAT gives up no faster; 800 s are 800 to 2600 round trips. Without slow start
    LEDBAT has not taken the path when TCP comes.
    """
    points = [
        grid.Point(50, owd, target, gain, bdp(50, owd, tenths))
        for owd in setting.pick((150, 250), (100, 150, 200, 250))
        for target in setting.pick((100,), (25, 100))
        for gain in (1, 10)
        for tenths in setting.pick((6, 10, 16), (3, 6, 10, 13, 16, 20))
    ]
    results = yield [
        Case(_begins(case.scenario, begins), labels={"point": case.labels["point"], "begins": begins})
        for begins in ("standard", "none")
        for case in grid.grid(points)
    ]
    measured = {begins: grid.parts(results.where(begins=begins)) for begins in ("standard", "none")}
    right = {begins: sum(grid.right(point, parts) for point in points) for begins, parts in measured.items()}
    return Outcome(
        claims=[
            Claim.fact(
                "50 Mb/s, long delays: more points are Right when LEDBAT begins without slow start",
                "most Right at the largest capacity",
                f"{right['none']} of {len(points)}; with slow start {right['standard']}",
                right["none"] - right["standard"] >= len(points) / 4,
                accept="a quarter of the points more",
            )
        ],
        tables=[
            Table(
                "fig3.4",
                "Parts of the capacity, TCP / LEDBAT, 50 Mb/s",
                ["owd (ms)", "tau (ms)", "gain", "B (pkt)", "slow start", "none"],
                [
                    [
                        *point[1:],
                        *("{:.2f} / {:.2f}".format(*measured[begins][point.run]) for begins in ("standard", "none")),
                    ]
                    for point in points
                ],
            )
        ],
    )


def _begins(scenario: Scenario, slow_start: str) -> Scenario:
    law = next(flow.law for flow in scenario.flow if flow.name == "ledbat")
    return changed(scenario, flow__ledbat__law=law.replace("slow_start=standard", f"slow_start={slow_start}"))


@experiment("trang2014:difference-base-history", title="Table 3.2: a base delay that expires", kind="difference")
def table3_2(setting: Setting) -> Steps:
    """Which target is the locally best one, with RFC 6817's base history and with a base delay
    that is kept.

    Expected: 65 ms beside NewReno at B = 84 and gain 1, that is, the largest target at which TCP
    takes 0.8, as the clustering wants it. RFC 6817 forgets a base delay after 10 minutes; TCP
    comes at 200 s and never lets the queue empty, so from 600 s on LEDBAT takes a standing queue
    for the empty path, in the middle of the 500 s that are measured.
    """
    targets = (50, 55, 60, 65, 70, 75)
    histories = {"10 minutes": "", "kept": ",base_history=0"}
    results = yield [
        Case(
            changed(best_settings.beside("newreno", (target, 1), 84, 0.0), flow__ledbat__law=ledbat(target) + law),
            labels={"target": target, "history": name},
        )
        for name, law in histories.items()
        for target in targets
    ]
    taken = {(r.labels["history"], r.labels["target"]): part("newreno")(r.run()) for r in results}
    largest = {name: max((t for t in targets if taken[name, t] >= grid.BUSY), default=0) for name in histories}
    return Outcome(
        claims=[
            Claim.fact(
                "With the base delay kept, the largest target at which NewReno takes 0.8",
                "65 ms is the locally best",
                f"{largest['kept']} ms; with RFC 6817's history {largest['10 minutes']} ms",
                largest["kept"] == 65 and largest["10 minutes"] < 65,
                accept="65 ms; below that with the history",
            )
        ],
        tables=[
            Table(
                "table3.2",
                "NewReno's part of the capacity beside LEDBAT with gain 1, B = 84",
                ["base history", *(f"{target} ms" for target in targets)],
                [[name, *(f"{taken[name, target]:.3f}" for target in targets)] for name in histories],
            )
        ],
    )


@experiment(
    "trang2014:difference-standing-queue", title="Figure 5.2: a standing queue for a base delay", kind="difference"
)
def fig5_2(setting: Setting) -> Steps:
    """Five LEDBAT flows beside five CUBIC flows, coming later or first.

    Expected: LEDBAT yields where B/tau is large. CUBIC keeps 0.8 of its windows, so that with B =
    BDP the queue never falls below 0.6 B; who comes later adds its target to that. Tried: LEDBAT
    comes first, sees the empty path, and keeps that as its base.
    """
    seeds = setting.seeds(quick=2, full=10)
    cells = setting.pick(((100, 8), (150, 8), (150, 10)), ((100, 8), (150, 6), (150, 8), (150, 10), (200, 4), (200, 6)))
    first = {
        "flow__lbe__start": at(0, 1.0),
        "flow__tcp__start": "10 s",
        "flow__lbe__law": f"{ledbat(flower_many.TARGET)},base_history=0",
    }
    orders = {"later": {}, "first": first}
    results = yield [
        Case(changed(flower_many.company("cubic", "ledbat", *cell), **fields), seed, {"cell": cell, "order": order})
        for order, fields in orders.items()
        for cell in cells
        for seed in seeds
    ]
    found = {key: runs.interval(share("lbe")) for key, runs in results.groups("order", "cell")}
    return Outcome(
        claims=[
            Claim.fact(
                f"owd {owd} ms, {n / 10} BDP (B/tau {drain_ms(bdp(owd=owd, tenths=n)) / flower_many.TARGET:.2f}): "
                "LEDBAT that has seen the empty path yields",
                "below the fair share",
                f"{found['first', (owd, n)]}; coming later {found['later', (owd, n)]}",
                found["first", (owd, n)].mean < 0.25 <= found["later", (owd, n)].mean,
                accept="below 0.25, and above that coming later",
            )
            for owd, n in cells
        ]
    )
