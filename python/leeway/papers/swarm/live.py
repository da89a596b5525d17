"""The live swarm of bench/swarm beside the same swarm simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway import Channel, Flow, Link, Run, Scenario, Swarm
from leeway.lab import Case, Claim, Outcome, Setting, Table, experiment

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps

UTP, TCP = "ledbat:target=100ms", "cubic"
HOMES = 12
MEASURED = {
    "TCP": {"tcp": (52.9, 54.0)},
    "uTP": {"utp": (51.7, 50.5)},
    "half": {"tcp": (55.4, 56.5, 55.4, 56.5, 57.4), "utp": (46.9, 46.2, 49.7, 47.4, 44.4)},
}
"""Mean completion times (s) of nine runs of libtorrent clients (Debian 12: 2.0.8):
bench/swarm/results.jsonl."""


def street(kinds: dict[str, tuple[str, int]]) -> Scenario:
    """bench/swarm/live.py: ADSL lines and a seed behind 2 Mbit/s, queues of 100 kB, no delay but
    theirs."""

    def line(name: str, count: int, up: str, down: str) -> Link:
        forward, reverse = (Channel(rate=rate, delay="0.1 ms", buffer="100 kB") for rate in (up, down))
        return Link(name=f"line-{name}", count=count, from_=name, to="hub", forward=forward, reverse=reverse)

    lines = [line(node, count, "600 kbit/s", "8 Mbit/s") for node, (_, count) in kinds.items()]
    groups = [
        Flow(name=node, count=count, law=law, from_=node, to="hub", start="0 s", app={"kind": "peer"})
        for node, (law, count) in kinds.items()
    ]
    seed_law = next(iter(kinds.values()))[0]
    seed = Flow(name="seed", law=seed_law, from_="source", to="hub", app={"kind": "peer", "seed": True})
    return Scenario(
        duration="200 s",
        swarm=Swarm(pieces=64, piece="65536 B"),
        link=[*lines, line("source", 1, "2 Mbit/s", "20 Mbit/s")],
        flow=[seed, *groups],
    )


SWARMS = {
    "TCP": {"tcp": (TCP, HOMES)},
    "uTP": {"utp": (UTP, HOMES)},
    "half": {"tcp": (TCP, HOMES // 2), "utp": (UTP, HOMES // 2)},
}


@experiment("swarm:live", title="A dozen libtorrent clients beside the simulator")
def live(setting: Setting) -> Steps:
    """Twelve homes and a seed, 4 MiB: nine runs of real clients in network namespaces.

    The simulator's swarm is to be within 15 % of the real one.
    """
    results = yield [
        Case(street(kinds), seed, {"swarm": name})
        for name, kinds in SWARMS.items()
        for seed in setting.seeds(quick=20, full=50)
    ]
    claims, rows = [], []
    for swarm, kinds in MEASURED.items():
        for node, times in kinds.items():

            def completion(run: Run, node: str = node) -> float:
                return run.window().group(node).completion.mean_s

            real = sum(times) / len(times)
            found = results.where(swarm=swarm).interval(completion)
            text = f"{swarm}: mean completion time of the homes with {'uTP' if node == 'utp' else 'TCP'}"
            claims.append(Claim.number(text, f"{real:.1f} s (live)", found, (0.85 * real, 1.15 * real), "s"))
            rows.append([swarm, node, ", ".join(f"{time:g}" for time in times), found, found.mean / real])
    columns = ("swarm", "homes", "live (s)", "simulated (s)", "simulated / live")
    notes = (
        "The live clients differ: the one that opens a connection chooses the transport of both directions, seeds "
        "serve in turn, and a client asks for as many blocks as arrive in 3 s. uTP is libtorrent's own with its "
        "target of 100 ms; TCP is the kernel's CUBIC.",
    )
    return Outcome(claims, (), [Table("live", "Mean completion times.", columns, rows)], notes)
