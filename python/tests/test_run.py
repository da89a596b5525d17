"""Runs: the same ones everywhere, and stopped when they are not wanted."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from test_scenario import scenarios

import leeway
from leeway import Scenario, ScenarioError
from leeway.running import AHEAD

PACKAGE = Path(leeway.__file__).parents[1]


def test_the_seed_decides(small: Scenario):
    first, again, other = (leeway.run(small, seed).encode() for seed in (1, 1, 2))
    assert first == again != other
    assert leeway.run(small).seed == 1
    assert leeway.run(small.set("seed", 5)).seed == 5


@settings(max_examples=25)
@given(scenarios)
def test_many_are_the_same_as_one_by_one_on_any_number_of_workers(scenario: Scenario):
    seeds = range(3)
    alone = [leeway.run(scenario, seed).encode() for seed in seeds]
    for workers in (1, 2):
        many = leeway.run_many([(scenario, seed) for seed in seeds], workers=workers)
        assert [run.encode() for run in many] == alone


def test_results_come_in_the_order_of_the_input(small: Scenario):
    durations = [f"{1 + 40 * (i % 2)} s" for i in range(20)]
    runs = leeway.run_many((small.set("duration", duration) for duration in durations), workers=4)
    assert [f"{run.window().to_s:g} s" for run in runs] == durations


def test_scenarios_are_taken_as_they_are_needed(small: Scenario):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield small

    runs = leeway.run_many(endless(), workers=2)
    for _ in range(10):
        next(runs)
    assert taken <= 10 + 2 * AHEAD
    runs.close()
    assert list(leeway.run_many([], workers=2)) == []


def test_bad_numbers_are_refused(small: Scenario):
    for seed in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=r"not from 0 to 2\^63 - 1"):
            leeway.run(small, seed)
    with pytest.raises(ValueError, match="not 1 or more"):
        leeway.run_many([small], workers=0)
    with pytest.raises(ValueError, match="threads is 0, not 1 or more"):
        leeway.run(small, threads=0)


LINES = """
duration = "{duration}"
[[link]]
name = "one"
from = "a"
to = "b"
forward = {{ rate = "50 Mbit/s", delay = "10 ms" }}
[[link]]
name = "other"
from = "c"
to = "d"
forward = {{ rate = "50 Mbit/s", delay = "20 ms" }}
[[flow]]
name = "first"
from = "a"
to = "b"
[[flow]]
name = "second"
from = "c"
to = "d"
"""


def threads_while(play) -> int:
    """The most threads that this process has while `play` runs."""
    process, most, ended = psutil.Process(), [], threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            most.append(process.num_threads())

    watcher = threading.Thread(target=watch)
    watcher.start()
    play()
    ended.set()
    watcher.join()
    return max(most)


def test_parts_that_share_no_link_take_a_thread_each_and_change_nothing():
    scenario = Scenario.from_toml(LINES.format(duration="20 s"))
    assert leeway.run(scenario, threads=1).encode() == leeway.run(scenario, threads=2).encode()
    longer = Scenario.from_toml(LINES.format(duration="500 s"))
    one, two = (threads_while(lambda threads=threads: leeway.run(longer, threads=threads)) for threads in (1, 2))
    assert two == one + 2  # one waits for them, and for Ctrl-C


def test_the_lock_is_let_go_while_a_run_plays(long: Scenario):
    cancel = leeway.Cancel()
    with pytest.raises(leeway.CancelledError):
        threading.Timer(0.2, cancel.set).start()
        leeway.run(long, cancel=cancel)
    assert cancel.is_set()
    child = leeway.Cancel(cancel)
    assert child.is_set() and "set" in repr(child)


def test_an_error_stops_the_others(small: Scenario, long: Scenario):
    wrong = small.set("flow.backup.law", "flower")
    wrong.flow[1].law = "nonsense"
    begun = time.monotonic()
    runs = leeway.run_many([small, wrong, long, long], workers=2)
    next(runs)
    with pytest.raises(ScenarioError, match="nonsense"):
        next(runs)
    assert time.monotonic() - begun < 20  # to their end they take minutes
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("leeway")]


def test_closing_stops_what_is_under_way(small: Scenario, long: Scenario):
    begun = time.monotonic()
    runs = leeway.run_many([small, long, long, long], workers=2)
    next(runs)
    runs.close()
    assert time.monotonic() - begun < 20  # to their end they take minutes


def test_ones_own_cancel_is_not_set_by_others_errors(small: Scenario, long: Scenario):
    cancel = leeway.Cancel()
    assert len(list(leeway.run_many([small], cancel=cancel))) == 1
    assert not cancel.is_set()
    threading.Timer(0.2, cancel.set).start()
    with pytest.raises(leeway.CancelledError):
        list(leeway.run_many([long] * 4, workers=2, cancel=cancel))


CALLS = ["leeway.run(scenario)", "list(leeway.run_many([scenario] * 4, workers=2))"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_stops_at_once(long: Scenario, tmp_path: Path, call: str):
    file = tmp_path / "long.toml"
    file.write_text(long.to_toml())
    program = f"""
        import leeway, sys, time
        scenario = leeway.Scenario.load({str(file)!r})
        print("begun", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print(time.monotonic(), flush=True)
            sys.exit(3)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": PACKAGE}
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    assert process.poll() is None
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    heard = float(process.stdout.readline())
    assert process.wait(timeout=60) == 3
    # It is listened for every 0.04 s; the rest is for a busy machine. To its end the run takes minutes.
    assert heard - sent < 10


def test_memory_does_not_grow_with_the_number_of_runs(small: Scenario):
    small.series = leeway.Series(every="event")
    process = psutil.Process()
    memory = {}
    for number, _ in enumerate(leeway.run_many((small for _ in range(600)), workers=2)):
        memory[number] = process.memory_info().rss
    early, late = (max(memory[i] for i in range(at, at + 100)) for at in (100, 500))
    assert late - early < 8e6


def test_a_baseline_tells_of_harm(small: Scenario):
    small.baseline = True
    window = leeway.run(small, 1).window()
    assert [harm.name for harm in window.harm.groups] == ["download"]
    assert 0 <= window.harm.group("download").throughput <= 1
    assert window.harm.spare_use is None or window.harm.spare_use > 0


def test_what_the_simulator_refuses_is_an_error(small: Scenario, tmp_path: Path):
    trace = tmp_path / "trace"
    trace.write_text("nonsense\n")
    small.dumbbell.bottleneck.rate, small.dumbbell.bottleneck.trace = None, trace
    with pytest.raises(ScenarioError, match="cannot use"):
        leeway.run(small)
