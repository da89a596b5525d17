"""Sends three datagrams a case to receivers of this process, and prints `CASE PORT`."""

import socket
import struct


def send(
    name: str,
    family: int,
    host: str,
    connected: bool,
    *options: tuple[int, int, int],
    bound: bool = False,
    each: list[tuple[int, int, bytes]] | None = None,
) -> None:
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind((host, 0))
    port = receiver.getsockname()[1]
    sender = socket.socket(family, socket.SOCK_DGRAM)
    for option in options:
        sender.setsockopt(*option)
    if bound:
        sender.bind((host, 0))
    if connected:
        sender.connect((host, port))
    for _ in range(3):
        if connected:
            sender.send(b"x")
        else:
            sender.sendmsg([b"x"], each or [], 0, (host, port))
        receiver.recv(1)
    print(name, port, flush=True)


V4, V6 = socket.AF_INET, socket.AF_INET6
TOS = socket.IPPROTO_IP, socket.IP_TOS
TCLASS = socket.IPPROTO_IPV6, socket.IPV6_TCLASS
send("v4 connected", V4, "127.0.0.1", True)
send("v6 connected", V6, "::1", True)
send("v4 unconnected", V4, "127.0.0.1", False)
send("v6 unconnected", V6, "::1", False)
send("v4 bound", V4, "127.0.0.1", False, bound=True)
send("v6 bound", V6, "::1", False, bound=True)
send("v4 own ECN", V4, "127.0.0.1", False, (*TOS, 0xBA))
send("v6 own ECN", V6, "::1", False, (*TCLASS, 0xBA))
send("v6 default", V6, "::1", False, (*TCLASS, -1))
send("mapped connected", V6, "::ffff:127.0.0.1", True)
# As QUIC libraries choose the bits of ECN.
send("v4 with each its own ECN", V4, "127.0.0.1", False, each=[(*TOS, struct.pack("i", 0xBA))])
send("v6 with each its own ECN", V6, "::1", False, each=[(*TCLASS, struct.pack("i", 0xBA))])
