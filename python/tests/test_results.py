"""Results: Arrow without copies, bytes and back, one table of many."""

import dataclasses
import json
import pickle
import re

import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leeway
from leeway import Run, Scenario, Series, results, units
from leeway.lab import Case, Result


@pytest.fixture
def run(small: Scenario) -> Run:
    small.series = Series(every="10 ms")
    return leeway.run(small, 1)


def test_windows_groups_and_links_are_found_by_name(run: Run):
    window = run.window()
    assert window is run.window("run") is run.windows[0]
    assert window.group("backup").role == "background"
    assert window.group().name == "download"
    assert window.link() is window.link("bottleneck")
    with pytest.raises(KeyError, match="there are: download, backup"):
        window.group("upload")
    with pytest.raises(KeyError):
        window.link("reverse")


def test_numbers_make_sense(run: Run):
    window = run.window()
    total = sum(group.throughput_bps for group in window.groups)
    assert 0.5 * 2e6 < total <= 2e6
    assert sum(group.share for group in window.groups) == pytest.approx(1)
    assert 0 < window.link().utilisation <= 1
    owd = window.group("download").owd
    assert 0.010 < owd.p50_s <= owd.p95_s <= owd.p99_s <= owd.max_s
    assert run.work.delivered_packets > 0


def test_series_have_the_columns_that_are_promised(run: Run, small: Scenario):
    assert run.flows.schema == results.FLOWS
    assert run.links.schema == results.LINKS
    small.series = None
    empty = leeway.run(small, 1)
    assert empty.flows.schema == results.FLOWS and len(empty.flows) == 0
    assert empty.links.schema == results.LINKS and len(empty.links) == 0
    assert empty.windows == run.windows
    assert set(run.flows["flow"].to_pylist()) == {"download", "backup"}
    assert run.flows["phase"][0].as_py() == "slow_start"
    assert run.links["time_s"].to_pylist()[-1] == 2.0


def addresses(column: pa.ChunkedArray) -> list[int]:
    return [chunk.buffers()[1].address for chunk in column.chunks]


def test_series_are_not_copied(run: Run):
    """pyarrow, numpy, pandas and polars look at the memory that the simulator filled."""
    column = run.flows["cwnd_pkt"]
    assert addresses(pa.table(run._flows)["cwnd_pkt"]) == addresses(column)
    array = column.chunk(0).to_numpy(zero_copy_only=True)
    assert array.ctypes.data == addresses(column)[0]
    frame = polars.from_arrow(run.flows)
    assert frame["cwnd_pkt"].to_numpy(allow_copy=False).ctypes.data == addresses(column)[0]
    pandas_frame = run.flows.select(["cwnd_pkt"]).to_pandas(zero_copy_only=True, split_blocks=True)
    assert np.shares_memory(pandas_frame["cwnd_pkt"].to_numpy(), array)
    assert pandas_frame["cwnd_pkt"].tolist() == column.to_pylist() == frame["cwnd_pkt"].to_list()


def test_series_outlive_their_run(small: Scenario):
    small.series = Series(every="event")
    table = leeway.run(small, 1).flows
    values = table["cwnd_pkt"].to_pylist()
    for seed in range(5):
        leeway.run(small, seed)
    assert table["cwnd_pkt"].to_pylist() == values
    assert polars.from_arrow(leeway.run(small, 1).flows)["cwnd_pkt"].to_list() == values


def test_names_become_categories(run: Run):
    frame = run.flows.to_pandas()
    assert list(frame["flow"].cat.categories) == ["download", "backup"]
    assert frame.groupby("flow", observed=True)["cwnd_pkt"].mean().min() > 0


def test_bytes_hold_everything(run: Run, small: Scenario):
    for each in (run, leeway.run(small.set("series", {"every": "event"}), 3)):
        back = Run.decode(each.encode())
        assert back == each
        assert back.flows.equals(each.flows) and back.links.equals(each.links)
        assert back.encode() == each.encode()
        assert pickle.loads(pickle.dumps(each)).encode() == each.encode()
    small.series, small.baseline = None, True
    alone = leeway.run(small, 1)
    assert Run.decode(alone.encode()) == alone
    assert len(alone.encode()) < 1500


@settings(max_examples=200)
@given(st.data())
def test_damage_is_noticed(data: st.DataObject):
    whole = encoded()
    kind = data.draw(st.sampled_from(["cut", "flip", "noise"]))
    if kind == "cut":
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    elif kind == "flip":
        at = data.draw(st.integers(0, len(whole) - 1))
        damaged = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    else:
        damaged = data.draw(st.binary(max_size=100))
    with pytest.raises(ValueError, match="run"):
        Run.decode(damaged)


def encoded(cache: list[bytes] = []) -> bytes:  # noqa: B006 (made once)
    if not cache:
        scenario = Scenario.from_toml(
            """
            duration = "1 s"
            series.every = "100 ms"
            flow = [{ name = "tcp" }]
            dumbbell.bottleneck = { rate = "1 Mbit/s", delay = "10 ms" }
            """
        )
        cache.append(leeway.run(scenario, 1).encode())
    return cache[0]


def test_many_runs_are_one_table(run: Run, small: Scenario):
    small.baseline, small.series = True, None
    again = leeway.run(small, 2)
    table = leeway.summaries([run, again])
    assert len(table) == 4
    assert table["group"].to_pylist() == ["download", "backup"] * 2
    assert table["seed"].to_pylist() == [1, 1, 2, 2]
    assert table["rtt_p95_s"].to_pylist()[0] == run.window().group("download").rtt.p95_s
    harm = again.window().harm
    assert table["harm_throughput"].to_pylist() == [None, None, harm.group("download").throughput, None]
    assert table["spare_use"].to_pylist()[2:] == [harm.spare_use] * 2
    assert table["mos"].type == pa.float64() and table["mos"].null_count == 4
    assert table.column_names[:6] == ["run", "seed", "window", "from_s", "to_s", "group"]
    assert leeway.summaries([]).schema == table.schema


def test_labels_of_results_are_columns(run: Run, small: Scenario):
    found = [Result(Case(small, 1, {"law": law, "flows": i}), lambda: run) for i, law in enumerate(["a", "b"])]
    table = leeway.summaries(found).to_pandas()
    assert table["label_flows"].tolist() == [0, 0, 1, 1]
    assert table["flows"].tolist() == [1] * 4
    assert table["label_law"].tolist() == ["a", "a", "b", "b"]
    assert len(table.query("group == 'download'")) == 2


def test_the_summary_is_the_programs_json(run: Run):
    assert Run.from_summary(json.loads(json.dumps(run.to_dict()))) == run


def test_texts_of_results_have_units(small: Scenario):
    small.baseline = True
    window = leeway.run(small, 1).window()
    group, link = window.group("download"), window.link()
    assert re.match(
        r"<GroupSummary download: role primary, law newreno, flows 1, throughput [\d.]+ \SBit/s, ", repr(group), re.I
    )
    assert f"share {100 * group.share:.3g} %" in repr(group) and f"p50 {1e3 * group.rtt.p50_s:.3g} ms" in repr(group)
    assert f"cwnd_mean {group.cwnd_mean_pkt:.3g} pkt" in repr(group) and "mos" not in repr(group)
    assert repr(link).startswith("<LinkSummary bottleneck: capacity 2 Mbit/s, utilisation ")
    assert "%" in repr(window.harm.group()) and "download" in repr(window.harm)
    assert re.fullmatch(
        r"<WindowSummary run, 0 to 2 s: download .*bit/s, backup .*bit/s, bottleneck .* % used>", repr(window)
    )
    for summary in (group, group.rtt, link, window, window.harm, window.harm.group()):
        assert " %" in summary._repr_html_() or " ms" in summary._repr_html_()
        for field in dataclasses.fields(summary):
            value = getattr(summary, field.name)
            assert not isinstance(value, float) or repr(value) not in repr(summary) or value == int(value), field.name


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("throughput_bps", 3_917_000.0, "3.92 Mbit/s"),
        ("throughput_bps", 0.0, "0 bit/s"),
        ("capacity_bps", 999_600_000.0, "1,000 Mbit/s"),
        ("p50_s", 0.0412, "41.2 ms"),
        ("to_s", 30.0, "30 s"),
        ("queuing_delay_us", 1500.0, "1.5 ms"),
        ("loss", 0.00123, "0.123 %"),
        ("harm_delay", 1.0, "100 %"),
        ("cwnd_mean_pkt", 84.13, "84.1 pkt"),
        ("queue_bytes", 1500.0, "1.5 kB"),
        ("jain", 0.987654, "0.988"),
        ("sent", 12345, "12,345"),
        ("mos", None, "none"),
    ],
)
def test_numbers_have_the_units_of_their_names(name: str, value: float | None, text: str):
    assert units.text(name, value) == text


def test_every_column_has_words_and_a_unit():
    columns = leeway.summaries([]).column_names
    labels = {name: units.scale(name, [1.0]).label for name in columns}
    assert labels["rtt_p95_s"] == "95th percentile of RTT, s" and labels["link_loss"] == "loss of the link, %"
    assert (
        labels["harm_throughput"] == "harm to the throughput, %"
        and labels["window_jain"] == "Jain's index of all flows"
    )
    assert not [label for label in labels.values() if "_" in label]


def test_reprs_tell_something(run: Run, small: Scenario):
    assert repr(run).startswith("<Run seed 1; run, 0 to 2 s: download ")
    page = run._repr_html_()
    assert "<svg" in page and "download" in page and page.count("<polyline") == 2
    small.series, small.title = None, "<script>"
    assert "<svg" not in leeway.run(small)._repr_html_()
    assert "&lt;script&gt;" in small._repr_html_() and "<script>" not in small._repr_html_()


def test_every_field_says_its_unit_or_what_it_is():
    for summary in (
        results.Percentiles,
        results.LinkSummary,
        results.GroupSummary,
        results.Harm,
        results.HarmSummary,
        results.WindowSummary,
        results.Work,
    ):
        for field in dataclasses.fields(summary):
            assert f"{field.name}\n" in summary.__doc__ or f"{field.name}," in summary.__doc__, (summary, field.name)
