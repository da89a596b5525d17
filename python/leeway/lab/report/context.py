"""Place, time and versions of a report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = ("numpy", "scipy", "pyarrow", "matplotlib", "dask")


@dataclass(frozen=True, slots=True)
class Context:
    """Facts that a reader needs to judge and to repeat a report.

    Attributes
    ----------
    title
        Title of the page.
    date
        Date of the report: ``2014-06-30 12:00 UTC``.
    engine
        Version of the engine: ``leeway.ENGINE``.
    packages
        Versions of the packages used, by name.
    python
        Version of Python.
    machine
        Processor, cores, memory.
    system
        Operating system.
    command
        The command that makes this report.
    wall_s
        Time from beginning to end, in seconds.
    """

    title: str = "Experiments of the literature, repeated"
    date: str = ""
    engine: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    machine: str = ""
    system: str = ""
    command: str = ""
    wall_s: float = 0.0

    @staticmethod
    def here(command: str, wall_s: float, title: str = "Experiments of the literature, repeated") -> Context:
        """This machine, now, with the installed packages."""
        from leeway import ENGINE

        return Context(
            title=title,
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            engine=ENGINE,
            packages={name: version for name in PACKAGES if (version := _version(name))},
            python=platform.python_version(),
            machine=_machine(),
            system=_system(),
            command=command,
            wall_s=wall_s,
        )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _machine() -> str:
    model = _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [model, "1 core" if cores == 1 else f"{cores} cores"]
    if memory := _field("/proc/meminfo", "MemTotal"):
        parts.append(f"{int(memory.split()[0]) / 2**20:.1f} GiB of memory")
    return ", ".join(parts)


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"
    return f"{name}, {platform.system()} {platform.release()}"


def _field(file: str, name: str) -> str:
    """The value of ``name : value`` in a file of such lines; empty without the file or the
    line."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
