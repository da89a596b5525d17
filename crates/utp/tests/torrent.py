"""A libtorrent client that speaks uTP only, told what to do on its standard input.

usage: torrent.py seed|leech ADDRESS SOURCE FOLDER

SOURCE is the file that the torrent is made of, FOLDER where the client's copy is. It prints "ready HASH PIECE PORT"
and, when it has all of the file, "done". Commands: "connect ADDRESS PORT", "quit".
"""

import select
import sys
import time
from pathlib import Path

import libtorrent as lt


def main():
    role, address, source, folder = sys.argv[1:]
    files = lt.file_storage()
    lt.add_files(files, source)
    torrent = lt.create_torrent(files, 65536, flags=lt.create_torrent.v1_only)
    lt.set_piece_hashes(torrent, str(Path(source).parent))
    info = lt.torrent_info(lt.bencode(torrent.generate()))

    host = f"[{address}]" if ":" in address else address
    session = lt.session(
        {
            "listen_interfaces": f"{host}:0",
            "enable_incoming_tcp": False,
            "enable_outgoing_tcp": False,
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            "in_enc_policy": lt.enc_policy.disabled,
            "out_enc_policy": lt.enc_policy.disabled,
            "allow_multiple_connections_per_ip": True,
            "min_reconnect_time": 1,
            "allowed_fast_set_size": 0,
        }
    )
    wanted = lt.add_torrent_params()
    wanted.ti = info
    wanted.save_path = folder
    wanted.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    handle = session.add_torrent(wanted)
    if role == "seed":
        while not handle.status().is_seeding:
            time.sleep(0.02)
    while session.listen_port() == 0:
        time.sleep(0.02)
    print("ready", info.info_hash(), info.piece_length(), session.listen_port(), flush=True)

    said = role == "seed"
    while True:
        if not said and handle.status().is_seeding:
            handle.flush_cache()
            print("done", flush=True)
            said = True
        if not select.select([sys.stdin], [], [], 0.05)[0]:
            continue
        words = sys.stdin.readline().split()
        if not words or words[0] == "quit":
            return
        handle.connect_peer((words[1], int(words[2])))


if __name__ == "__main__":
    main()
