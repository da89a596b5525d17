#!/usr/bin/env python3
"""Throughput of the tunnel over veth without shaping, beside OpenVPN's TCP mode: root, iperf3, openvpn, openssl.

Client - server - web are network namespaces; a TCP upload goes from client to web. The ways take turns, so that whatever
else the machine does meets all of them alike; the median of the runs is printed, and each run.

usage: bench/tunnel.py PATH/TO/leeway [--runs 5] [--seconds 5] [--only quic,tcp,openvpn]
"""

import argparse
import contextlib
import json
import os
import pathlib
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
    ways = {"none": contextlib.nullcontext, "quic": quic, "tcp": tcp, "openvpn": openvpn}
    chosen = {name: ways[name] for name in options.only.split(",")}
    with tempfile.TemporaryDirectory() as folder, network():
        work = Work(options.leeway.resolve(), pathlib.Path(folder))
        rates: dict[str, list[float]] = {name: [] for name in chosen}
        for run in range(options.runs):
            for name, way in chosen.items():
                with way(work) if name != "none" else way():
                    target = "10.77.2.1" if name != "none" else "10.77.2.129"
                    rates[name].append(throughput(target, options.seconds))
                print(f"run {run + 1}: {name:<8} {rates[name][-1]:7.0f} Mbit/s", file=sys.stderr)
    for name, values in rates.items():
        print(f"{name:<8} median {statistics.median(values):7.0f} Mbit/s of {sorted(round(v) for v in values)}")


class Work:
    """Where things are, and the server's state."""

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
    with running("server", [work.leeway, "relay", "--listen", "10.77.1.2:4433", "--private", "--state", state, *relay]):
        with running("client", [work.leeway, "join", "--route", "10.77.2.1/32", *join, token.stdout.strip()]):
            reach()
            yield


def quic(work: Work):
    return leeway(work, [], [])


def tcp(work: Work):
    return leeway(work, ["--tcp", "cubic"], ["--transport", "tcp", "--law", "cubic"])


@contextlib.contextmanager
def openvpn(work: Work):
    """TLS, AES-256-GCM, over TCP under CUBIC; everything else as it comes."""
    if not shutil.which("openvpn"):
        raise SystemExit("there is no openvpn; apt-get install openvpn")
    prints = {}
    for end in ("server", "client"):
        key, cert = work.folder / f"{end}.key", work.folder / f"{end}.crt"
        if not cert.exists():
            make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=x"
            files = ["-keyout", str(key), "-out", str(cert)]
            subprocess.run([*make.split(), *files], check=True, capture_output=True)
        show = ["openssl", "x509", "-in", str(cert), "-noout", "-fingerprint", "-sha256"]
        shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        prints[end] = shown.strip().split("=")[1]
    both = "--dev tun --topology subnet --data-ciphers AES-256-GCM --tcp-nodelay --keepalive 5 20 --verb 1".split()

    def end(name: str, other: str) -> list[str]:
        files = ["--key", str(work.folder / f"{name}.key"), "--cert", str(work.folder / f"{name}.crt")]
        return ["openvpn", *both, *files, "--peer-fingerprint", prints[other]]

    serve = "--proto tcp-server --lport 1194 --server 10.9.0.0 255.255.255.0 --dh none".split()
    join = "--proto tcp-client --remote 10.77.1.2 1194 --client --nobind --route 10.77.2.1 255.255.255.255".split()
    with running("server", [*end("server", "client"), *serve]), running("client", [*end("client", "server"), *join]):
        reach()
        yield


def reach() -> None:
    ping = ["ip", "netns", "exec", NAMES["client"], "ping", "-c", "1", "-W", "1", "10.77.2.1"]
    for _ in range(60):
        # Before the tunnel's route is there, the packet goes nowhere.
        if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.2)
    raise SystemExit("the tunnel does not come up")


def throughput(target: str, seconds: int) -> float:
    command = ["ip", "netns", "exec", NAMES["client"], "iperf3", "-J", "-c", target, "-t", str(seconds), "-O", "1"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["end"]["sum_received"]["bits_per_second"] / 1e6


if __name__ == "__main__":
    main()
