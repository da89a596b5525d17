"""A listener and a connection of this process; each line of input lists their laws and those of a new connection."""

import json
import socket
import sys

FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


def law(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def pair(listener: socket.socket) -> list[socket.socket]:
    sender = socket.socket(listener.family)
    sender.connect(listener.getsockname())
    return [sender, listener.accept()[0]]


listeners = [socket.create_server((host, 0), family=family) for host, family in FAMILIES.items()]
running = [sock for listener in listeners for sock in pair(listener)]
print("ready", flush=True)
for _ in sys.stdin:
    new = [sock for listener in listeners for sock in pair(listener)]
    for sock in running:
        sock.sendall(b"more")
    laws = {"running": running, "listening": listeners, "new": new}
    print(json.dumps({kind: [law(sock) for sock in socks] for kind, socks in laws.items()}), flush=True)
