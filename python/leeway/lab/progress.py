"""Progress of a batch of runs."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


class Progress:
    """Receives the progress of a batch of runs; this class shows nothing."""

    def begin(self, title: str, runs: int, packets: float) -> None:
        """A batch begins: its number of runs, and an estimate of the packets to simulate."""

    def advance(self, packets: float) -> None:
        """A run is done, whose estimate was this number of packets."""

    def end(self) -> None:
        """The batch is done, or was stopped."""


class Bar(Progress):
    """A bar on standard error if that is a terminal: runs done, runs per second, time left.

    The bar counts packets, not runs, so that the time left is right although long runs come first.
    """

    def __init__(self) -> None:
        self._bar: _RunBar | None = None

    def begin(self, title: str, runs: int, packets: float) -> None:
        self._bar = _RunBar(runs, desc=title, total=packets)

    def advance(self, packets: float) -> None:
        if self._bar is not None:
            self._bar.done += 1
            self._bar.update(packets)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _RunBar(tqdm):
    def __init__(self, runs: int, desc: str, total: float):
        self.runs, self.done = runs, 0
        form = "{desc}  {percentage:3.0f}% {bar} {runs} runs, {speed} runs/s, {elapsed} so far, {remaining} left"
        super().__init__(
            desc=desc, total=total, bar_format=form, file=sys.stderr, disable=None, leave=False, dynamic_ncols=True
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        values = super().format_dict
        elapsed = values["elapsed"]
        values["runs"] = f"{self.done:,}/{self.runs:,}"
        values["speed"] = f"{self.done / elapsed:.1f}" if elapsed else "?"
        return values
