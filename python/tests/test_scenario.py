"""Scenarios: round trips, bad input, the same words as the program's."""

import dataclasses
import json
import math
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leeway
from leeway import Channel, Dumbbell, Event, Flow, Gateway, Link, Scenario, ScenarioError, Series, Window, _core
from leeway.parts import Part

ROOT = Path(__file__).parents[2]

millis = st.integers(1, 300).map("{} ms".format)
rates = st.integers(100, 100_000).map("{} kbit/s".format)
drawn = millis | st.tuples(millis, millis).map(
    lambda pair: {"uniform": sorted(pair, key=lambda text: int(text.split()[0]))}
)
names = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
buffers = st.integers(1, 500).map("{} pkt".format) | st.floats(0.1, 4).map("{:.2f} BDP".format) | st.just("unlimited")
channels = st.builds(
    Channel,
    rate=rates,
    delay=millis,
    buffer=buffers,
    queue=st.sampled_from(["droptail", "red", "codel:target=10ms", "pie", "sfq", "fq_codel"]),
    loss=st.none() | st.just("random:p=1%"),
    jitter=st.none() | st.just("uniform:range=5ms"),
)
apps = st.sampled_from(
    [
        {"kind": "bulk"},
        {"kind": "transfer", "size": "10 kB", "count": 3, "gap": "10 ms"},
        {"kind": "on_off", "on": "100 ms", "off": {"exponential": "200 ms"}},
        {"kind": "poisson", "arrivals_per_s": 2.0, "size": {"pareto": {"mean": "20 kB", "shape": 1.2}}},
        {"kind": "request", "size": "5 kB", "think": "10 ms"},
        {"kind": "voice", "codec": "g729"},
    ]
)
tcps = st.fixed_dictionaries({}, optional={"sack": st.booleans(), "initial_window": st.integers(1, 20)})
flows = st.builds(
    Flow,
    name=names,
    count=st.integers(1, 3),
    role=st.sampled_from(["primary", "background"]),
    law=st.sampled_from(["newreno", "cubic", "ledbat:target=25ms", "flower:and=product", "lp", "nice", "vegas"]),
    start=drawn,
    stagger=millis,
    app=apps,
    tcp=tcps,
    access_delay=st.none() | drawn,
    class_=st.integers(0, 3),
)
scenarios = st.builds(
    Scenario,
    title=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20),
    duration=st.integers(1, 3).map("{} s".format),
    seed=st.integers(0, 2**63 - 1),
    profile=st.sampled_from(["ns2", "linux"]),
    dumbbell=st.builds(Dumbbell, bottleneck=channels, reverse=st.none() | channels),
    flow=st.lists(flows, min_size=1, max_size=3, unique_by=lambda flow: flow.name),
    window=st.just([]) | st.just([Window(name="late", from_="500 ms", to="1 s"), Window(name="all", to="1 s")]),
    series=st.none() | st.just(Series(every="100 ms")),
    event=st.just([]) | st.just([Event(at="200 ms", delay="20 ms")]),
    sweep=st.just({}) | st.just({"dumbbell.bottleneck.buffer": ["10 pkt", "40 pkt"]}),
)


def primaries_have_company(scenario: Scenario) -> Scenario:
    """A baseline needs both kinds of flows."""
    scenario.baseline = {"primary", "background"} == {flow.role for flow in scenario.flow}
    return scenario


scenarios = scenarios.map(primaries_have_company)


@given(scenarios)
def test_every_scenario_comes_back_as_it_was(scenario: Scenario):
    scenario.check()
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert Scenario.from_dict(scenario.to_dict()) == scenario
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario
    assert eval(repr(scenario), vars(leeway)) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
field_names = st.sampled_from([name.name.rstrip("_") for name in dataclasses.fields(Scenario)])


@given(st.dictionaries(field_names | st.text(max_size=8), json_values, max_size=6))
def test_nonsense_is_a_scenario_error(fields: dict):
    try:
        scenario = Scenario.from_dict(fields)
        scenario.check()
    except (ScenarioError, TypeError):
        return
    leeway.run(scenario)


@given(scenarios, st.sampled_from(["rate", "delay", "buffer", "queue", "loss", "trace", "arq"]), json_values)
def test_a_nonsensical_channel_is_a_scenario_error(scenario: Scenario, field: str, value):
    setattr(scenario.dumbbell.bottleneck, field, value)
    try:
        scenario.check()
    except (ScenarioError, TypeError):
        return


@given(st.text(max_size=200))
def test_any_text_is_a_scenario_or_an_error(text: str):
    with pytest.raises(ScenarioError):
        Scenario.from_toml(text)


def test_examples_load_and_come_back(tmp_path: Path):
    others = {"testnets/home.toml"}  # for real programs
    examples = ROOT / "examples"
    paths = [path for path in examples.rglob("*.toml") if str(path.relative_to(examples)) not in others]
    assert len(paths) > 10
    for path in paths:
        scenario = Scenario.load(path)
        copy = tmp_path / "copy.toml"
        copy.write_text(scenario.to_toml())
        assert Scenario.load(copy) == scenario, path


CLASSES = {
    "FlowGroup": Flow,
    "Channel": Channel,
    "Dumbbell": Dumbbell,
    "Gateway": Gateway,
    "Link": Link,
    "Event": Event,
    "Window": Window,
    "Series": Series,
}


@pytest.mark.parametrize(("name", "part"), [("", Scenario), *CLASSES.items()])
def test_the_classes_have_the_fields_of_the_schema(name: str, part: type[Part]):
    schema = json.loads(_core.schema())
    schema = schema["$defs"][name] if name else schema
    fields = {field.name.rstrip("_"): field for field in dataclasses.fields(part)}
    assert set(fields) == set(schema["properties"])
    required = [name for name, field in fields.items() if no_default(field)]
    assert sorted(required) == sorted(schema.get("required", []))
    for name, field in fields.items():
        if "default" in schema["properties"][name]:
            default = field.default_factory() if field.default is dataclasses.MISSING else field.default
            written = schema["properties"][name]["default"]
            assert default == written or (default, written) == ("1500 B", "1.5 kB"), name


def no_default(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def test_every_field_is_documented():
    for part in (Scenario, *CLASSES.values()):
        for field in dataclasses.fields(part):
            assert f"{field.name}\n" in part.__doc__ or f"{field.name}," in part.__doc__, (part, field.name)


def test_defaults_are_those_of_the_simulator(small: Scenario):
    """What is left out means the same as what the class has as its default."""
    written = small.to_dict()
    for flow in written["flow"]:
        for field in dataclasses.fields(Flow):
            if not no_default(field):
                default = field.default_factory() if field.default is dataclasses.MISSING else field.default
                if default is not None:
                    flow.setdefault(field.name.rstrip("_"), default)
    bottleneck = written["dumbbell"]["bottleneck"]
    bottleneck |= {"queue": Channel().queue, "rates": []}
    assert _core.canonical(written) == _core.canonical(small.to_dict())


def test_an_error_says_what_the_program_says(small: Scenario):
    small.flow[1].law = "ledbatt"
    with pytest.raises(ScenarioError) as caught:
        small.check()
    error = caught.value
    assert 'there is no law "ledbatt"' in str(error)
    assert "did you mean `ledbat`?" in error.help
    assert (error.kind, error.file) == ("field", "scenario")
    assert "ledbatt" in small.to_toml().splitlines()[error.line - 1]
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize(
    "text",
    [
        "duration = ",
        "duration = '1 s'\nflow = [{ name = 'a', lw = 'cubic' }]",
        "duration = 10",
        "duration = '1 s'\nseed = -1",
        "duration = '1 s'\n[dumbbell]\nbottleneck = { rate = '1 Mbit/s', trace = 'nothing' }\n[[flow]]\nname = 'a'",
    ],
)
def test_an_error_in_a_file_is_word_for_word_the_programs(text: str, tmp_path: Path, program: Path):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    said = subprocess.run([program, "sim", file], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.strip()) == (2, str(caught.value).strip())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"duratoin": "1 s"}, "there is no field `duratoin` here"),
        ({}, "`duration` is missing"),
        ({"duration": "1 s", "flow": "tcp"}, "expected"),
        ({"duration": "1 s", "dumbbell": []}, "expected"),
        ({"duration": 10}, "the number 10 has no unit"),
        ({"duration": "1 s", "seed": 2**64}, "floating point"),
        ({"duration": "1 s", "seed": math.inf}, "found"),
        ({"duration": "1 s"}, "there is no link"),
    ],
)
def test_bad_fields_are_explained(fields: dict, words: str):
    with pytest.raises(ScenarioError, match=words):
        Scenario.from_dict(fields).check()


def test_what_no_file_can_hold_is_a_type_error(small: Scenario):
    small.title = object()
    with pytest.raises(TypeError, match="cannot hold"):
        small.check()
    with pytest.raises(TypeError, match="names of fields are text"):
        Scenario.from_dict({"duration": "1 s", "flow": [{"name": "a", "tcp": {1: 2}}]}).check()
    endless: dict = {}
    endless["kind"] = endless
    small.title, small.flow[0].app = "", endless
    with pytest.raises((ValueError, RecursionError)):
        small.check()


def test_numbers_of_numpy_and_paths_are_welcome(small: Scenario, tmp_path: Path):
    trace = tmp_path / "steady"
    trace.write_text("1\n2\n3\n")
    small.flow[0].count = np.int64(2)
    small.flow[0].tcp = {"initial_window": np.uint8(3)}
    small.dumbbell.bottleneck.rate = None
    small.dumbbell.bottleneck.trace = trace
    small.check()
    assert "initial_window = 3" in small.to_toml()


def test_set_changes_a_copy(small: Scenario):
    changed = small.set("flow.backup.law", "flower").set("dumbbell.bottleneck.rate", "5 Mbit/s").set("flow[0].count", 4)
    assert (small.flow[1].law, small.flow[0].count) == ("ledbat", 1)
    assert (changed.flow[1].law, changed.flow[0].count) == ("flower", 4)
    assert changed.dumbbell.bottleneck.rate == "5 Mbit/s"
    assert small.set("flow.download.tcp.sack", False).flow[0].tcp == {"sack": False}
    assert small.set("flow.download.start", {"exponential": "1 s"}).flow[0].start == {"exponential": "1 s"}
    with pytest.raises(ScenarioError, match="there is no `bakup` in `flow`"):
        small.set("flow.bakup.law", "flower")
    with pytest.raises(ScenarioError, match="there is no field `lw` here"):
        small.set("flow.backup.lw", "flower")
    with pytest.raises(ScenarioError, match="is not the path of a field"):
        small.set("flow..law", "flower")


@pytest.mark.parametrize(
    ("path", "value", "kind", "words"),
    [
        ("flow.backup.law", "ledbatt", "field", 'there is no law "ledbatt".*did you mean `ledbat`'),
        ("flow.backup.law", "ledbat:target=5", "field", "target"),
        ("flow.backup.lw", "flower", "field", "there is no field `lw`.*did you mean `law`"),
        ("flow.backup.count", -1, "field", "expected a whole number"),
        ("flow.backup.tcp.sak", True, "field", "did you mean `sack`"),
        ("dumbbell.bottleneck.rate", "10", "field", "is not a rate such as"),
        ("dumbbell.bottleneck.rate", None, "meaning", "nothing limits the rate.*give a channel"),
        ("dumbbell.bottleneck.rates", [{"at": "0 s", "rate": "1 Mbit/s"}], "meaning", "both `rate` and `rates`"),
        ("duration", None, "field", "`duration` is missing"),
        ("window", [Window(name="late", to="10 s")], "meaning", "after the end of the run"),
    ],
)
def test_set_refuses_at_once_what_cannot_be_run(small: Scenario, path: str, value, kind: str, words: str):
    before = small.to_dict()
    with pytest.raises(ScenarioError, match=f"(?s){words}") as caught:
        small.set(path, value)
    assert caught.value.kind == kind
    assert small.to_dict() == before
    hints = getattr(caught.value, "__notes__", [])
    assert bool(hints) == (kind == "meaning")  # what one field cannot mend, several may


def test_fields_that_only_make_sense_together_are_set_together(small: Scenario):
    changes = {"dumbbell.bottleneck.rate": None, "dumbbell.bottleneck.rates": [{"at": "0 s", "rate": "1 Mbit/s"}]}
    changed = small.set(changes)
    assert (changed.dumbbell.bottleneck.rate, changed.dumbbell.bottleneck.rates[0]["rate"]) == (None, "1 Mbit/s")
    with pytest.raises(ScenarioError, match="both `rate` and `rates`"):
        small.set(changes | {"dumbbell.bottleneck.rate": "1 Mbit/s"})
    with pytest.raises(TypeError, match="a path and a value"):
        small.set("duration")
    with pytest.raises(TypeError, match="a path and a value"):
        small.set({"duration": "1 s"}, "2 s")


def test_a_scenario_is_built_step_by_step(small: Scenario):
    """Before there is a link and a flow nothing can be run: steps on the way there are accepted, nonsense is not."""
    begun = Scenario(duration="2 s")
    with pytest.raises(ScenarioError, match="there is no law"):
        begun.set("flow", [Flow(name="download", law="renno")])
    with_flows = begun.set("flow", small.flow)
    with pytest.raises(ScenarioError, match="is not a rate"):
        with_flows.set("dumbbell.bottleneck", {"rate": "2 pkt"})
    assert with_flows.set("dumbbell", small.dumbbell) == small
    small.window = [Window(name="late", from_="1 s", to="9 s")]
    assert small.set("title", "half done").set("duration", "9 s").window[0].to == "9 s"


def test_none_is_the_default(small: Scenario):
    changed = small.set({"flow.backup.law": "flower", "flow.backup.tcp.sack": False})
    back = changed.set({"flow.backup.law": None, "flow.backup.tcp.sack": None, "flow.backup.start": None})
    assert back.flow[1] == Flow(name="backup", role="background")
    assert small.set("dumbbell.bottleneck.buffer", None).dumbbell.bottleneck.buffer == "1 BDP"
    with pytest.raises(ScenarioError, match="there is no field `lw`"):
        small.set("flow.backup.lw", None)


def test_the_key_is_of_what_is_simulated(small: Scenario):
    key = small.key()
    assert len(key) == 64
    for path, same in [
        ("title", "t"),
        ("seed", 7),
        ("repetitions", 3),
        ("duration", "2000 ms"),
        ("flow.backup.law", "ledbat:target=100ms"),
        ("flow.download.count", 1),
    ]:
        assert small.set(path, same).key() == key, path
    for path, other in [("duration", "3 s"), ("profile", "ns2"), ("flow.backup.law", "ledbat:target=5ms")]:
        assert small.set(path, other).key() != key, path


def test_traces_count_by_what_they_hold(small: Scenario, tmp_path: Path):
    small.dumbbell.bottleneck.rate = None
    small.dumbbell.bottleneck.trace = "steady"
    (tmp_path / "one.toml").write_text(small.to_toml())
    (tmp_path / "steady").write_text("1\n2\n3\n")
    first = Scenario.load(tmp_path / "one.toml")
    assert first.dumbbell.bottleneck.trace == str(tmp_path / "steady")
    key = first.key()
    (tmp_path / "other").write_text("1\n2\n3\n")
    assert first.set("dumbbell.bottleneck.trace", str(tmp_path / "other")).key() == key
    (tmp_path / "steady").write_text("1\n2\n4\n")
    assert first.key() != key
    (tmp_path / "steady").unlink()
    with pytest.raises(ScenarioError, match="steady"):
        first.check()


def test_a_file_that_is_not_there_is_a_scenario_error(tmp_path: Path):
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(tmp_path / "nothing.toml")
    assert caught.value.kind == "unreadable"
    with pytest.raises(ScenarioError, match="it is a folder"):
        Scenario.load(tmp_path)
