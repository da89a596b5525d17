#!/usr/bin/env python3
"""Runs a gateway under full load for a long time, and checks that its resources do not grow.

Three namespaces: neighbours, the gateway with a line of 50 Mbit/s, and servers. Neighbours
download large objects all the time. They fetch small objects with a new connection each, by the
HTTP proxy, by SOCKS5 and without any configuration, and break a tenth of them off. Every ten
seconds the program prints a line of figures. It fails if the mean memory of the last third is more
than `--growth` above that of the second third (the first warms up), if files stay open after the
load, or if rules, namespaces or sockets are left behind.

Needs root, ip, tc and nft.

usage: bench/soak.py PATH/TO/leeway [--minutes 30] [--threads 24] [--growth 0.05]
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

RATE = "50mbit"
# Files that a gateway opens with its first requests and keeps, such as those of the accounts.
OPENED = 8
CONFIG = """
listen = ["10.20.0.1:3128"]
socks = ["10.20.0.1:1080"]
clients = ["10.20.0.0/24"]
allow = ["198.18.40.0/24"]
ports = [80]
dns = ["198.18.40.2"]
home = ["192.168.7.0/24"]
upload = []
[transparent]
interface = "mesh"
[accounts]
url = "{folder}/accounts.db"
[caps]
all = {{ daily = "900 GB" }}
[control]
socket = "{folder}/control.sock"
state = "{folder}/state"
"""
SERVER = """
import http.server, socketserver
PIECE = bytes(65536)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = int(self.path.rpartition('/')[2])
        self.send_response(200)
        self.send_header('Content-Length', str(left))
        self.end_headers()
        while left > 0:
            left -= self.wfile.write(PIECE[:left])
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingTCPServer):
    request_queue_size, allow_reuse_address, daemon_threads = 256, True, True
    def handle_error(self, *_):
        pass
Server(('198.18.40.2', 80), Handler).serve_forever()
"""
# Prints how many requests have ended well, each second.
LOAD = """
import random, socket, struct, sys, threading, time
done = failed = 0
def connect(way):
    if way == 'socks':
        s = socket.create_connection(('10.20.0.1', 1080), 30)
        s.sendall(b'\\5\\1\\0'); s.recv(2)
        s.sendall(b'\\5\\1\\0\\1' + socket.inet_aton('198.18.40.2') + b'\\0\\x50'); s.recv(10)
        return s, ''
    if way == 'proxy':
        return socket.create_connection(('10.20.0.1', 3128), 30), 'http://198.18.40.2'
    return socket.create_connection(('198.18.40.2', 80), 30), ''
def fetch(way, size, breaks):
    s, host = connect(way)
    with s:
        s.settimeout(60)
        s.sendall(f'GET {host}/{size} HTTP/1.1\\r\\nHost: 198.18.40.2\\r\\nConnection: close\\r\\n\\r\\n'.encode())
        if breaks:
            s.recv(1000)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            return True
        got = 0
        while piece := s.recv(65536):
            got += len(piece)
        return got > size
def work(n):
    global done, failed
    chance = random.Random(n)
    while True:
        way = chance.choice(['proxy', 'proxy', 'socks', 'plain'])
        size = 50_000_000 if n < 3 else chance.choice([500, 12_500, 100_000])
        try:
            well = fetch(way, size, n >= 3 and chance.random() < 0.1)
        except OSError:
            well = False
        done, failed = done + well, failed + (not well)
for n in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(n,), daemon=True).start()
while True:
    time.sleep(1)
    print(done, failed, flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leeway", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--growth", type=float, default=0.05)
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("namespaces need root")
    before = namespaces()
    with tempfile.TemporaryDirectory() as name:
        wrong = soak(options, pathlib.Path(name))
    if namespaces() != before:
        wrong.append(f"namespaces are left behind: {namespaces() - before}")
    for what in wrong:
        print(f"wrong: {what}", file=sys.stderr)
    print("flat" if not wrong else "not flat")
    return 1 if wrong else 0


def soak(options: argparse.Namespace, folder: pathlib.Path) -> list[str]:
    wrong = []
    with network() as (users, here, servers):
        clean = rules(here)
        (folder / "gateway.toml").write_text(CONFIG.format(folder=folder))
        with program(servers, "python3", "-c", SERVER):
            log = (folder / "log").open("w")
            words = [options.leeway.resolve(), "gateway", "--config", folder / "gateway.toml"]
            with program(here, *words, stderr=log) as gateway:
                wait_for(folder / "control.sock", folder / "log")
                idle, ruled = figures(gateway, here), rules(here)
                print("minute  memory_kB  files  sockets  done  failed", flush=True)
                samples = load(options, gateway, users, here)
                end = time.monotonic() + 120
                most = idle["files"] + OPENED
                while (after := figures(gateway, here))["files"] > most and time.monotonic() < end:
                    time.sleep(1)
                if after["files"] > most:
                    wrong.append(f"{after['files']} open files after the load, {idle['files']} before it")
                wrong += differs("changed under load", ruled, rules(here))
                gateway.send_signal(signal.SIGTERM)
                if gateway.wait(60) != 0:
                    wrong.append(f"it ended with {gateway.returncode}: {(folder / 'log').read_text()}")
        wrong += differs("left behind", clean, rules(here))
        left = sockets(here)
        if left:
            wrong.append(f"{left} sockets are left behind")
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    memory = [statistics.mean(sample["memory_kB"] for sample in part) for part in (middle, last)]
    print(f"memory in kB: {idle['memory_kB']} idle, {memory[0]:.0f}, {memory[1]:.0f}, {after['memory_kB']} after")
    print(f"open files: {idle['files']} idle, {after['files']} after; {samples[-1]['done']} requests")
    if memory[1] > memory[0] * (1 + options.growth):
        wrong.append("memory grows")
    if samples[-1]["done"] <= samples[third]["done"]:
        wrong.append("nothing was served in the end")
    return wrong


def load(options: argparse.Namespace, gateway: subprocess.Popen, users: str, here: str) -> list[dict]:
    samples = []
    worker = start(users, "python3", "-c", LOAD, options.threads, stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    due = 10.0
    try:
        while (minutes := (time.monotonic() - began) / 60) < options.minutes:
            done, failed = map(int, worker.stdout.readline().split())
            if time.monotonic() - began < due:
                continue
            due += 10
            samples.append({"minute": round(minutes, 2), **figures(gateway, here), "done": done, "failed": failed})
            print("  ".join(str(value) for value in samples[-1].values()), flush=True)
    finally:
        worker.kill()
        worker.wait()
    return samples


def figures(gateway: subprocess.Popen, here: str) -> dict[str, int]:
    """Memory and open files of the gateway and of the process that owns its rules."""
    family = [gateway.pid, *children(gateway.pid)]
    status = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in family]
    memory = sum(int(text.partition("VmRSS:")[2].split()[0]) for text in status)
    files = sum(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) for pid in family)
    return {"memory_kB": memory, "files": files, "sockets": sockets(here)}


def children(pid: int) -> list[int]:
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sockets(here: str) -> int:
    """Number of TCP sockets of the namespace, without those in TIME_WAIT."""
    text = inside(here, "cat", "/proc/net/tcp", "/proc/net/tcp6")
    states = [line.split()[3] for line in text.splitlines() if ":" in line.split()[0]]
    return sum(state != "06" for state in states)


def rules(here: str) -> str:
    """Without addresses of the link, which come when it is known that nobody else has them."""
    commands = ["nft -s list ruleset"]
    commands += [f"ip {family} {what}" for family in ("-4", "-6") for what in ("rule", "route show table all")]
    lines = "".join(inside(here, *command.split()) for command in commands).splitlines()
    return "\n".join(line for line in lines if "fe80:" not in line and "ff00:" not in line)


def differs(what: str, before: str, after: str) -> list[str]:
    lines = set(before.splitlines()) ^ set(after.splitlines())
    return [f"rules {what}: {lines}"] if lines else []


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "-json", "netns"], capture_output=True, text=True, check=True).stdout
    return {entry["name"] for entry in json.loads(listed or "[]") if entry["name"].startswith("lwsoak")}


@contextlib.contextmanager
def network():
    names = [f"lwsoak{part}{os.getpid()}" for part in "ugs"]
    u, g, s = names
    script = f"""
        for n in {u} {g} {s}; do ip netns add $n; ip -n $n link set lo up;
        done
        ip -n {u} link add lan type veth peer name mesh netns {g}
        ip -n {g} link add wan type veth peer name eth netns {s}
        ip -n {u} addr add 10.20.0.2/24 dev lan; ip -n {g} addr add 10.20.0.1/24 dev mesh
        ip -n {g} addr add 198.18.40.1/24 dev wan; ip -n {s} addr add 198.18.40.2/24 dev eth
        for d in "{u} lan" "{g} mesh" "{g} wan" "{s} eth"; do set -- $d; ip -n $1 link set $2 up; done
        ip -n {u} route add default via 10.20.0.1; ip -n {g} route add default via 198.18.40.2
        tc -n {s} qdisc add dev eth root tbf rate {RATE} burst 20kb latency 100ms"""
    try:
        subprocess.run(["sh", "-ec", script], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def inside(namespace: str, *words: str) -> str:
    command = ["ip", "netns", "exec", namespace, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def start(namespace: str, *words, **how) -> subprocess.Popen:
    return subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, words)], **how)


@contextlib.contextmanager
def program(namespace: str, *words, **how):
    process = start(namespace, *words, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(path: pathlib.Path, log: pathlib.Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        if time.monotonic() > end:
            raise SystemExit(f"the gateway does not start:\n{log.read_text()}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
