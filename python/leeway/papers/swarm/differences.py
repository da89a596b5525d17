"""Why swarms of some laws take longer, found by changing one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from leeway import Flow, Run, Scenario, Series
from leeway.lab import Case, Claim, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.swarm.network import ACCESS, BUSY, LAWS, homes, scenario

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

LINE = "ADSL 8/0.6"
PLAIN, SEEDS, ACKS, REQUESTS = "nothing", "seeds of TCP", "no delayed ACKs", "40 requests"
FLOOR = "the seeds' floor is 8 packets"
WATCHED = "nothing, and windows are recorded"
IDLE, UPLOAD = "homes serve nobody", "homes serve nobody and upload elsewhere"


def seeds_use(run: Run) -> float:
    """Utilisation of the seeds' uplinks while everybody downloads."""
    return run.window(BUSY.name).link("line-source").utilisation


def homes_use(run: Run) -> float:
    """Utilisation of the homes' uplinks while everybody downloads."""
    return run.window(BUSY.name).link("line-home").utilisation


def completion(run: Run) -> float:
    """Mean completion time (s)."""
    return run.window("all").group("peers home").completion.mean_s


def zone(run: Run) -> float:
    """Of the seeds' falls to a window of one packet, the part that follows a sharp fall of the
    queue (`loss_zone`)."""
    table = run.flows.filter(pc.starts_with(pc.cast(run.flows["flow"], "string"), "seeds"))
    flow, phase = (np.array(pc.cast(table[name], "string").to_pylist()) for name in ("flow", "phase"))
    order = np.lexsort((table["time_s"].to_numpy(), flow))
    flow, phase, window = flow[order], phase[order], table["cwnd_pkt"].to_numpy()[order]
    fell = (flow[1:] == flow[:-1]) & (window[1:] <= 1) & (window[:-1] > 1.5)
    return float(np.mean(phase[1:][fell] == "loss_zone"))


def times(results: Results) -> Interval | str:
    """Mean completion time (s), if every run has one."""
    groups = [result.run().window("all").group("peers home") for result in results]
    return "none completes" if any(group.completion is None for group in groups) else results.interval(completion)


def variant(law: str, name: str, count: int) -> Scenario:
    """The swarm of `swarm:alike` with one thing changed."""
    seeds_law = {SEEDS: LAWS["TCP"], FLOOR: f"{LAWS[law]}:floor=8"}.get(name)
    made = scenario(ACCESS[LINE], {"home": (LAWS[law], count)}, 240, seeds_law)
    for flow in made.flow:
        if name == ACKS and flow.app["kind"] == "peer":
            flow.tcp = {"delayed_ack": "off"}
    if name == REQUESTS:
        made.swarm.requests = 40
    if name in (IDLE, UPLOAD):
        home = next(flow for flow in made.flow if flow.name == "peers home")
        home.app = {"kind": "peer", "slots": 0}
    if name == UPLOAD:
        made.flow.append(Flow(name="upload", count=count, law=LAWS[law], from_="home", to="core"))
    return made


def watched() -> Scenario:
    """16 homes under FLOWER for as long as everybody downloads, with the windows of all
    connections."""
    made = variant("FLOWER", PLAIN, 16)
    made.duration = BUSY.to
    made.window = [BUSY]
    made.series = Series(every="20 ms")
    return made


@experiment("swarm:difference-seeds", title="Why swarms of FLOWER and of Ebb take longer", kind="difference")
def seeds(setting: Setting) -> Steps:
    """In `swarm:alike` swarms of FLOWER take a fifth longer than swarms of TCP, those of Ebb three
    quarters.

    Varied: the law of the seeds (that of the homes; TCP), the floor of FLOWER's seeds (1 packet;
    8), delayed acknowledgements (at most 40 ms; none), the requests outstanding with a neighbour
    (5; 40), and what homes send (blocks to others; nothing; an upload that has nothing to do with
    the swarm). FLOWER's seeds go to their floor when the queue falls sharply, which FLOWER takes
    for the loss of another flow. Delayed acknowledgements slow both its seeds and its homes. Ebb's
    seeds yield to what the homes send: their acknowledgements wait behind it, and Ebb measures
    round trips. LEDBAT measures one-way delays, which contain no queue of acknowledgements.
    """
    results = yield [
        Case(variant(law, name, homes(setting)), seed, {"law": law, "variant": name})
        for law in LAWS
        for name in (PLAIN, SEEDS, ACKS, REQUESTS, IDLE, UPLOAD, *([FLOOR] if law == "FLOWER" else []))
        for seed in setting.seeds(quick=5, full=10)
    ] + [Case(watched(), seed, {"law": "FLOWER", "variant": WATCHED}) for seed in setting.seeds(quick=5, full=10)]

    def over(law: str, name: str) -> Interval:
        changed, plain = (results.where(law=law, variant=each).values(completion) for each in (name, PLAIN))
        return Interval.of(np.array(changed) / np.array(plain))

    most = setting.pick(0.8, 0.95)  # the seeds have ten uplinks' worth, beside 16 homes or 100
    claims = [
        Claim.number(f"{law}: mean completion time with {name}, over that without", expected, over(law, name), accept)
        for law, name, expected, accept in (
            ("FLOWER", SEEDS, f"{most} at most", (0.0, most)),
            ("Ebb", SEEDS, f"{most} at most", (0.0, most)),
            ("FLOWER", ACKS, "0.8 to 0.95", (0.8, 0.95)),
        )
    ]
    for law, name, expected, accept in (
        ("FLOWER", FLOOR, "most: no fall of the queue leaves less than 8 packets", (0.75, 1.05)),
        ("Ebb", IDLE, "nearly all: no acknowledgement waits", (0.75, 1.05)),
        ("Ebb", UPLOAD, "little: acknowledgements wait behind the upload", (0.0, 0.3)),
        ("LEDBAT 25 ms", UPLOAD, "all: one-way delays do not contain that queue", (0.9, 1.05)),
    ):
        found = results.where(law=law, variant=name).interval(seeds_use)
        claims.append(Claim.number(f"{law}: use of the seeds' uplinks where {name}", expected, found, accept))
    text = "FLOWER: part of the seeds' falls to the floor that follow a fall of the queue"
    expected = "most; the others are losses, timeouts, and steps from below 2 packets"
    claims.append(Claim.number(text, expected, results.where(variant=WATCHED).interval(zone), (0.6, 1.0)))
    rows = [
        [law, name, times(group), group.interval(seeds_use), group.interval(homes_use)]
        for (law, name), group in results.groups("law", "variant")
        if name != WATCHED
    ]
    columns = ("law", "changed", "completion (s)", "seeds' uplinks used", "homes' uplinks used")
    caption = f"{LINE}; the use of uplinks is that from 5 to 20 s."
    notes = ("The upload elsewhere has the law of the swarm. `none completes`: no home has the file after 240 s.",)
    return Outcome(claims, (), [Table("seeds", caption, columns, rows)], notes)
