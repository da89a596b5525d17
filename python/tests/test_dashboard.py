"""packaging/grafana: a dashboard that Grafana's published types decode and encode unchanged."""

from __future__ import annotations

import copy
import enum
import json
import types
import typing
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog import plugins, variants
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models.dashboard import Dashboard

FILE = Path(__file__).parents[2] / "packaging/grafana/leeway-gateway.json"

plugins.register_default_plugins()


@pytest.fixture
def dashboard() -> dict:
    return json.loads(FILE.read_text(encoding="utf-8"))


def faults(dashboard: dict) -> list[str]:
    """What Grafana's types do not know or would not take; fields that they add have defaults."""
    decoded = Dashboard.from_json(dashboard)
    return lost(dashboard, json.loads(JSONEncoder().encode(decoded))) + mistyped(decoded, Dashboard)


def lost(given, back, place: str = "dashboard") -> list[str]:
    """The places of `given` that are absent or different in `back`."""
    if isinstance(given, dict) and isinstance(back, dict):
        unknown = [f"{place}.{key}: no field of Grafana's" for key in given if key not in back]
        known = [lost(given[key], back[key], f"{place}.{key}") for key in given if key in back]
        return unknown + [fault for faults in known for fault in faults]
    if isinstance(given, list) and isinstance(back, list) and len(given) == len(back):
        items = enumerate(zip(given, back, strict=True))
        return [fault for n, (one, other) in items for fault in lost(one, other, f"{place}[{n}]")]
    return [] if given == back else [f"{place}: {given!r} becomes {back!r}"]


def mistyped(value, wanted, place: str = "dashboard") -> list[str]:
    """The places of `value` that are not of the type `wanted`: decoding alone looks at no value."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        tries = [mistyped(value, one, place) for one in arguments]
        return min(tries, key=len) if value is not None or types.NoneType not in arguments else []
    if origin is list and isinstance(value, list):
        items = ((f"[{n}]", item, arguments[0]) for n, item in enumerate(value))
    elif origin is dict and isinstance(value, dict):
        items = ((f".{key}", item, arguments[1]) for key, item in value.items())
    elif isinstance(value, UnknownDataquery):
        return [f"{place}: a query for no data source that Grafana knows"]
    elif hasattr(value, "to_json") and (wanted in (object, variants.Dataquery) or type(value) is wanted):
        hints = typing.get_type_hints(type(value))
        items = ((f".{name}", getattr(value, name), hint) for name, hint in hints.items())
    else:
        return [] if fits(value, wanted, origin, arguments) else [f"{place}: {value!r} is no {wanted}"]
    return [fault for step, item, hint in items for fault in mistyped(item, hint, place + step)]


def fits(value, wanted, origin, arguments) -> bool:
    if origin is typing.Literal:
        return value in arguments
    if wanted is object or wanted is typing.Any:
        return isinstance(value, (str, int, float, bool, list, type(None)))
    if not isinstance(wanted, type):
        return False
    if issubclass(wanted, enum.Enum):
        return value in [member.value for member in wanted]
    if wanted in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if wanted is float else wanted)


def test_grafanas_types_know_every_field_and_value(dashboard):
    assert faults(dashboard) == []


def test_a_panel_with_a_legend_shows_it(dashboard):
    """Grafana's schema has no default for `showLegend` and `calcs`."""
    legends = [panel["options"]["legend"] for panel in dashboard["panels"] if "legend" in panel["options"]]
    assert legends and all(legend["showLegend"] is True and legend["calcs"] == [] for legend in legends)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("refersh", "30s", "dashboard.refersh: no field"),
        ("tags", "leeway", "dashboard.tags: 'leeway' is no "),
        ("time/form", "now-6h", "dashboard.time.form: no field"),
        ("templating/list/1/definition", "up", "dashboard.templating.list[1].definition: no field"),
        ("templating/list/1/type", "quarry", "dashboard.templating.list_val[1].type_val: 'quarry' is no "),
        ("panels/0/titel", "x", "dashboard.panels[0].titel: no field"),
        ("panels/0/type", "stats", "dashboard.panels[0].options: {"),
        ("panels/0/gridPos/w", "4", "dashboard.panels[0].grid_pos.w: '4' is no "),
        ("panels/0/options/colourMode", "value", "dashboard.panels[0].options.colourMode: no field"),
        ("panels/0/options/colorMode", "colour", "dashboard.panels[0].options.color_mode: 'colour' is no "),
        ("panels/0/fieldConfig/defaults/units", "s", "dashboard.panels[0].fieldConfig.defaults.units: no field"),
        ("panels/0/targets/0/expression", "up", "dashboard.panels[0].targets[0].expression: no field"),
        ("panels/0/targets/0/expr", 1, "dashboard.panels[0].targets[0].expr: 1 is no "),
        ("panels/0/datasource/type", "prometeus", "dashboard.panels[0].targets[0]: a query for no data source"),
    ],
)
def test_what_grafana_does_not_know_is_found(dashboard, path, value, complaint):
    wrong = copy.deepcopy(dashboard)
    *way, last = path.split("/")
    place = wrong
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    place[last] = value
    assert any(fault.startswith(complaint) for fault in faults(wrong)), faults(wrong)
