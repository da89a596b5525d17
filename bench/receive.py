#!/usr/bin/env python3
"""Measures downloads on an emulated link, some limited by their receiver: rates and queuing delay.

    cargo build --release -p leeway-cli && cargo build --release -p leeway-kernel --example receive
    bench/receive.py --plan 'bg:0-24;cubic:8-16' --down 10mbit --delay 25ms

A plan lists downloads with their start and end in seconds. The kind is `bg` (limited by its
receiver; not with --law none) or the sender's congestion control. `x30` means thirty connections,
`@15000` objects of 15000 bytes over new connections. Needs root and cgroup v2.
"""

import argparse
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "target"
LEEWAY = os.environ.get("LEEWAY", str(TARGET / "release" / "leeway"))
EXAMPLE = os.environ.get("RECEIVE", str(TARGET / "release" / "examples" / "receive"))
STEP = 0.1
CGROUPS = os.environ.get("CGROUPS", "/sys/fs/cgroup/unified")


def parse(plan):
    out = []
    for part in plan.split(";"):
        who, rest = part.split(":", 1)
        span, _, size = rest.partition("@")
        span, _, count = span.partition("x")
        a, b = span.split("-")
        out.append({"who": who, "begin": float(a), "end": float(b), "count": int(count or 1), "size": int(size or 0)})
    return out


def serve(listener):
    def one(conn):
        try:
            want = b""
            while not want.endswith(b"\n"):
                want += conn.recv(100) or b"\n"
            cc, size = want.decode().split()
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            left = int(size) or 1 << 60
            block = bytes(65536)
            while left > 0:
                left -= conn.send(block[: min(left, 65536)])
            conn.shutdown(socket.SHUT_WR)
            conn.recv(1)
        except OSError:
            pass
        finally:
            conn.close()

    while True:
        try:
            conn, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=one, args=(conn,), daemon=True).start()


def ticker(sock):
    """Measures one-way delays: sends a datagram with the time every 20 ms. Both ends share the
    machine's clock."""
    _, peer = sock.recvfrom(10)
    try:
        while True:
            sock.sendto(struct.pack("d", time.monotonic()), peer)
            time.sleep(0.02)
    except OSError:
        pass


def client(item, port, t0, cgroup):
    """Runs one download of the plan, in a process of its own."""
    if item["who"] == "bg":
        Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
    host = os.environ["LEEWAY_GATEWAY"]
    cc = "cubic" if item["who"] == "bg" else item["who"]
    got = [0]
    objects = [0]
    lock = threading.Lock()
    stop = t0 + item["end"]

    def pull():
        while time.monotonic() < stop:
            try:
                s = socket.create_connection((host, port), timeout=5)
                s.settimeout(0.5)
                s.sendall(f"{cc} {item['size']}\n".encode())
                while time.monotonic() < stop:
                    try:
                        d = s.recv(65536)
                    except TimeoutError:
                        continue
                    if not d:
                        objects[0] += 1
                        break
                    with lock:
                        got[0] += len(d)
                s.close()
            except OSError:
                time.sleep(0.01)

    time.sleep(max(0, t0 + item["begin"] - time.monotonic()))
    for _ in range(item["count"]):
        threading.Thread(target=pull, daemon=True).start()
    series, last, n = [], 0, 0
    while True:
        n += 1
        at = t0 + item["begin"] + n * STEP
        if at > stop + 0.001:
            break
        time.sleep(max(0, at - time.monotonic()))
        now = got[0]
        series.append(now - last)
        last = now
    print(json.dumps(dict(item, series=series, objects=objects[0])), flush=True)
    os._exit(0)


def inside(args):
    plan = parse(args.plan)
    t0 = time.monotonic() + 1.0
    end = max(p["end"] for p in plan)
    owd = []
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.sendto(b"x", (os.environ["LEEWAY_GATEWAY"], args.port))

    def hear():
        while True:
            d = u.recv(100)
            now = time.monotonic()
            owd.append((now - t0, now - struct.unpack("d", d)[0]))

    threading.Thread(target=hear, daemon=True).start()
    procs = [
        subprocess.Popen(
            [sys.executable, __file__, "client", json.dumps(p), str(args.port), str(t0), args.cgroup],
            stdout=subprocess.PIPE,
            text=True,
        )
        for p in plan
    ]
    flows = [json.loads(p.communicate(timeout=end + 60)[0]) for p in procs]
    Path(args.out).write_text(json.dumps({"flows": flows, "owd": [x for x in owd if x[0] <= end]}))
    os._exit(0)


def run(args):
    listener = socket.create_server(("0.0.0.0", 0), backlog=200)
    port = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("0.0.0.0", port))
    threading.Thread(target=ticker, args=(u,), daemon=True).start()
    cgroup = Path(CGROUPS, f"lwbench{os.getpid()}")
    cgroup.mkdir()
    end = max(p["end"] for p in parse(args.plan))
    holder = None
    log = Path(args.log or os.devnull)
    if args.law != "none":
        holder = subprocess.Popen(
            [EXAMPLE, str(cgroup), args.law, str(int((end + 30) * 1000)), "250"], stdout=subprocess.PIPE, text=True
        )
        assert "holds back" in holder.stdout.readline()

        def copy():
            log.write_text("".join(holder.stdout))

        copying = threading.Thread(target=copy, daemon=True)
        copying.start()
    out = Path(tempfile.mkstemp(suffix=".json")[1])
    link = [LEEWAY, "link", "--up", args.up, "--down", args.down, "--delay", args.delay]
    link += ["--buffer", args.buffer, "--queue", args.queue, "--"]
    command = [sys.executable, __file__, "inside", args.plan, str(port), str(cgroup), str(out)]
    try:
        errors = None if args.verbose else subprocess.PIPE
        subprocess.run(link + command, check=True, timeout=end + 60, stderr=errors)
        return json.loads(out.read_text())
    finally:
        if holder:
            holder.kill()
            holder.wait()
            copying.join()
        out.unlink()
        for _ in range(50):
            with contextlib.suppress(OSError):
                cgroup.rmdir()
                break
            time.sleep(0.1)


def rate(flow, begin, end):
    """Mean rate in Mbit/s between two times of the plan."""
    first, last = (round((time - flow["begin"]) / STEP) for time in (begin, end))
    return sum(flow["series"][max(first, 0) : max(last, 0)]) * 8e-6 / (end - begin)


def time_to(flow, level, begin, window=5):
    """Seconds from a time of the plan until a flow has this rate for half a second."""
    series, offset = flow["series"], round((begin - flow["begin"]) / STEP)
    for at in range(max(offset, 0), len(series) - window):
        if sum(series[at : at + window]) * 8e-6 / (window * STEP) >= level:
            return (at - offset) * STEP
    return float("nan")


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def show(result):
    end = max(flow["end"] for flow in result["flows"])
    for second in range(int(end)):
        rates = "  ".join(
            f"{flow['who']} x{flow['count']} {rate(flow, second, second + 1):6.2f}" for flow in result["flows"]
        )
        delays = [delay * 1e3 for at, delay in result["owd"] if second <= at < second + 1]
        print(
            f"{second:3d} s  {rates} Mbit/s  one-way delay p50 {quantile(delays, 0.5):6.1f} "
            f"p95 {quantile(delays, 0.95):6.1f} ms"
        )
    print("objects:", ", ".join(f"{flow['who']} {flow['objects']}" for flow in result["flows"]))
    held = [flow for flow in result["flows"] if flow["who"] == "bg"]
    for other in (flow for flow in result["flows"] if flow["who"] != "bg" and flow["begin"] > 0):
        level = 0.9 * max(rate(flow, other["begin"] - 4, other["begin"]) for flow in held)
        print(
            f"{other['who']} has 90 % after {time_to(other, level, other['begin']):.1f} s, "
            f"bg again {time_to(held[0], level, other['end']):.1f} s after its end"
        )


def main():
    if sys.argv[1:2] == ["client"]:
        client(json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
    if sys.argv[1:2] == ["inside"]:
        plan, port, cgroup, out = sys.argv[2:]
        inside(argparse.Namespace(plan=plan, port=int(port), cgroup=cgroup, out=out))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", default="ledbat:target=25ms,gain_up=4,gain_down=10,floor=0.2")
    parser.add_argument("--plan", default="bg:0-24;cubic:8-16")
    parser.add_argument("--down", default="10mbit")
    parser.add_argument("--up", default="10mbit")
    parser.add_argument("--delay", default="25ms")
    parser.add_argument("--buffer", default="2 BDP")
    parser.add_argument("--queue", default="droptail")
    parser.add_argument("--log", help="file for the state of the budget, written four times per second")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    result = run(args)
    if args.json:
        Path(args.json).write_text(json.dumps(result))
    show(result)


main()
