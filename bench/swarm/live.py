"""Measures a swarm of libtorrent clients, each in a namespace behind an access line of its own.

usage: live.py [--peers N] [--bytes N] [--population tcp|utp|half|ours] [--buffer BYTES] [--seed N] [--out FILE]

One seed and N homes that arrive at once (a flash crowd). A home that has the file stays as a
seed. Every home also asks the hub for an echo twice a second, which passes its uplink's queue.
The lines have no delay but that of their queues (tbf), because not every kernel has netem. One
line of JSON a run is appended to FILE.

With `half`, a drawn half of the homes opens its connections by uTP and the others by TCP; all
accept both. A home opens connections to those before it in the list, and so decides the transport
of both directions. With `ours`, all speak uTP, and the drawn half is this project's
crates/utp/examples/peer.rs instead of libtorrent, under --law.

Needs root, iproute2 with tbf, ping and Debian's python3-libtorrent.
"""

import argparse
import json
import os
import random
import re
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTHON = "/usr/bin/python3"  # Debian's Python has the package python3-libtorrent.
CLIENT = Path(__file__).with_name("client.py")
PEER = Path(__file__).parents[2] / "target/release/examples/peer"
PREFIX = f"lws{os.getpid()}"
ADSL = {"down": "8mbit", "up": "600kbit"}
SEED_LINE = {"down": "20mbit", "up": "2mbit"}
PORT = 6881
NET = "198.18.0"  # for benchmarks (RFC 2544); libtorrent serves private addresses beyond its slots


def run(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


class Homes:
    """Namespaces around a bridge: `with Homes(lines, buffer)`."""

    def __init__(self, lines, buffer_bytes):
        self.lines, self.buffer_bytes, self.hub = lines, buffer_bytes, f"{PREFIX}hub"

    def name(self, index):
        return f"{PREFIX}p{index}"

    def address(self, index):
        return f"{NET}.{index + 1}"

    def __enter__(self):
        try:
            run(f"ip netns add {self.hub}")
            run(f"ip -n {self.hub} link add bridge0 type bridge")
            run(f"ip -n {self.hub} addr add {NET}.254/24 dev bridge0")
            run(f"ip -n {self.hub} link set bridge0 up")
            for index, line in enumerate(self.lines):
                self.add(index, line)
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self, index, line):
        home, far = self.name(index), f"p{index}"
        run(f"ip netns add {home}")
        run(f"ip -n {home} link add wan type veth peer name {far} netns {self.hub}")
        run(f"ip -n {self.hub} link set {far} master bridge0")
        run(f"ip -n {home} addr add {self.address(index)}/24 dev wan")
        for namespace, device, rate in ((home, "wan", line["up"]), (self.hub, far, line["down"])):
            # A packet in the queue is one packet of the wire, not a merged one.
            run(f"ip -n {namespace} link set {device} gso_max_segs 1 up")
            queue = f"tbf rate {rate} burst 3kb limit {self.buffer_bytes}"
            run(f"tc -n {namespace} qdisc add dev {device} root {queue}")
        run(f"ip -n {home} link set lo up")

    def start(self, index, command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.name(index), *map(str, command)], text=True, **options)

    def __exit__(self, *_):
        for name in [self.hub, *map(self.name, range(len(self.lines)))]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def transports(population, peers, seed):
    """The transport by which each home opens connections, or `ours`; which homes have which is a lot."""
    if population not in ("half", "ours"):
        return [population] * peers
    drawn = [("utp", "tcp" if population == "half" else "ours")[index % 2] for index in range(peers)]
    random.Random(seed).shuffle(drawn)
    return drawn


def echoes(process):
    """Round trips in milliseconds, and the number of echoes asked for."""
    process.send_signal(signal.SIGINT)
    text = process.communicate()[0]
    sent = re.search(r"(\d+) packets transmitted", text)
    return [float(ms) for ms in re.findall(r"time=([\d.]+)", text)], int(sent[1]) if sent else 0


def percentile(values, of_100):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * of_100 // 100)]


def wait_all(clients, indices, until):
    """The completion instants of the clients `indices` by index; fewer if `until` passes."""
    done, selector = {}, selectors.DefaultSelector()
    for index in indices:
        selector.register(clients[index].stdout, selectors.EVENT_READ, index)
    while len(done) < len(indices) and time.time() < until:
        for key, _ in selector.select(1.0):
            line = clients[key.data].stdout.readline()
            if not line:
                sys.exit(f"client {key.data} ended by itself")
            done[key.data] = json.loads(line)["done"]
            selector.unregister(key.fileobj)
    return done


def swarm(args, folder):
    source = folder / "source" / "file"
    source.parent.mkdir()
    source.write_bytes(os.urandom(args.bytes))
    lines = [SEED_LINE] + [ADSL] * args.peers
    kinds = ["seed", *transports(args.population, args.peers, args.seed)]
    homes, clients, pings = Homes(lines, args.buffer), [], []
    with homes:
        try:
            info_hash = ""  # the seed tells it before any other home starts
            for index, kind in enumerate(kinds):
                seeds = index == 0
                place = source.parent if seeds else folder / str(index)
                place.mkdir(exist_ok=True)
                transport = "utp" if seeds else kind  # the seed opens no connection
                role = "seed" if seeds else "leech"
                words = [PYTHON, CLIENT, role, transport, homes.address(index), source, place]
                if kind == "ours":
                    words = [args.peer, homes.address(index), source, place, info_hash, args.law]
                clients.append(homes.start(index, words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                if seeds:
                    info_hash = listens(clients[0])["info_hash"]
            for client in clients[1:]:
                listens(client)
            for index in range(1, len(kinds)):
                command = ["ping", "-i", "0.5", f"{NET}.254"]
                pings.append(homes.start(index, command, stdout=subprocess.PIPE))
            begin = time.time()
            for index, client in enumerate(clients):
                for other in range(index):
                    client.stdin.write(f"connect {homes.address(other)} {PORT}\n")
                client.stdin.flush()
            done = wait_all(clients, range(1, len(kinds)), begin + args.timeout)
            heard = [echoes(ping) for ping in pings]
            pings = []
            return report(args, kinds, homes, begin, done, heard, [account(client) for client in clients])
        finally:
            for process in clients + pings:
                process.kill()
                process.wait()


def listens(client):
    """What a client says when it listens."""
    line = client.stdout.readline()
    if "listens" not in line:
        sys.exit("a client did not start")
    return json.loads(line)


def account(client):
    client.stdin.write("quit\n")
    client.stdin.flush()
    return [json.loads(line) for line in client.stdout.read().splitlines()][-1]


def report(args, kinds, homes, begin, done, heard, accounts):
    """What a run came to; `unchoked_share` is the part of its interested time that a kind was
    unchoked."""
    times = {index: at - begin for index, at in done.items()}
    kind_of = {homes.address(index): kind for index, kind in enumerate(kinds)}
    choice, transport_bytes = {}, {"tcp": 0, "utp": 0}
    for entry in accounts:
        for address, peer in entry["peers"].items():
            unchoked, choked = choice.get(kind_of[address], (0.0, 0.0))
            choice[kind_of[address]] = (unchoked + peer["unchoked_s"], choked + peer["choked_s"])
            transport_bytes["utp" if peer["utp"] else "tcp"] += peer["up_bytes"]
    by_kind = {}
    for kind in sorted(set(kinds[1:])):
        chosen = [index for index, entry in enumerate(kinds) if entry == kind]
        spans = [times[index] for index in chosen if index in times]
        rtts = [ms for index in chosen for ms in heard[index - 1][0]]
        asked = sum(heard[index - 1][1] for index in chosen)
        ratio = [accounts[i]["up_bytes"] / max(accounts[i]["down_bytes"], 1) for i in chosen]
        unchoked, choked = choice.get(kind, (0.0, 0.0))
        by_kind[kind] = {
            "peers": len(chosen),
            "completed": len(spans),
            "completion_mean_s": round(statistics.mean(spans), 1) if spans else None,
            "completion_p95_s": round(percentile(spans, 95), 1) if spans else None,
            "share_ratio": [round(min(ratio), 2), round(statistics.mean(ratio), 2), round(max(ratio), 2)],
            "unchoked_share": round(unchoked / max(unchoked + choked, 1e-9), 3),
            "echo_p50_ms": round(percentile(rtts, 50)) if rtts else None,
            "echo_p95_ms": round(percentile(rtts, 95)) if rtts else None,
            "echo_lost": round(1 - len(rtts) / asked, 3) if asked else None,
        }
    shape = {"population": args.population, "peers": args.peers, "bytes": args.bytes, "buffer_bytes": args.buffer}
    shape["seed"] = args.seed
    if args.population == "ours":
        shape["law"] = args.law
    return {**shape, "kinds": by_kind, "bytes_by_transport": transport_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=12)
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("--population", choices=["tcp", "utp", "half", "ours"], default="half")
    queue = "bytes of each queue; 100 kB are 1.3 s of an ADSL uplink"
    parser.add_argument("--buffer", type=int, default=100_000, help=queue)
    parser.add_argument("--seed", type=int, default=1, help="of the lot of `half`")
    peer = "the program of `ours` (cargo build --release --example peer)"
    parser.add_argument("--peer", type=Path, default=PEER, help=peer)
    parser.add_argument("--law", default="ledbat", help="of `ours`")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds")
    parser.add_argument("--out", type=Path, help="file to append the result to")
    args = parser.parse_args()
    if not 2 <= args.peers <= 200:
        parser.error("--peers is from 2 to 200")
    # SIGTERM ends the program in the normal way, so that the namespaces are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with tempfile.TemporaryDirectory() as folder:
        line = json.dumps(swarm(args, Path(folder)))
    print(line)
    if args.out:
        with args.out.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
