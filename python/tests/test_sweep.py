"""Sweeps of scenario files: every point with every seed, as one table."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import leeway
from leeway.lab import sweep
from leeway.lab.cache import Cache
from leeway.lab.cli import main
from leeway.lab.driver import run_cases
from leeway.lab.engines import Local

SWEEP = """
duration = "1 s"
seed = 5
repetitions = 3

[dumbbell.bottleneck]
rate = "5 Mbit/s"
delay = "10 ms"

[[flow]]
name = "tcp"
start = { uniform = ["0 s", "100 ms"] }

[[flow]]
name = "lbe"
role = "background"
law = "ledbat"

[[window]]
name = "begin"
to = "500 ms"

[[window]]
name = "end"
from = "500 ms"
to = "1 s"

[sweep]
"dumbbell.bottleneck.buffer" = ["5 pkt", "20 pkt"]
"flow.lbe.law" = ["ledbat", "flower"]
"flow.lbe.count" = [1, 2]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_all_points_with_all_seeds(file):
    cases = sweep.cases(leeway.Scenario.load(file))
    assert len(cases) == 2 * 2 * 2 * 3
    assert [case.seed for case in cases[:4]] == [5, 6, 7, 5]
    for case in cases:
        assert case.scenario.dumbbell.bottleneck.buffer == case.labels["dumbbell.bottleneck.buffer"]
        assert case.scenario.flow[1].law == case.labels["flow.lbe.law"]
        assert case.scenario.flow[1].count == case.labels["flow.lbe.count"]
    assert len({(case.scenario.key(), case.seed) for case in cases}) == len(cases)
    assert len(sweep.cases(leeway.Scenario.load(file), seeds=1)) == 8


def test_a_file_without_a_sweep_is_one_point(make):
    cases = sweep.cases(make())
    assert [(case.labels, case.seed) for case in cases] == [({}, 1)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_table_has_every_metric_of_every_run(file, tmp_path, capfd, monkeypatch, suffix):
    monkeypatch.setattr(sweep, "AT_A_TIME", 5)
    out = tmp_path / f"table.{suffix}"
    assert main(["sweep", str(file), "--out", str(out), "--cache", str(tmp_path / "c.sqlite")]) == 0
    assert re.search(rf"24 runs in .*; the table is in {re.escape(str(out))}", capfd.readouterr().err)
    table = pyarrow.csv.read_csv(out) if suffix == "csv" else pyarrow.parquet.read_table(out)
    rows = table.to_pylist()
    assert len(rows) == 24 * 2 * 2
    assert sorted({row["run"] for row in rows}) == list(range(24))
    case = sweep.cases(leeway.Scenario.load(file))[13]
    row = next(row for row in rows if row["run"] == 13 and row["window"] == "end" and row["group"] == "lbe")
    window = leeway.run(case.scenario, case.seed).window("end")
    assert {name: row[name] for name in case.labels} == case.labels
    assert row["seed"] == case.seed
    assert row["throughput_bps"] == window.group("lbe").throughput_bps
    assert row["owd_p95_s"] == window.group("lbe").owd.p95_s
    assert row["link_utilisation"] == window.link().utilisation
    assert row["law"] == window.group("lbe").law
    assert not list(tmp_path.glob(".*.part"))


def test_means_are_printed_with_their_intervals(file, tmp_path, capfd):
    assert main(["sweep", str(file), "--cache", str(tmp_path / "c.sqlite"), "--seeds", "2"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert re.split("  +", out[0])[:5] == [
        "dumbbell.bottleneck.buffer",
        "flow.lbe.law",
        "flow.lbe.count",
        "window",
        "group",
    ]
    assert len(out) == 1 + 8 * 2 * 2
    with Cache(tmp_path / "c.sqlite") as cache:
        results = run_cases(sweep.cases(leeway.Scenario.load(file), 2)[:2], Local(1), cache)
        share = results.interval(lambda run: run.window("begin").group("tcp").share)
    assert f"{share.mean:.3f} ± {share.half:.2g}" in out[1]


@pytest.mark.parametrize(
    ("out", "text"), [("table.xlsx", "must end in .csv or .parquet"), ("nowhere/table.csv", "there is no folder")]
)
def test_a_table_that_cannot_be_written_is_refused_before_it_is_computed(file, tmp_path, capfd, out, text):
    assert main(["sweep", str(file), "--out", str(tmp_path / out), "--cache", str(tmp_path / "c.sqlite")]) == 2
    assert text in capfd.readouterr().err
    assert not (tmp_path / "c.sqlite").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('law = "ledbat"', 'law = "lebdat"'), "did you mean `ledbat`"),
        (('"flow.lbe.count"', '"flow.lbe.number"'), "number"),
        (("[1, 2]", "[1, 0]"), "0 is out of bounds"),
        (('duration = "1 s"', "duration = "), "sweep.toml"),
    ],
)
def test_a_bad_file_is_explained_as_the_program_does(file, tmp_path, capfd, change, text):
    file.write_text(SWEEP.replace(*change))
    assert main(["sweep", str(file), "--cache", str(tmp_path / "c.sqlite")]) == 2
    err = capfd.readouterr().err
    assert text in err
    assert "Traceback" not in err
