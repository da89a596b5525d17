#!/usr/bin/env python3
"""Measures the simulator beside ns-2 on the same networks: NewReno flows on one drop-tail link.

    apt-get install ns2
    bench/ns2.py target/release/leeway

usage: ns2.py LEEWAY [ROUNDS]

Both programs write nothing but the link's counters, and send segments of 1460 bytes with 40 bytes
of headers; receivers acknowledge each one. A round runs both programs one after the other on each
network. Prints medians of the processor time of the whole process per packet that left the link.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Network(NamedTuple):
    """A link, and NewReno flows on it."""

    mbps: float
    one_way_ms: int
    buffer_pkt: int
    flows: int
    seconds: int


NETWORKS = [
    Network(10, 50, 84, 2, 1000),
    Network(10, 50, 84, 200, 1000),
    Network(50, 250, 2083, 2, 400),
    Network(0.6, 225, 22, 96, 2000),
]

TCL = """
set ns [new Simulator]
remove-all-packet-headers
add-packet-header IP TCP
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000000
Agent/TCP set overhead_ 0
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b {mbps}Mb {one_way_ms}ms DropTail
$ns queue-limit $a $b {buffer_pkt}
$ns queue-limit $b $a 1000000
set counts [$ns monitor-queue $a $b ""]
for {{set i 0}} {{$i < {flows}}} {{incr i}} {{
  set tcp [new Agent/TCP/Newreno]
  $ns attach-agent $a $tcp
  set sink [new Agent/TCPSink]
  $ns attach-agent $b $sink
  $ns connect $tcp $sink
  $ns at [expr $i / {flows}.0] "[$tcp attach-app FTP] start"
}}
$ns at {seconds} {{ puts "[$counts set pdepartures_] [$counts set pdrops_]"; exit 0 }}
$ns run
"""

TOML = """
duration = "{seconds} s"
profile = "ns2"

[dumbbell.bottleneck]
rate = "{mbps} Mbit/s"
delay = "{one_way_ms} ms"
buffer = "{buffer_pkt} pkt"

[[flow]]
name = "newreno"
law = "newreno"
role = "background"
count = {flows}
stagger = "{stagger_us} us"
"""


def run(command: list[str], stdin: str | None = None) -> tuple[float, str]:
    """The processor time of a process in seconds, and what it prints."""
    before = os.times()
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}: {done.stderr}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, done.stdout


def leeway(program: str, network: Network, folder: Path) -> tuple[float, float, float]:
    """Processor time in seconds, packets that left the link, and the part of them that was dropped."""
    scenario = folder / "network.toml"
    scenario.write_text(TOML.format(stagger_us=1_000_000 // network.flows, **network._asdict()))
    used, said = run([program, "sim", str(scenario), "--jobs", "1", "--json"])
    link = json.loads(said)["points"][0]["statistics"][0]["links"][0]
    packets = link["utilisation"]["mean"] * network.mbps * 1e6 * network.seconds / (8 * 1500)
    return used, packets, link["loss"]["mean"]


def ns2(network: Network) -> tuple[float, float, float]:
    """The same of ns-2."""
    with tempfile.NamedTemporaryFile("w", suffix=".tcl") as script:
        script.write(TCL.format(**network._asdict()))
        script.flush()
        used, said = run(["ns", script.name])
    departed, dropped = (float(number) for number in said.split())
    return used, departed, dropped / (departed + dropped)


def main() -> None:
    """Prints the table."""
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"simulator and ns-2: processor time a packet, whole process, medians of {rounds}")
    print(f"{'network':44} {'ns/pkt':>7} {'ns-2':>7} {'ratio':>6}   utilisation      loss %")
    with tempfile.TemporaryDirectory() as folder:
        for network in NETWORKS:
            both = [(leeway(program, network, Path(folder)), ns2(network)) for _ in range(rounds)]
            costs = [[1e9 * used / packets for used, packets, _ in pair] for pair in both]
            ours, theirs = map(statistics.median, zip(*costs, strict=True))
            ratio = statistics.median(theirs / ours for ours, theirs in costs)
            most = network.mbps * 1e6 * network.seconds / (8 * 1500)
            used = [f"{side[1] / most:.2f}" for side in both[0]]
            lost = [f"{100 * side[2]:.2f}" for side in both[0]]
            name = (
                f"{network.mbps:g} Mbit/s, {network.one_way_ms} ms one way, {network.buffer_pkt} pkt, "
                f"{network.flows} flows"
            )
            print(f"{name:44} {ours:7.0f} {theirs:7.0f} {ratio:6.1f}   {', '.join(used)}   {', '.join(lost)}")


if __name__ == "__main__":
    main()
