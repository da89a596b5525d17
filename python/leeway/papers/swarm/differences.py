"""Why swarms of some laws take longer, found by changing one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leeway import Flow, Run, Scenario
from leeway.lab import Case, Claim, Interval, Outcome, Results, Setting, Table, experiment
from leeway.papers.swarm.network import ACCESS, BUSY, LAWS, homes, scenario

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

LINE = "ADSL 8/0.6"
PLAIN, SEEDS, ACKS, REQUESTS = "nothing", "seeds of TCP", "no delayed ACKs", "40 requests"
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


def times(results: Results) -> Interval | str:
    """Mean completion time (s), if every run has one."""
    groups = [result.run().window("all").group("peers home") for result in results]
    return "none completes" if any(group.completion is None for group in groups) else results.interval(completion)


def variant(law: str, name: str, count: int) -> Scenario:
    """The swarm of `swarm:alike` with one thing changed."""
    made = scenario(ACCESS[LINE], {"home": (LAWS[law], count)}, 240, LAWS["TCP"] if name == SEEDS else None)
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


@experiment("swarm:difference-seeds", title="Why swarms of FLOWER and of Ebb take longer", kind="difference")
def seeds(setting: Setting) -> Steps:
    """In `swarm:alike` swarms of FLOWER and of Ebb take half as long again as swarms of TCP.

    Varied: the law of the seeds (that of the homes; TCP), delayed acknowledgements (at most 40 ms; none), the requests
    outstanding with a neighbour (5; 40), and what homes send (blocks to others; nothing; an upload that has nothing to
    do with the swarm). A window of a packet or two is acknowledged late, and FLOWER takes the time for a queue. Ebb's
    seeds yield to what the homes send: their acknowledgements wait behind it, and Ebb measures round trips. LEDBAT
    measures one-way delays, which contain no queue of acknowledgements.
    """
    results = yield [
        Case(variant(law, name, homes(setting)), seed, {"law": law, "variant": name})
        for law in LAWS
        for name in (PLAIN, SEEDS, ACKS, REQUESTS, IDLE, UPLOAD)
        for seed in setting.seeds(quick=3, full=10)
    ]

    def over(law: str, name: str) -> Interval:
        changed, plain = (results.where(law=law, variant=each).values(completion) for each in (name, PLAIN))
        return Interval.of(np.array(changed) / np.array(plain))

    claims = [
        Claim.number(
            f"{law}: mean completion time with {name}, over that without", "0.8 at most", over(law, name), (0.0, 0.8)
        )
        for law, name in (("FLOWER", SEEDS), ("Ebb", SEEDS), ("FLOWER", ACKS))
    ]
    for law, name, expected, accept in (
        ("Ebb", IDLE, "nearly all: no acknowledgement waits", (0.75, 1.05)),
        ("Ebb", UPLOAD, "little: acknowledgements wait behind the upload", (0.0, 0.3)),
        ("LEDBAT 25 ms", UPLOAD, "all: one-way delays do not contain that queue", (0.9, 1.05)),
    ):
        found = results.where(law=law, variant=name).interval(seeds_use)
        claims.append(Claim.number(f"{law}: use of the seeds' uplinks where {name}", expected, found, accept))
    rows = [
        [law, name, times(group), group.interval(seeds_use), group.interval(homes_use)]
        for (law, name), group in results.groups("law", "variant")
    ]
    columns = ("law", "changed", "completion (s)", "seeds' uplinks used", "homes' uplinks used")
    caption = f"{LINE}; the use of uplinks is that from 5 to 20 s."
    notes = ("The upload elsewhere has the law of the swarm. `none completes`: no home has the file after 240 s.",)
    return Outcome(claims, (), [Table("seeds", caption, columns, rows)], notes)
