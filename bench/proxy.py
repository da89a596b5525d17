#!/usr/bin/env python3
"""Compares the proxy of `leeway gateway` with squid, and measures the memory of idle clients.

The gateway runs without a law, squid without a cache.

`rate`: objects of 12.5 kB over the loopback address, over kept connections and over new ones. The
proxies take turns, so that other load of the machine affects both. Prints the medians of requests
per second and of the proxy's own processor time for 1000 requests, and of the ratios within a run.
Squid has one process, so compare processor times.

`idle`: resident memory of the gateway with 10,000 silent connections of 20 users, and again after
one request on each.

Needs squid, nginx and wrk (Debian: squid, nginx-light, wrk) for `rate`; no root.

usage: bench/proxy.py PATH/TO/leeway [rate|idle] [--runs 5] [--seconds 5] [--connections 64]
"""

import argparse
import contextlib
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

OBJECT_BYTES = 12_500
IDLE = 10_000
USERS = 20
SERVER = "127.0.0.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leeway", type=pathlib.Path)
    parser.add_argument("what", nargs="?", choices=["rate", "idle"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), most))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # nginx and squid give up root, and then need to read these files.
        folder.chmod(0o755)
        with web(folder) as port:
            if options.what != "idle":
                rate(options, folder, port)
            if options.what != "rate":
                idle(options, folder, port)


def rate(options: argparse.Namespace, folder: pathlib.Path, port: int) -> None:
    proxies = {"leeway": lambda: gateway(options.leeway, folder, port), "squid": lambda: squid(folder)}
    for kind, header in {"kept": "", "new": "Connection: close\\r\\n"}.items():
        script = folder / "request.lua"
        request = f"GET http://{SERVER}:{port}/object HTTP/1.1\\r\\nHost: {SERVER}:{port}\\r\\n{header}\\r\\n"
        script.write_text(f'request = function() return "{request}" end\n')
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in proxies}
        for run in range(options.runs):
            for name, start in proxies.items():
                with start() as (process, address):
                    load(address, script, options.connections, 1)
                    before = processor_time(process.pid)
                    requests, seconds = load(address, script, options.connections, options.seconds)
                    cost = (processor_time(process.pid) - before) / (requests / 1000)
                runs[name].append((requests / seconds, cost))
                print(f"{kind} {run + 1}: {name:<7} {requests / seconds:7.0f}/s {cost:.3f} s", file=sys.stderr)
        for name, values in runs.items():
            rates, costs = zip(*values, strict=True)
            print(
                f"{kind:<5} {name:<6} {statistics.median(rates):.0f} requests/s ({min(rates):.0f} to {max(rates):.0f}),"
                f" {statistics.median(costs):.3f} s of processor for 1000 ({min(costs):.3f} to {max(costs):.3f})"
            )
        pairs = list(zip(runs["leeway"], runs["squid"], strict=True))
        ratios = [statistics.median(ours[at] / theirs[at] for ours, theirs in pairs) for at in (0, 1)]
        print(f"{kind:<5} leeway / squid: {ratios[0]:.2f} of the requests/s, {ratios[1]:.2f} of the processor time")


def idle(options: argparse.Namespace, folder: pathlib.Path, port: int) -> None:
    with gateway(options.leeway, folder, port) as (process, address):
        alone = resident_mb(process.pid)
        clients = []
        for n in range(IDLE):
            client = socket.socket()
            client.bind((f"127.1.0.{1 + n % USERS}", 0))
            client.connect(address)
            clients.append(client)
        time.sleep(2)
        silent = resident_mb(process.pid)
        request = f"GET http://{SERVER}:{port}/object HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        for client in clients:
            client.sendall(request)
            left = None
            answer = b""
            while left is None or len(answer) < left:
                answer += client.recv(65_536)
                if left is None and b"\r\n\r\n" in answer:
                    left = answer.index(b"\r\n\r\n") + 4 + OBJECT_BYTES
        time.sleep(2)
        kept = resident_mb(process.pid)
        print(
            f"idle  {alone:.0f} MB without clients, {silent:.0f} MB with {IDLE} that have sent nothing,"
            f" {kept:.0f} MB after a request on each"
        )


@contextlib.contextmanager
def web(folder: pathlib.Path):
    """Starts a web server with one object. Returns its port."""
    port = free_port(SERVER)
    (folder / "object").write_bytes(b"x" * OBJECT_BYTES)
    configuration = f"""
        daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
        worker_processes 1; worker_rlimit_nofile 65536;
        events {{ worker_connections 20000; }}
        http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 600s; sendfile on; tcp_nodelay on;
            client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            server {{ listen {SERVER}:{port} backlog=4096; root {folder}; }} }}
    """
    (folder / "nginx.conf").write_text(configuration)
    with running([program("nginx"), "-c", f"{folder}/nginx.conf"], (SERVER, port)):
        yield port


@contextlib.contextmanager
def gateway(leeway: pathlib.Path, folder: pathlib.Path, port: int):
    address = ("127.0.0.1", free_port("127.0.0.1"))
    configuration = f"""
        listen = ["{address[0]}:{address[1]}"]
        clients = ["127.0.0.1/32", "127.1.0.0/16"]
        allow = ["{SERVER}/32"]
        ports = [{port}]
        law = "none"
        upload = []
        dns = ["{SERVER}"]
        limits = {{ head_s = 600, idle_s = 600 }}
    """
    (folder / "gateway.toml").write_text(configuration)
    command = [str(leeway.resolve()), "gateway", "--config", f"{folder}/gateway.toml"]
    with running(command, address) as process:
        yield process, address


@contextlib.contextmanager
def squid(folder: pathlib.Path):
    address = ("127.0.0.1", free_port("127.0.0.1"))
    configuration = f"""
        http_port {address[0]}:{address[1]}
        http_access allow all
        cache deny all
        access_log none
        cache_log {folder}/squid.log
        pid_filename none
        pinger_enable off
        shutdown_lifetime 0 seconds
        max_filedescriptors 65536
    """
    (folder / "squid.conf").write_text("\n".join(line.strip() for line in configuration.splitlines()))
    (folder / "squid.log").touch()
    (folder / "squid.log").chmod(0o666)
    with running([program("squid"), "-N", "-f", f"{folder}/squid.conf"], address) as process:
        yield process, address


@contextlib.contextmanager
def running(command: list[str], address: tuple[str, int]):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(address, 1):
                break
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} has ended with {process.returncode}")
            time.sleep(0.05)
        else:
            raise SystemExit(f"{command[0]} does not listen")
        yield process
    finally:
        process.terminate()
        process.wait()


def load(address: tuple[str, int], script: pathlib.Path, connections: int, seconds: int) -> tuple[int, float]:
    """Number of answered requests, and the time in seconds."""
    command = [program("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script)]
    command.append(f"http://{address[0]}:{address[1]}/")
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"(\d+) requests in ([\d.]+)s", said)
    if not found or "Non-2xx" in said or re.search(r"(read|write|timeout) [1-9]", said):
        raise SystemExit(f"wrk has not got what it asked for:\n{said}")
    return int(found[1]), float(found[2])


def program(name: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise SystemExit(f"{name} is needed")
    return path


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as listener:
        return listener.getsockname()[1]


def processor_time(pid: int) -> float:
    """Processor time of a process and its threads, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
