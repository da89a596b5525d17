"""A libtorrent client that speaks uTP only, told what to do on its standard input.

usage: torrent.py seed|leech ADDRESS SOURCE FOLDER

SOURCE is the file that the torrent is made of, FOLDER where the client's copy is. It prints "ready HASH PIECE PORT"
and, when it has all of the file, "done". Commands: "connect ADDRESS PORT", "report" (prints twenty times a second how
many bytes have come), "quit".
"""

import select
import sys
import time
from io import FileIO
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

    # Without a buffer, select() tells of every line.
    commands = FileIO(0)
    said, reports = role == "seed", False
    while True:
        if reports:
            print(handle.status().total_payload_download, flush=True)
        if not said and handle.status().is_seeding:
            handle.flush_cache()
            print("done", flush=True)
            said = True
        if not select.select([commands], [], [], 0.05)[0]:
            continue
        words = commands.readline().decode().split()
        if not words or words[0] == "quit":
            return
        if words[0] == "report":
            reports = True
            continue
        handle.connect_peer((words[1], int(words[2])))


if __name__ == "__main__":
    main()
