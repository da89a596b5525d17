"""Runs as bytes: the summary and two tables, compressed, with a checksum over all of them."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

VERSION = 1
"""Version of the format; bytes of another version are refused."""

_NAME = b"lwr\0"
_HEAD = struct.Struct("<4sBI3Q")
"""Name, version, checksum of what follows, and the sizes of the three parts."""
_CHECKED = struct.calcsize("<4sBI")


def pack(summary: bytes, flows: pa.Table, links: pa.Table) -> bytes:
    """The bytes of a run; tables without rows need no bytes."""
    parts = zlib.compress(summary, 6), _write(flows), _write(links)
    unchecked = _HEAD.pack(_NAME, VERSION, 0, *map(len, parts)) + b"".join(parts)
    checksum = zlib.crc32(memoryview(unchecked)[_CHECKED:])
    return struct.pack("<4sBI", _NAME, VERSION, checksum) + unchecked[_CHECKED:]


def unpack(data: bytes) -> tuple[bytes, pa.Table | None, pa.Table | None]:
    """The summary and the tables, None for those without rows.

    Raises
    ------
    ValueError
        If these are not the bytes of a run, are incomplete, or are of another version of the
        format.
    """
    if data[:4] != _NAME:
        raise ValueError("these bytes are not an encoded run")
    if data[4:5] != bytes([VERSION]):
        raise ValueError("the run was encoded by another version of the format")
    view = memoryview(data)
    checksum = int.from_bytes(view[5:_CHECKED], "little")
    if len(data) < _HEAD.size or zlib.crc32(view[_CHECKED:]) != checksum:
        raise ValueError("the encoded run is damaged")
    sizes = _HEAD.unpack_from(view)[3:]
    summary, flows, links = (view[_HEAD.size + sum(sizes[:i]) :][:size] for i, size in enumerate(sizes))
    return zlib.decompress(summary), _read(flows), _read(links)


def _write(table: pa.Table) -> bytes:
    if len(table) == 0:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(data: memoryview) -> pa.Table | None:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all() if len(data) else None
