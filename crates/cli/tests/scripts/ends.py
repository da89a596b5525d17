"""Both ends of TCP connections within this process, and what each says of itself, a JSON object a line.

usage: ends.py [HOST...]; an own choice of congestion control and DSCP is made on each.
"""

import json
import socket
import sys

TCP_CONGESTION = socket.TCP_CONGESTION


def law(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()


def choose(sock: socket.socket) -> None:
    """As iperf3 -C and ssh do; must succeed."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"reno")
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xB8)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 0xB8)


for host in sys.argv[1:] or ["127.0.0.1", "::1"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    mapped = "." in host and family == socket.AF_INET6
    listener = socket.create_server(("::" if mapped else host, 0), family=family, dualstack_ipv6=mapped)
    port = listener.getsockname()[1]
    before = socket.socket(family)
    choose(before)
    before.connect((host, port))
    accepted, _ = listener.accept()
    at_once = law(before), law(accepted)
    choose(before)
    choose(accepted)
    before.sendall(b"there")
    accepted.recv(5)
    accepted.sendall(b"back")
    before.recv(4)
    print(json.dumps({"host": host, "port": port, "laws": [*at_once, law(before), law(accepted)]}), flush=True)
    for sock in before, accepted, listener:
        sock.close()
