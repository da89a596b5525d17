"""Runs one libtorrent client of the live swarm, inside the namespace of its home.

usage: client.py seed|leech tcp|utp ADDRESS SOURCE FOLDER

The client prints a line of JSON when it listens, one when it has the file, and one when it is
told to quit. Commands on standard input: "connect ADDRESS PORT", "quit".
"""

import json
import select
import sys
import time
from pathlib import Path

import libtorrent as lt

PIECE_BYTES = 65_536
UTP_SOCKET = 1 << 17  # From libtorrent/peer_info.hpp; Debian's bindings lack the name.
# The swarm of Cohen 2003: four unchoked peers, a choice every 10 s, an optimistic one every 30 s.
CHOKING = {"unchoke_slots_limit": 4, "unchoke_interval": 10, "optimistic_unchoke_interval": 30}
QUIET = ("enable_dht", "enable_lsd", "enable_upnp", "enable_natpmp")


def session(transport, address):
    """A client that takes both transports, and opens connections by `transport` only."""
    return lt.session(
        {
            "listen_interfaces": f"{address}:6881",
            "enable_outgoing_tcp": transport == "tcp",
            "enable_outgoing_utp": transport == "utp",
            "mixed_mode_algorithm": 0,  # TCP is not limited in favour of uTP.
            "in_enc_policy": lt.enc_policy.disabled,
            "out_enc_policy": lt.enc_policy.disabled,
            "allowed_fast_set_size": 0,
            "min_reconnect_time": 1,
            **CHOKING,
            **dict.fromkeys(QUIET, False),
        }
    )


def torrent(source):
    files = lt.file_storage()
    lt.add_files(files, source)
    made = lt.create_torrent(files, PIECE_BYTES, flags=lt.create_torrent.v1_only)
    lt.set_piece_hashes(made, str(Path(source).parent))
    return lt.torrent_info(lt.bencode(made.generate()))


def say(**fields):
    print(json.dumps(fields), flush=True)


class Account:
    """Seconds that interested peers were unchoked or choked here, and bytes by transport, for each
    peer."""

    def __init__(self):
        self.peers = {}

    def add(self, handle, seconds):
        for peer in handle.get_peer_info():
            entry = self.peers.setdefault(peer.ip[0], {"unchoked_s": 0.0, "choked_s": 0.0})
            if peer.flags & lt.peer_info.remote_interested:
                choked = bool(peer.flags & lt.peer_info.choked)
                entry["choked_s" if choked else "unchoked_s"] += seconds
            entry["utp"] = bool(peer.flags & UTP_SOCKET)
            entry["up_bytes"], entry["down_bytes"] = peer.total_upload, peer.total_download


def main():
    role, transport, address, source, folder = sys.argv[1:]
    client = session(transport, address)
    wanted = lt.add_torrent_params()
    wanted.ti, wanted.save_path = torrent(source), folder
    wanted.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    handle = client.add_torrent(wanted)
    while client.listen_port() == 0 or (role == "seed" and not handle.status().is_seeding):
        time.sleep(0.02)
    say(listens=client.listen_port(), info_hash=str(wanted.ti.info_hash()))

    account, last, complete = Account(), time.monotonic(), role == "seed"
    while True:
        now = time.monotonic()
        if now - last >= 0.5:
            account.add(handle, now - last)
            last = now
        if not complete and handle.status().is_seeding:
            complete = True
            say(done=time.time())
        if not select.select([sys.stdin], [], [], 0.05)[0]:
            continue
        words = sys.stdin.readline().split()
        if not words or words[0] == "quit":
            break
        handle.connect_peer((words[1], int(words[2])))
    status = handle.status()
    say(up_bytes=status.total_payload_upload, down_bytes=status.total_payload_download, peers=account.peers)


if __name__ == "__main__":
    main()
