"""The exceptions of the package."""

from __future__ import annotations

from typing import Any


class ScenarioError(ValueError):
    """A scenario that cannot be run; the text is the one that the program ``leeway`` prints.

    Attributes
    ----------
    kind : str
        "unreadable", "syntax", "field", "meaning" or "change".
    file : str
        Name of the file; "scenario" for one that was written in Python.
    line, column : int
        Place of the error in the file, or in ``to_toml()``; both count from 1.
    message : str
        What is wrong, in one sentence.
    help : str or None
        What would be right.
    """

    def __init__(
        self,
        text: str,
        kind: str = "meaning",
        file: str = "scenario",
        line: int = 1,
        column: int = 1,
        message: str = "",
        help: str | None = None,  # noqa: A002
    ):
        super().__init__(text.strip("\n"))
        self.kind = kind
        self.file = file
        self.line = line
        self.column = column
        self.message = message or text
        self.help = help

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind, self.file, self.line, self.column, self.message, self.help)


class SimulationError(RuntimeError):
    """A run that failed although its scenario makes sense."""


class CancelledError(SimulationError):
    """A run that was stopped because its `Cancel` was set."""
