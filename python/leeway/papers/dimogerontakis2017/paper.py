"""The paper's figures 3 to 13, with the mechanisms that a scenario can express."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Claim, Figure, Interval, Outcome, Setting, experiment
from leeway.papers.common import PALETTE, frame, with_causes
from leeway.papers.dimogerontakis2017.measure import INF, Measured, Points, cases
from leeway.papers.dimogerontakis2017.network import ALONE, AT_LINE, BEST, BORROWING, PACKETS, PROXY
from leeway.papers.dimogerontakis2017.setups import NOT_PLAYED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leeway.lab.experiment import Steps

QUEUES = ("priority", "sfq", "codel", "fq_codel")
EVERY = (BEST, BORROWING, AT_LINE, *QUEUES, PROXY, PACKETS)
SENSITIVE = (BEST, BORROWING, AT_LINE, "codel", PROXY, PACKETS)
"""Mechanisms whose sensitivity the paper studies, and the gateway."""
COINCIDE = (
    "dimogerontakis2017:difference-coincidence: every fourth request of the neighbours comes with one of the home, and "
    "CoDel takes the slow start of an object for a queue that stands"
)
SHAPER = (
    "dimogerontakis2017:difference-shaper: objects of nine packets are in the line's queue before a shaper behind it "
    "can hold them back; the paper's shaper is itself the bottleneck"
)
RATIO = (
    "dimogerontakis2017:difference-ratio: the line's queue is full at each of the three ratios; where neighbours ask "
    "for less than is left, the home's mean is less than a tenth of that"
)
NOTES = (
    "`borrowing` is a shaper on the gateway, behind the line for downloads; `borrowing-line` and the queues stand at "
    "the line in both directions. `proxy` is a gateway that reads what has come up to 2 ms later, as a program on "
    "sockets; `packets` one that sees each packet and its delay. Not played: "
    + "; ".join(f"{name} ({why})" for name, why in NOT_PLAYED.items())
    + ".",
)


def drawn(measured: Measured, name: str, points: Points, what: str) -> Figure:
    """Service times of the home with each mechanism."""
    width = sum(0.42 * len(mechanisms) + 0.6 for mechanisms in points.values())
    caption = f"{what} Bars: the home's mean, dots: its 99th percentile, as multiples of those of the home alone."
    return Figure(name, caption, lambda canvas: measured.draw(canvas, points), (max(7.0, width), 3.8))


@experiment("dimogerontakis2017:fig3", title="Web users below the capacity of the line (figures 3 and 4)")
def fig3(setting: Setting) -> Steps:
    """70 % of the line in objects of 100 kB: 0.3 requests a second of the home, 1.2 of the
    neighbours.

    Published: all mechanisms are alike, and the home hardly notices.
    """
    points = {"underload": EVERY}
    measured = Measured((yield cases(points, setting)))
    claims = [
        Claim.number(
            f"{mechanism}: the home's mean, x alone",
            "all mechanisms alike (taken as: at most 1.5)",
            measured.mean("underload", mechanism),
            (0.0, 1.5),
            why=COINCIDE,
        )
        for mechanism in EVERY
    ]
    claims += [
        Claim.number(
            f"{mechanism}: neighbours' objects a second, of those under best effort",
            "0.9 at least (asked for)",
            measured.of_best("underload", mechanism),
            (0.9, INF),
        )
        for mechanism in (PROXY, PACKETS)
    ]
    figure = drawn(measured, "underload", points, "Below the capacity of the line.")
    return Outcome(with_causes(claims), [figure], [measured.table(points)], NOTES)


@experiment("dimogerontakis2017:fig5", title="Web users under overload (figures 5 to 8)")
def fig5(setting: Setting) -> Steps:
    """5 requests a second of the home, 25 of the neighbours, of 12.5 kB: 1.8 times what 1.72
    Mbit/s carry.

    Published: with borrowing the home's mean service time is close to that without neighbours;
    CoDel for everybody helps slightly and SFQ hardly; only CoDel retransmits much; neighbours pay
    for borrowing with about 20 % of their requests. Asked for: what docs/testbed.md asks of a
    gateway.
    """
    points = {"overload": EVERY}
    measured = Measured((yield cases(points, setting)))
    best = measured.mean("overload", BEST).mean

    paid = measured.of_best("overload", BORROWING).scaled(-100)
    paid = Interval(100 + paid.mean, paid.half, paid.count)
    claims = [
        Claim.number(
            f"{mechanism}: the home's mean, x alone",
            "close (taken as: at most 2)",
            measured.mean("overload", mechanism),
            (0.0, 2.0),
            why=SHAPER,
        )
        for mechanism in (BORROWING, AT_LINE, "priority")
    ]
    for mechanism, published in (("codel", "helps slightly"), ("sfq", "hardly helps")):
        found = measured.mean("overload", mechanism).scaled(1 / best)
        text = f"{mechanism} for everybody: the home's mean, of that under best effort"
        claims.append(Claim.number(text, f"{published} (taken as: above 0.5)", found, (0.5, INF)))
    more = measured.beside("overload", "codel", "retransmitted", other=BORROWING)
    claims += [
        Claim.number("segments sent again with codel, x those with borrowing", "few but under CoDel", more, (1.0, INF)),
        Claim.number("what neighbours pay for borrowing, of their requests", "about 20 %", paid, (5, 40), "%"),
        *measured.targets("overload"),
        *(
            Claim.open(f"{mechanism}: the ping's 99th percentile above that of the home alone", found, "ms")
            for mechanism in (PROXY, PACKETS)
            for found in [measured.ping_ms("overload", mechanism)]
        ),
    ]
    figure = drawn(measured, "overload", points, "Overload.")
    return Outcome(with_causes(claims), [figure], [measured.table(points)], NOTES)


def sensitivity(measured: Measured, points: Points) -> list[Claim]:
    """What figures 9 to 12 say: borrowing depends on sizes and ratios, and what yields does
    not."""

    def all_of(mechanism: str) -> list[float]:
        return [measured.mean(setup, mechanism).mean for setup in points]

    borrowed = all_of(BORROWING)
    claims = [
        Claim.number(
            "borrowing: the home's worst mean, x its best",
            "sensitive (taken as: above 1.2)",
            Interval.of([max(borrowed) / min(borrowed)]),
            (1.2, INF),
            why=RATIO,
        )
    ]
    for mechanism in (PROXY, PACKETS):
        worst = max(points, key=lambda setup: measured.mean(setup, mechanism).mean)
        found = measured.mean(worst, mechanism)
        text = f"{mechanism}: the home's mean at its worst setup ({worst}), x alone"
        claims.append(Claim.number(text, "close, as tunnels of Vegas and LP (taken as: at most 2)", found, (0.0, 2.0)))
    best = max(all_of(BEST))
    claims.append(Claim.number("best effort: the home's worst mean, x alone", "long", Interval.of([best]), (2.0, INF)))
    return claims


def compared(setups: Sequence[str], setting: Setting, name: str, what: str) -> Steps:
    """The setups of one of figures 9 to 12, with every mechanism whose sensitivity is studied."""
    points = dict.fromkeys(setups, SENSITIVE)
    measured = Measured((yield cases(points, setting)))
    figure = drawn(measured, name, points, what)
    return Outcome(with_causes(sensitivity(measured, points)), [figure], [measured.table(points)], NOTES)


@experiment("dimogerontakis2017:fig9", title="The same load in objects of other sizes (figure 9)")
def fig9(setting: Setting) -> Steps:
    """Objects of 2.5, 12.5 and 62.5 kB.

    Published: borrowing depends on the size, tunnels under a law that yields do not.
    """
    sizes = ("2.5 kB", "12.5 kB", "62.5 kB")
    return (yield from compared(sizes, setting, "sizes", "The same load in objects of other sizes."))


@experiment("dimogerontakis2017:fig10", title="More and fewer neighbours for the same home (figure 10)")
def fig10(setting: Setting) -> Steps:
    """2.5, 5 and 10 requests of the neighbours for each of the home.

    Published: borrowing depends on the ratio, tunnels under a law that yields do not. Neighbours
    who ask for more than they get have all their connections busy, so 1:5 and 1:10 are the same
    here.
    """
    ratios = ("1:2.5", "1:5", "1:10")
    return (yield from compared(ratios, setting, "ratios", "More and fewer neighbours."))


@experiment("dimogerontakis2017:fig11", title="Small objects beside objects 150 times as large (figures 11 and 12)")
def fig11(setting: Setting) -> Steps:
    """12 requests a second of 10 kB of one class, 0.08 of 1.5 MB of the other: each 56 % of the
    line.

    Published: borrowing depends on who has the small objects, tunnels under a law that yields do
    not.
    """
    edges = ("small home", "large home")
    return (yield from compared(edges, setting, "edges", "Small objects of one class, large ones of the other."))


@experiment("dimogerontakis2017:fig13", title="The home's ping under overload (figure 13)")
def fig13(setting: Setting) -> Steps:
    """Delays of ten pings a second of the home.

    Published: with a tunnel under LP and CoDel or SFQ for everybody, the ping is shorter than that
    of the home alone. Here the gateway stands in for the tunnel.
    """
    mechanisms = (BEST, "sfq", "codel", PROXY, "proxy+sfq", "proxy+codel")
    points = {"overload": mechanisms}
    measured = Measured((yield cases(points, setting)))

    def of_alone(mechanism: str) -> Interval:
        return measured.beside("overload", mechanism, "ping_mean_s")

    claims = [
        Claim.number(
            f"{mechanism}: the ping's mean one-way delay, x that of the home alone",
            "below 1, of a tunnel under LP",
            of_alone(mechanism),
            (0.0, 1.0),
            why=f"dimogerontakis2017:difference-ping: {PING_CAUSE[mechanism]}",
        )
        for mechanism in PING_CAUSE
    ]
    claims += [
        Claim.open(f"{mechanism}: the ping's mean one-way delay, x that of the home alone", of_alone(mechanism))
        for mechanism in (BEST, "sfq", "codel", PROXY)
    ]

    def draw(canvas) -> None:
        axes = canvas.subplots()
        names = (ALONE, *mechanisms)
        means, tails = (
            [1e3 * measured.of("overload", name, figure).mean for name in names]
            for figure in ("ping_mean_s", "ping_p99_s")
        )
        axes.bar(range(len(names)), means, 0.6, color=PALETTE["blue"], label="mean")
        axes.plot(range(len(names)), tails, "o", color=PALETTE["purple"], label="99 %")
        axes.set_xticks(range(len(names)), names, fontsize="x-small")
        axes.set_yscale("log")
        frame(axes, "", "one-way delay of the ping (ms)")

    caption = "The home's ping under overload."
    return Outcome(with_causes(claims), [Figure("ping", caption, draw)], [measured.table(points)], NOTES)


PING_CAUSE = {
    "proxy+sfq": "SFQ serves a new flow after a packet of each of the others; FQ-CoDel serves it first",
    "proxy+codel": "CoDel has one queue, in which the ping waits behind what the gateway leaves there",
}
