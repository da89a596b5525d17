"""Writes files whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def prepare(folder: Path) -> None:
    """Makes a folder that can be written to.

    Raises
    ------
    OSError
        If that is not possible; the text says what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explained(error, folder) from error


def write(path: Path, content: str | bytes) -> None:
    """Writes a file under another name, then renames it: a reader sees the old file or the new
    one.

    Raises
    ------
    OSError
        If that is not possible; the old file stays.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise _explained(error, path) from error
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _explained(error: OSError, path: Path) -> OSError:
    what = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EACCES: "there is no permission to write there",
        errno.EPERM: "there is no permission to write there",
        errno.EROFS: "the file system is read-only",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.EEXIST: "a file of this name is in the way",
    }.get(error.errno or 0, error.strerror or str(error))
    return OSError(error.errno, f"cannot write the report: {what}", str(path))
