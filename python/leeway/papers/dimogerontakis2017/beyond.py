"""What `leeway testbed` measures beyond the paper: other lines, other neighbours, other homes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.lab import Claim, Outcome, Setting, experiment
from leeway.papers.common import with_causes
from leeway.papers.dimogerontakis2017.causes import BURST
from leeway.papers.dimogerontakis2017.measure import Measured, Points, at_least, at_most, cases
from leeway.papers.dimogerontakis2017.network import ALONE, BEST, PACKETS, PROXY
from leeway.papers.dimogerontakis2017.paper import NOTES, drawn

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

SHARED = (BEST, PROXY, PACKETS)
GATEWAYS = (PROXY, PACKETS)
LONG = ("100 ms", "600 ms", "0.5 BDP", "1 BDP", "3 BDP", "10 BDP")
"""Lines with a round trip of 100 ms or more, of which nothing is asked."""


def recorded(measured: Measured, setup: str) -> list[Claim]:
    """Figures of a setup of which nothing is asked."""
    found = []
    for mechanism in GATEWAYS:
        text = f"{setup}, {mechanism}"
        found += [
            Claim.open(f"{text}: the home's mean, x alone", measured.mean(setup, mechanism)),
            Claim.open(f"{text}: the home's 99th percentile, x alone", measured.p99(setup, mechanism)),
            Claim.open(f"{text}: neighbours' objects a second", measured.per_s(setup, mechanism)),
        ]
    return found


def outcome(measured: Measured, points: Points, claims: list[Claim], name: str, what: str) -> Outcome:
    """The claims with a figure and a table."""
    return Outcome(with_causes(claims), [drawn(measured, name, points, what)], [measured.table(points)], NOTES)


@experiment("dimogerontakis2017:rates", title="The overload on faster lines, in proportion")
def rates(setting: Setting) -> Steps:
    """10 and 50 Mbit/s, with 5.8 and 29 times the requests.

    Asked for: neighbours have 0.9 of their objects under best effort. On 10 Mbit/s they have less, here
    and live; the cause is not known.
    """
    points = dict.fromkeys(("overload", "10 Mbit/s", *setting.pick((), ("50 Mbit/s",))), SHARED)
    measured = Measured((yield cases(points, setting)))
    claims = [claim for setup in list(points)[1:] for claim in measured.targets(setup, requests=False)]
    claims += [
        at_least(
            f"{setup}, {mechanism}: neighbours' objects a second, of those under best effort",
            measured.of_best(setup, mechanism),
            0.9,
        )
        for setup in points
        for mechanism in GATEWAYS
        if setup != "10 Mbit/s"
    ]
    claims += [
        Claim.open(
            f"10 Mbit/s, {mechanism}: neighbours' objects a second, of those under best effort (asked for: 0.9)",
            measured.of_best("10 Mbit/s", mechanism),
        )
        for mechanism in GATEWAYS
    ]
    return outcome(measured, points, claims, "rates", "Faster lines.")


@experiment("dimogerontakis2017:buffers", title="The overload with long round trips and other buffers")
def buffers(setting: Setting) -> Steps:
    """Round trips of 100 and 600 ms; buffers of half a BDP to ten at 100 ms; 300 packets at 20
    ms."""
    long = setting.pick(("100 ms", "0.5 BDP"), LONG)
    points = dict.fromkeys(("deep", *long), SHARED)
    measured = Measured((yield cases(points, setting)))
    claims = measured.targets("deep")
    for setup in long:
        claims += [
            at_most(f"{setup}, {mechanism}: the home's mean, x alone", measured.mean(setup, mechanism), 1.35, BURST)
            for mechanism in GATEWAYS
        ]
        claims += [
            Claim.open(f"{setup}, {mechanism}: neighbours' objects a second", measured.per_s(setup, mechanism))
            for mechanism in GATEWAYS
        ]
    return outcome(measured, points, claims, "buffers", "Long round trips and other buffers.")


@experiment("dimogerontakis2017:changing", title="The overload on lines whose rate changes")
def changing(setting: Setting) -> Steps:
    """The rate halved and doubled every 5 s; a line like LTE with 0.5 to 8 Mbit/s; both changes
    over a satellite."""
    points = dict.fromkeys(("changing", "lte", "satellite"), SHARED)
    measured = Measured((yield cases(points, setting)))
    claims = measured.targets("changing")
    for setup in ("lte", "satellite"):
        claims += recorded(measured, setup)
    return outcome(measured, points, claims, "changing", "Lines whose rate changes.")


@experiment("dimogerontakis2017:neighbours", title="The overload by other neighbours")
def neighbours(setting: Setting) -> Steps:
    """One, ten and a hundred users; one with 200 connections; users who upload.

    Asked for: the home feels a hundred users, and one with 200 connections, no more than one user.
    """
    users = ("users 1", "users 10", "users 100", "greedy")
    points = dict.fromkeys((*users, "upload"), SHARED)
    measured = Measured((yield cases(points, setting)))
    claims = [claim for setup in users for claim in measured.targets(setup)]
    for mechanism in GATEWAYS:
        means = {setup: measured.mean(setup, mechanism) for setup in users}
        worst = max(means, key=lambda setup: means[setup].mean)
        claims.append(
            Claim.number(
                f"{mechanism}: the home's mean beside the worst of them ({worst}), x that beside one user",
                "1.1 at most (asked for)",
                means[worst].scaled(1 / means["users 1"].mean),
                (0.0, 1.1),
            )
        )
    claims += recorded(measured, "upload")
    return outcome(measured, points, claims, "neighbours", "Other neighbours.")


@experiment("dimogerontakis2017:homes", title="Other homes beside neighbours under overload")
def homes(setting: Setting) -> Steps:
    """A telephone call beside the home's requests; a home that fetches objects of 500 kB; one that
    is away."""
    points = {"call": SHARED, "transfer": SHARED, "idle": SHARED}
    measured = Measured((yield cases(points, setting)))
    claims = measured.targets("call", requests=False)
    for mechanism in GATEWAYS:
        claims += [
            Claim.number(
                f"call, {mechanism}: points that the call's score loses",
                "0.1 at most (asked for)",
                measured.beside("call", mechanism, "mos", lambda found, alone: alone - found),
                (float("-inf"), 0.1),
            ),
            at_most(f"transfer, {mechanism}: the home's mean, x alone", measured.mean("transfer", mechanism), 1.1),
            Claim.number(
                f"idle, {mechanism}: part of the line that neighbours' objects are",
                "at least 0.9 (asked for)",
                measured.of("idle", mechanism, "goodput"),
                (0.9, 1.0),
            ),
        ]
    claims += [
        Claim.open("the call's score alone", measured.of("call", ALONE, "mos")),
        Claim.open("the call's score under best effort", measured.of("call", BEST, "mos")),
    ]
    shown = {setup: points[setup] for setup in ("call", "transfer")}
    table = measured.table(points)
    return Outcome(with_causes(claims), [drawn(measured, "homes", shown, "Other homes.")], [table], NOTES)
