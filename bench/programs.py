#!/usr/bin/env python3
"""Measures unmodified programs under `leeway run` against a CUBIC flow on a real bottleneck.

    cargo build --release -p leeway-cli
    sudo bench/programs.py --repetitions 5 --jobs 3

In each run the program is alone for 10 s, competes with the primary (iperf3, CUBIC) for 14 s, and
is alone again for 8 s. The test network has 10 Mbit/s, 50 ms and a drop-tail buffer of 2 BDP in
each direction. Prints medians as a Markdown table. Needs root, curl, iperf3, rsync and OpenSSH's
client and server.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEEWAY = os.environ.get("LEEWAY", str(ROOT / "target" / "release" / "leeway"))
LINK_MBPS = 10.0 * 1514 / 1500  # Devices count packets with the link-layer header.
STEP_S = 0.1
ALONE_S, BESIDE_S, AGAIN_S = 10.0, 14.0, 8.0
FILE_MB = 60  # More than the link can carry in one run.
SSHD = """
Port 2222
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PidFile none
"""
PROGRAMS = ["curl", "rsync", "iperf3"]

NETWORK = """
[host.left]
[host.background]
[host.primary]
[host.right]
[host.server]
[link.background]
between = ["background", "left"]
[link.primary]
between = ["primary", "left"]
[link.exit]
between = ["right", "server"]
[link.bottleneck]
between = ["left", "right"]
rate = "10 Mbit/s"
delay = "25 ms"
buffer = "2 BDP"
queue = "droptail"
[[program]]
on = "server"
run = "iperf3 --server --port 5201"
listens = 5201
[[program]]
on = "server"
run = "iperf3 --server --port 5202"
listens = 5202
[[program]]
on = "server"
run = "exec {python} {this} --serve {folder}"
listens = 8000
[[program]]
on = "server"
run = "mkdir -p /run/sshd; exec /usr/sbin/sshd -D -f {folder}/sshd_config"
listens = 2222
"""


def command(program, direction, folder):
    """The program's command line."""
    down = direction == "down"
    if program == "iperf3":
        return ["iperf3", "-c", "server", "-p", "5201", "-t", "60", *(["-R"] if down else [])]
    if program == "curl":
        url = "http://server:8000/data"
        return ["curl", "-s", "-o", "/dev/null", url] if down else ["curl", "-s", "-T", f"{folder}/data", url]
    ssh = f"ssh -p 2222 -i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    ends = [f"{folder}/data", f"server:{folder}/copy"]
    if down:
        ends = [f"server:{folder}/data", f"{folder}/copy"]
    return ["rsync", "--whole-file", "--inplace", "-e", ssh, *ends]


def serve(folder):
    """Serves the file, and accepts uploads."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            data = Path(folder, "data").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PUT(self):
            if self.headers.get("Expect") == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            while self.rfile.read(65536):
                pass

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("", 8000), Handler).serve_forever()


def carried(device, direction):
    """Bytes that a device of this host has sent to the server (up) or received from it (down)."""
    row = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith(device + ":"))
    fields = row.split(":")[1].split()
    return int(fields[0] if direction == "up" else fields[8])


def measure(program, direction, folder):
    """Runs on the router before the bottleneck: starts the flows and counts the bytes that
    pass."""

    def start(host, args):
        line = [LEEWAY, "testnet", "exec", host, "--", *args]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    running = []
    if program != "none":
        running.append(start("background", [LEEWAY, "run", "--", *command(program, direction, folder)]))
    samples, primary, begin = [], None, time.monotonic()
    while (now := time.monotonic() - begin) < ALONE_S + BESIDE_S + AGAIN_S:
        if primary is None and now >= ALONE_S:
            flags = ["-R"] if direction == "down" else []
            primary = start(
                "primary", ["iperf3", "-c", "server", "-p", "5202", "-C", "cubic", "-t", str(BESIDE_S), *flags]
            )
            running.append(primary)
        samples.append([now, carried("background", direction), carried("primary", direction)])
        time.sleep(STEP_S)
    for process in running:
        process.terminate()
        process.wait()
    print(json.dumps(samples))


def figures(samples):
    """Shares of the link, and the times to yield and to reclaim, in seconds."""

    def share(column, begin, end):
        inside = [row for row in samples if begin <= row[0] <= end]
        return 8e-6 * (inside[-1][column] - inside[0][column]) / (inside[-1][0] - inside[0][0]) / LINK_MBPS

    def reaches(column, begin, end):
        """The time from which the flow has 90 % of the link for half a second."""
        at = begin
        while at + 0.5 <= end:
            if share(column, at, at + 0.5) >= 0.9:
                return at - begin
            at += STEP_S
        return None

    stop = ALONE_S + BESIDE_S
    return {
        "alone": share(1, ALONE_S - 4, ALONE_S),
        "primary": share(2, stop - 7, stop - 0.5),
        "beside": share(1, stop - 7, stop - 0.5),
        "yield_s": reaches(2, ALONE_S, stop),
        "reclaim_s": reaches(1, stop, stop + AGAIN_S),
    }


def once(program, direction):
    """Makes one run on a network of its own."""
    with tempfile.TemporaryDirectory(prefix="leeway-programs-") as folder:
        Path(folder, "data").write_bytes(os.urandom(1 << 20) * FILE_MB)
        for name in ["host", "user"]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
        Path(folder, "sshd_config").write_text(SSHD.format(folder=folder))
        network = Path(folder, "network.toml")
        network.write_text(NETWORK.format(python=sys.executable, this=__file__, folder=folder))
        line = [LEEWAY, "testnet", str(network), "--on", "left", "--", sys.executable, __file__]
        done = subprocess.run([*line, "--measure", program, direction, folder], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{program} {direction}: {done.stderr}")
        return figures(json.loads(done.stdout.splitlines()[-1]))


def median(values, scale=1.0, digits=1):
    """The median; "never" if fewer than half of the runs have a value."""
    known = sorted(float("inf") if value is None else value * scale for value in values)
    middle = statistics.median(known)
    return "never" if middle == float("inf") else f"{middle:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=3, help="number of networks at the same time")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    elif options.measure:
        measure(*options.measure)
    else:
        compare(options.repetitions, options.jobs)


def compare(repetitions, jobs):
    """Makes all runs and prints the table."""
    cases = [(program, direction) for direction in ["up", "down"] for program in ["none", *PROGRAMS]]
    with ThreadPoolExecutor(jobs) as pool:
        runs = {case: [pool.submit(once, *case) for _ in range(repetitions)] for case in cases}
        results = {case: [run.result() for run in of_case] for case, of_case in runs.items()}
    print("| program | direction | alone, % of the link | primary keeps, % | beside it, % | yields, s | reclaims, s |")
    print("|---|---|---|---|---|---|---|")
    for (program, direction), found in results.items():
        without = statistics.median(run["primary"] for run in results["none", direction])
        of = {key: [run[key] for run in found] for key in found[0]}
        print(
            f"| {program} | {direction} | {median(of['alone'], 100)} | {median(of['primary'], 100 / without)} "
            f"| {median(of['beside'], 100)} | {median(of['yield_s'])} | {median(of['reclaim_s'])} |"
        )


if __name__ == "__main__":
    main()
