"""How summaries show themselves: every field that has a value, with its unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from leeway import units


class Shown:
    """Base of the summaries: shows itself as a line in a shell and as a table in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        name = getattr(self, "name", "")
        parts = [f"{field} {text}" for field, text in self._shown()]
        return f"<{type(self).__name__} {name}{': ' if name else ''}{', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from leeway._html import summary

        return summary(getattr(self, "name", ""), self._shown())

    def _shown(self) -> Iterator[tuple[str, str]]:
        """The fields that have a value: their names, without unit, and the value with its unit."""
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.name != "name" and value is not None:
                yield units.bare(each.name), self._text(each.name, value)

    def _text(self, field: str, value: Any) -> str:
        if isinstance(value, list):
            names = [entry.name for entry in value if hasattr(entry, "name")]
            return f"[{', '.join(names)}]" if names else units.text(field, len(value))
        if isinstance(value, Shown):
            return f"({', '.join(f'{name} {text}' for name, text in value._shown())})"
        return value if isinstance(value, str) else units.text(self._unit_name(field), value)

    def _unit_name(self, field: str) -> str:
        """The field's name where others look up its unit."""
        return field
