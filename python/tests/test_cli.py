"""The program `leeway-lab`: what it prints, writes and returns."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import leeway
from leeway.lab.cache import Cache
from leeway.lab.cli import main

OWN = ["--load", str(Path(__file__).with_name("own_experiments.py"))]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def run(capfd, cache):
    """Carries out a command line: its exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        command, *others = arguments
        own = [] if command in ("sweep", "cache") or "--load" in others else OWN
        place = [] if command == "list" else ["--cache", str(cache)]
        code = main([command, *others, *own, *place])
        return code, *capfd.readouterr()

    return run


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "leeway.lab", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_results(cache: Path, count: int, process: subprocess.Popen[str]) -> int:
    """Waits until this many are in the cache; returns how many there are. A busy machine may take minutes."""
    end = time.monotonic() + 600
    while time.monotonic() < end and process.poll() is None:
        if cache.exists():
            with Cache(cache) as results:
                if len(results) >= count:
                    return len(results)
        time.sleep(0.02)
    process.kill()  # otherwise it goes on to its end
    raise AssertionError(f"not {count} results: {process.communicate()}")


def test_list_shows_ids_titles_and_runs(run):
    code, out, _ = run("list", "own", "other:many", "--runs")
    assert code == 0
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert list(rows) == ["id", "own:differs", "own:explained", "own:share", "other:many"]
    assert "What a law leaves to NewReno" in out
    assert rows["own:share"][-2:] == ["6", "20"]
    assert rows["other:many"][-2:] == ["60", "20,000"]


def test_list_as_json(run):
    code, out, _ = run("list", "own:s*", "--json", "--runs")
    entries = json.loads(out)
    assert (code, [entry["id"] for entry in entries]) == (0, ["own:share"])
    assert entries[0]["description"].startswith("NewReno beside LEDBAT")
    assert (entries[0]["paper"], entries[0]["kind"], entries[0]["runs_full"]) == ("own", "paper", 20)


def test_run_prints_claims_and_takes_the_rest_from_the_cache(run):
    code, out, _ = run("run", "own:share", "--workers", "2")
    assert code == 0
    assert re.search(r"^  holds     NewReno's share beside LEDBAT\n +published: 0\.9 · here: 0\.\d+ ± ", out, re.M)
    assert re.search(r"^  open      NewReno's share beside FLOWER$", out, re.M)
    assert "6 runs over 3 seeds, " in out
    assert "1 experiment, 2 claims: 1 hold, 0 differ, 1 open in the paper" in out
    code, again, _ = run("run", "own:share", "--workers", "1")
    assert "6 runs (6 from the cache)" in again
    assert again.split("here:")[1:][0][:30] == out.split("here:")[1:][0][:30]
    code, more, _ = run("run", "own:share", "--seeds", "5")
    assert "10 runs (6 from the cache) over 5 seeds" in more


def test_run_writes_figures_tables_and_claims(run, tmp_path):
    out = tmp_path / "a" / "results"
    assert run("run", "own:share", "--out", str(out))[0] == 0
    files = {path.name: path for path in (out / "own" / "share").iterdir()}
    assert sorted(files) == ["claims.csv", "fig-1.png", "fig-1.svg", "shares.csv"]
    assert files["fig-1.png"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files["fig-1.svg"].read_text()
    with files["shares.csv"].open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["law"] for row in table] == ["ledbat", "flower"]
    assert all(0 < float(row["share"]) < 1 and float(row["share ±"]) >= 0 for row in table)
    with files["claims.csv"].open(newline="") as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == ["holds", "open"]


@pytest.mark.parametrize(
    ("ids", "without", "with_check"),
    [(["own:share"], 0, 0), (["own:explained"], 0, 0), (["own:differs"], 0, 1), (["other:fails", "own:share"], 1, 1)],
)
def test_exit_codes_of_run(run, ids, without, with_check):
    assert run("run", *ids)[0] == without
    assert run("run", *ids, "--check")[0] == with_check


def test_an_experiment_that_fails_does_not_stop_the_others(run):
    _, out, _ = run("run", "other:fails", "own:share")
    assert "failed    RuntimeError: 1 is too few (own_experiments.py:" in out
    assert "2 experiments, 2 claims: 1 hold, 0 differ, 1 open in the paper; 1 experiment failed" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "own:shore"], r"no experiment is called 'own:shore'\. Perhaps .*own:share.*There are .*own.*and all"),
        (["list", "unheard-of"], r"no experiment is called 'unheard-of'\. There are"),
        (["run", "own:share", "--load", "nowhere.py"], r"there is no file nowhere\.py"),
        (["run", "own:share", "--engine", "local", "--dask", "tcp://x:1"], "needs the engine dask"),
        (["run", "own:share", "--law", "cubic"], "--law is for scoreboards, and own:share is none"),
        (["run", "scoreboard:real", "--law", "cubix"], "--law cubix: .*cubic"),
        (["sweep", "nowhere.toml"], r"nowhere\.toml"),
    ],
)
def test_wrong_usage_is_explained(run, arguments, text):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.search(f"leeway-lab: error: .*{text}", err.replace("\n", " "))
    assert "Traceback" not in err


def test_a_scoreboard_prints_its_tables(run):
    code, out, _ = run("run", "scoreboard:real", "--sample", "1", "--law", "vegas")
    assert code == 0
    heads = next(line for line in out.splitlines() if line.startswith("law "))
    assert heads.split() == ["law", "nothing", "strict", "priority", "Vegas", "(2;4)"]
    assert re.search(r"\nuse alone +- +[01]\.\d\d +[01]\.\d\d\n", out)


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "x", "--workers", "0"], ["run", "x", "--seeds", "many"], ["walk"]]
)
def test_wrong_arguments(arguments, capfd):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "leeway-lab" in capfd.readouterr().err


def test_help_names_commands_exit_codes_and_examples(capfd):
    assert main([]) == 2
    out = capfd.readouterr().out
    for word in ("list", "run", "sweep", "report", "cache", "exit codes:", "130", "examples:"):
        assert word in out
    assert main(["--version"]) == 0
    assert leeway.ENGINE in capfd.readouterr().out


def test_a_cache_that_cannot_be_used_is_an_error_of_the_surroundings(tmp_path, capfd):
    code = main(["run", "own:share", *OWN, "--cache", str(tmp_path / "nowhere" / "x.sqlite")])
    assert code == 3
    assert "there is no folder" in capfd.readouterr().err


def test_cache_info_prune_and_clear(run, cache):
    run("run", "own:share")
    with Cache(cache, engine="0.0.1+old") as other:
        other.put("x", b"1", 1.0)
    code, out, _ = run("cache")
    assert code == 0
    assert f"this engine  {leeway.ENGINE}: 6 results" in out
    assert "other engine 0.0.1+old: 1 result" in out
    assert "removed 1 result\n" in run("cache", "prune")[1]
    assert "removed 6 results" in run("cache", "clear")[1]
    assert "empty" in run("cache", "info")[1]


def test_dask_gives_the_same_as_local(run, cache):
    _, local, _ = run("run", "own:share")
    run("cache", "clear")
    code, dask, err = run("run", "own:share", "--engine", "dask", "--workers", "2")
    assert code == 0, err
    assert "6 runs over 3 seeds" in dask
    numbers = re.compile(r"here: .*")
    assert numbers.findall(dask) == numbers.findall(local)


def test_ctrl_c_ends_it_at_once_and_what_is_done_is_kept(cache, run):
    process = program("run", "other:many", "--full", "--workers", "2", "--cache", str(cache), *OWN)
    wait_for_results(cache, 10, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)  # all of them take longer
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    with Cache(cache) as results:
        done = len(results)
    assert 10 <= done < 20_000
    _, out, _ = run("run", "other:many")
    assert f"60 runs ({min(done, 60)} from the cache)" in out


def test_an_interrupt_is_an_exit_code_for_who_calls_main(run, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("leeway.lab.cli.run_experiment", interrupted)
    code, _, err = run("run", "own:share")
    assert code == 130
    assert "interrupted" in err


def test_a_kill_in_the_middle_loses_nothing_that_was_done(cache, run):
    process = program("run", "other:many", "--workers", "2", "--cache", str(cache), *OWN)
    wait_for_results(cache, 15, process)
    process.kill()
    process.communicate(timeout=60)
    with Cache(cache) as results:
        done = len(results)
    assert 15 <= done < 60
    code, out, _ = run("run", "other:many", "--workers", "2")
    assert code == 0
    assert f"60 runs ({done} from the cache)" in out
    with Cache(cache) as results:
        assert len(results) == 60
        assert results.damaged == 0


def test_who_has_seen_enough_may_close_the_pipe():
    process = program("list", *OWN)
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0
