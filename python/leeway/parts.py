"""Common code of the parts of a scenario: conversion to dictionaries with the names of the TOML,
and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from typing import Any, Self

from leeway.errors import ScenarioError


@dataclass(kw_only=True, repr=False)
class Part:
    """Base of the parts of a scenario."""

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, with the names of the TOML."""
        fields = {}
        for name, attribute, default in fields_of(type(self)):
            value = getattr(self, attribute)
            if value is not None and value != default:
                fields[name] = plain(value)
        return fields

    def __repr__(self) -> str:
        changed = [
            f"{attribute}={value!r}"
            for _, attribute, default in fields_of(type(self))
            if (value := getattr(self, attribute)) != default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The part with these fields.

        Raises
        ------
        ScenarioError
            If there is no such field, one is missing, or one is of another kind.
        """
        try:
            return make(cls, fields)
        except StructureError as wrong:
            raise ScenarioError(str(wrong), "field", message=str(wrong)) from None


class StructureError(Exception):
    """A dictionary that does not fit a class."""


_ABSENT = object()


@functools.cache
def fields_of(cls: type) -> list[tuple[str, str, Any]]:
    """Name in TOML, name in Python and default of each field."""
    fields = []
    for each in dataclasses.fields(cls):
        default = each.default if each.default is not dataclasses.MISSING else _ABSENT
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        fields.append((each.name.rstrip("_"), each.name, default))
    return fields


@functools.cache
def _types(cls: type) -> dict[str, tuple[str, type | None, bool]]:
    """By name in TOML: name in Python, the class of parts that it holds, and whether it holds a
    list of them."""
    found = {}
    for attribute, hint in typing.get_type_hints(cls).items():
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        part = next((option for option in options if isinstance(option, type) and issubclass(option, Part)), None)
        is_list = typing.get_origin(hint) is list
        inner = typing.get_args(hint)[0] if is_list else None
        if isinstance(inner, type) and issubclass(inner, Part):
            part = inner
        found[attribute.rstrip("_")] = (attribute, part, is_list)
    return found


def make(cls: type[Any], fields: Any) -> Any:
    if not isinstance(fields, dict):
        raise StructureError(f"found {fields!r}, expected a table with the fields of {cls.__name__}")
    known = _types(cls)
    values = {}
    for name, value in fields.items():
        if name not in known:
            raise StructureError(f"there is no field `{name}` in {cls.__name__} (the fields are: {', '.join(known)})")
        attribute, part, is_list = known[name]
        if value is None:
            continue  # left out: the default
        if part is None:
            values[attribute] = _copy(value)
        elif not is_list:
            values[attribute] = make(part, value)
        elif isinstance(value, list | tuple):
            values[attribute] = [make(part, entry) for entry in value]
        else:
            raise StructureError(f"found {value!r}, expected a list of tables for `{name}`")
    missing = [name for name, attribute, default in fields_of(cls) if default is _ABSENT and attribute not in values]
    if missing:
        raise StructureError(f"`{missing[0]}` is missing in {cls.__name__}")
    return cls(**values)


def plain(value: Any) -> Any:
    """Parts as dictionaries, wherever they are."""
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def _copy(value: Any) -> Any:
    """A copy of what is not a part: without None in tables, where it stands for what is left
    out."""
    if isinstance(value, dict):
        return {name: _copy(entry) for name, entry in value.items() if entry is not None}
    return plain(value)
