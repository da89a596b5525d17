"""Prints the traffic-class byte of each IP packet on lo, as `PORT PORT BYTE`; `ready` first."""

import socket
import struct

sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
sniffer.bind(("lo", 3))
print("ready", flush=True)
while True:
    packet, (_, _, direction, *_) = sniffer.recvfrom(70000)
    if direction != socket.PACKET_OUTGOING:
        continue
    if packet[0] >> 4 == 4:
        tos, protocol, head = packet[1], packet[9], (packet[0] & 15) * 4
    else:
        tos, protocol, head = (packet[0] << 4 | packet[1] >> 4) & 0xFF, packet[6], 40
    if protocol in (6, 17):
        source, target = struct.unpack("!HH", packet[head : head + 4])
        print(source, target, tos, flush=True)
