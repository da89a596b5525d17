"""What the testbed measured, in the lab's report."""

import json
import os
import subprocess
import sys

ROW = {
    "mechanism": "prim_only",
    "median": {"primary_mean_s": 0.103, "primary_p99_s": 0.11, "primary_per_s": 5.0, "both_mean_s": 0.103},
    "of_prim_only": {"primary_mean": 1.0, "primary_p99": 1.0},
    "rounds": [],
}
BEST = ROW | {
    "mechanism": "best_effort",
    "median": {"primary_mean_s": 1.05, "primary_p99_s": 2.0, "secondary_mean_s": 3.0, "both_mean_s": 2.1},
    "of_prim_only": {"primary_mean": 10.2, "primary_p99": 18.0},
}
RESULT = {
    "id": "dimogerontakis2017:overload",
    "title": "Web users under overload",
    "rounds": 5,
    "duration_s": 20.0,
    "points": [{"label": "", "rows": [ROW, BEST]}],
    "claims": [{"text": "close", "published": "close", "found": "1.2 times", "holds": True}],
}


def lab(folder, *arguments, file="testbed.json"):
    environment = os.environ | {"LEEWAY_TESTBED": str(folder / file), "LEEWAY_CACHE": str(folder / "cache.sqlite")}
    command = [sys.executable, "-m", "leeway.lab", *arguments, "--load", "leeway.papers.testbed"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_measurement_is_an_experiment_of_the_lab(tmp_path):
    (tmp_path / "testbed.json").write_text(json.dumps([RESULT]), encoding="utf-8")
    done = lab(tmp_path, "run", "dimogerontakis2017:overload", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "dimogerontakis2017" / "overload"
    names = {path.name for path in folder.rglob("*")}
    assert any(name.endswith(".svg") for name in names), names
    table = next(path for path in folder.rglob("*all*.csv")).read_text(encoding="utf-8")
    assert "best_effort" in table and "10.2" in table
    assert "holds" in done.stdout


def test_a_file_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"x": 1}', encoding="utf-8")
    done = lab(tmp_path, "list", file="other.json")
    assert done.returncode != 0
    assert "leeway testbed --out" in done.stderr
