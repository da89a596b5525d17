#!/usr/bin/env python3
"""Measures the throughput of the tunnel and of OpenVPN's TCP mode, over veth without shaping.

Needs root, iperf3, openvpn and openssl. Client, server and web are network namespaces in a row.
A TCP upload goes from client to web. The tunnels take turns, so that other load of the machine
affects all of them. Prints each run, the median of the rates, and the processor time of both ends
of the tunnel per gigabyte. Other load changes the processor time less than the rates.

usage: bench/tunnel.py PATH/TO/leeway [--runs 5] [--seconds 5] [--only quic,tcp,openvpn]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

NAMES = {role: f"lqb{role}{os.getpid()}" for role in ("client", "server", "web")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leeway", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", default="none,quic,tcp,openvpn")
    options = parser.parse_args()
    ways = {"none": lambda work: contextlib.nullcontext(()), "quic": quic, "tcp": tcp, "openvpn": openvpn}
    chosen = {name: ways[name] for name in options.only.split(",")}
    with tempfile.TemporaryDirectory() as folder, network():
        work = Work(options.leeway.resolve(), pathlib.Path(folder))
        rates: dict[str, list[float]] = {name: [] for name in chosen}
        costs: dict[str, list[float]] = {name: [] for name in chosen}
        for run in range(options.runs):
            for name, way in chosen.items():
                target = "10.77.2.1" if name != "none" else "10.77.2.129"
                with way(work) as ends:
                    before = processor_time(ends)
                    sent_bytes, rate = upload(target, options.seconds)
                    cost = (processor_time(ends) - before) / (sent_bytes / 1e9)
                rates[name].append(rate / 1e6)
                costs[name].append(cost)
                print(f"run {run + 1}: {name:<8} {rate / 1e6:7.0f} Mbit/s {cost:6.2f} s/GB", file=sys.stderr)
    for name, values in rates.items():
        rate, cost = statistics.median(values), statistics.median(costs[name])
        print(f"{name:<8} {rate:7.0f} Mbit/s {cost:6.2f} s/GB of {sorted(round(value) for value in values)}")


class Work:
    """The files of a run, and the state of the server."""

    def __init__(self, leeway: pathlib.Path, folder: pathlib.Path) -> None:
        self.leeway, self.folder = str(leeway), folder


@contextlib.contextmanager
def network():
    client, server, web = (NAMES[role] for role in ("client", "server", "web"))
    script = f"""
        for n in {client} {server} {web}; do ip netns add $n; ip -n $n link set lo up; done
        ip -n {client} link add out type veth peer name left netns {server}
        ip -n {server} link add right type veth peer name in netns {web}
        ip -n {client} addr add 10.77.1.1/24 dev out; ip -n {server} addr add 10.77.1.2/24 dev left
        ip -n {server} addr add 10.77.2.2/24 dev right; ip -n {web} addr add 10.77.2.1/24 dev in
        ip -n {web} addr add 10.77.2.129/24 dev in
        ip -n {client} link set out up; ip -n {server} link set left up
        ip -n {server} link set right up; ip -n {web} link set in up
        ip -n {client} route add 10.77.2.129/32 via 10.77.1.2; ip -n {web} route add default via 10.77.2.2
        ip netns exec {server} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
    """
    try:
        subprocess.run(["sh", "-ec", script], check=True)
        with running("web", ["iperf3", "-s"]):
            yield
    finally:
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running(role: str, command: list[str]):
    process = subprocess.Popen(
        ["ip", "netns", "exec", NAMES[role], *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(0.3)
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def leeway(work: Work, relay: list[str], join: list[str]):
    state = str(work.folder / "state")
    invite = [work.leeway, "invite", "--state", state, "--address", "10.77.1.2:4433", "--name"]
    token = subprocess.run([*invite, str(time.monotonic_ns())], check=True, capture_output=True, text=True)
    serve = [
        work.leeway,
        "relay",
        "--listen",
        "10.77.1.2:4433",
        "--private",
        "--ports",
        "any",
        "--state",
        state,
        *relay,
    ]
    follow = [work.leeway, "join", "--route", "10.77.2.1/32", *join, token.stdout.strip()]
    with running("server", serve) as first, running("client", follow) as second:
        reach()
        yield first, second


def quic(work: Work):
    return leeway(work, [], [])


def tcp(work: Work):
    return leeway(work, ["--tcp", "cubic"], ["--transport", "tcp", "--law", "cubic"])


@contextlib.contextmanager
def openvpn(work: Work):
    """OpenVPN with TLS and AES-256-GCM, over TCP under CUBIC, with default settings otherwise."""
    if not shutil.which("openvpn"):
        raise SystemExit("there is no openvpn; apt-get install openvpn")
    prints = {}
    for end in ("server", "client"):
        key, cert = work.folder / f"{end}.key", work.folder / f"{end}.crt"
        if not cert.exists():
            make = shlex.split(
                "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=x"
            )
            files = ["-keyout", str(key), "-out", str(cert)]
            subprocess.run([*make, *files], check=True, capture_output=True)
        show = ["openssl", "x509", "-in", str(cert), "-noout", "-fingerprint", "-sha256"]
        shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        prints[end] = shown.strip().split("=")[1]
    both = shlex.split("--dev tun --topology subnet --data-ciphers AES-256-GCM --tcp-nodelay --keepalive 5 20 --verb 1")

    def end(name: str, other: str) -> list[str]:
        files = ["--key", str(work.folder / f"{name}.key"), "--cert", str(work.folder / f"{name}.crt")]
        return ["openvpn", *both, *files, "--peer-fingerprint", prints[other]]

    serve = shlex.split("--proto tcp-server --lport 1194 --server 10.9.0.0 255.255.255.0 --dh none")
    join = shlex.split("--proto tcp-client --remote 10.77.1.2 1194 --client --nobind --route 10.77.2.1 255.255.255.255")
    first, second = (
        running("server", [*end("server", "client"), *serve]),
        running("client", [*end("client", "server"), *join]),
    )
    with first as server, second as client:
        reach()
        yield server, client


def reach() -> None:
    ping = ["ip", "netns", "exec", NAMES["client"], "ping", "-c", "1", "-W", "1", "10.77.2.1"]
    for _ in range(60):
        # Before the tunnel's route is there, the packet goes nowhere.
        if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.2)
    raise SystemExit("the tunnel does not come up")


def upload(target: str, seconds: int) -> tuple[float, float]:
    """Uploads. Returns the bytes that arrived, and bits per second."""
    command = ["ip", "netns", "exec", NAMES["client"], "iperf3", "-J", "-c", target, "-t", str(seconds)]
    for _ in range(3):
        # The server may still be busy with the run before.
        report = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)
        if "sum_received" in report["end"]:
            return report["end"]["sum_received"]["bytes"], report["end"]["sum_received"]["bits_per_second"]
        time.sleep(1)
    raise SystemExit(f"iperf3: {report.get('error')}")


def processor_time(ends) -> float:
    """Processor time of these processes and all their threads, in seconds."""
    ticks = 0
    for process in ends:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
