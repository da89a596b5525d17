"""Laws by hand: what they do step by step, and why."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leeway
from leeway import _core

NAMES = [law.name for law in leeway.laws()]


def test_what_there_is_is_listed():
    by_name = {law.name: law for law in leeway.laws()}
    assert {"newreno", "cubic", "ledbat", "ledbatpp", "fledbat", "lp", "nice", "vegas", "flower"} <= set(by_name)
    target = next(param for param in by_name["ledbat"].params if param.name == "target")
    assert target.default == "100ms" and target.source
    assert by_name["flower"].probes["largest_delay"] == "us"
    assert {"droptail", "red", "codel", "pie", "sfq", "fq_codel"} <= {queue.name for queue in leeway.queues()}


def test_the_lists_are_the_programs(program: Path):
    listing = subprocess.run([program, "laws"], capture_output=True, text=True, check=True).stdout
    for law in leeway.laws():
        assert f"{law.name}: {law.summary}" in listing
    schema = subprocess.run([program, "schema"], capture_output=True, text=True, check=True).stdout
    assert json.loads(schema) == json.loads(_core.schema())


def test_a_law_that_is_not_there_is_explained():
    with pytest.raises(ValueError, match=r'there is no law "ledbatt"; there are: .*ledbat'):
        leeway.law("ledbatt")
    with pytest.raises(ValueError, match=r"ledbat has no parameter .*; it has: target"):
        leeway.law("ledbat:taget=5ms")
    with pytest.raises(ValueError, match="unlimited"):
        leeway.law("ledbat:floor=2,ssthresh=0")


def test_ledbat_grows_by_what_the_delay_is_below_its_target():
    """RFC 6817, 2.4.2: cwnd += gain * off_target * acked * mss / cwnd."""
    law = leeway.law("ledbat:target=100ms,slow_start=none", initial_window_pkt=10)
    law.on_ack(50_000, 1500, owd_us=30_000, rtt_us=50_000)
    first = law.window_pkt
    assert first == pytest.approx(10 + 1 / 10, abs=1e-3)
    law.on_ack(60_000, 1500, owd_us=80_000, rtt_us=100_000)
    assert law.queuing_delay_us in range(0, 50_001)
    assert law.window_pkt > first


def test_slow_start_doubles_and_a_loss_halves():
    law = leeway.law("newreno", initial_window_pkt=4)
    assert (law.phase, law.ssthresh_pkt, law.pacing) == ("slow_start", float("inf"), None)
    for i in range(4):
        law.on_ack(100_000 + i, rtt_us=100_000)
    assert law.window_pkt == 8
    law.on_loss(150_000, inflight_bytes=8 * 1500)
    assert law.window_pkt == pytest.approx(4, abs=1)
    assert law.ssthresh == law.ssthresh_pkt < float("inf")
    law.on_loss(900_000, timeouts=1)
    assert law.window_pkt == 1


def test_a_copy_goes_its_own_way():
    law = leeway.law("newreno", initial_window_pkt=4)
    twin = law.copy()
    twin.on_ack(100_000, rtt_us=100_000)
    assert law.window_pkt == 4 < twin.window_pkt
    law.on_ack(100_000, rtt_us=100_000)
    assert law.window_pkt == twin.window_pkt


def drive(law: leeway.Law, delays_us: list[int]) -> None:
    """One ACK a round trip, with these delays beyond 50 ms."""
    now = 0
    for delay in delays_us:
        now += 50_000 + delay
        law.on_ack(now, rtt_us=50_000 + delay, round_start=True)


def test_the_worked_example_of_flower():
    """docs/laws/flower.md: e of 35 % lies on 1 and 2 by 0.25 and 0.75, de of 1 ms on 1; so 0.2 x 2.75 packets."""
    law = leeway.law("flower:slow_start=none", initial_window_pkt=10)
    drive(law, [0, 66_000, 65_000, 65_000])
    why = law.explain()
    assert why["error"] == pytest.approx(1.75, abs=1e-3)
    assert why["change"] == pytest.approx(1, abs=1e-3)
    assert why["memberships"]["error"] == pytest.approx({"PVS": 0.25, "PS": 0.75}, abs=1e-3)
    assert why["memberships"]["change"]["PVS"] == pytest.approx(1, abs=1e-3)
    fired = {(rule["error"], rule["change"]): (rule["output"], rule["weight"]) for rule in why["rules"][:2]}
    assert fired["PS", "PVS"] == (3, pytest.approx(0.75, abs=1e-3))
    assert fired["PVS", "PVS"] == (2, pytest.approx(0.25, abs=1e-3))
    assert why["output"] == pytest.approx(2.75, abs=1e-3)
    assert why["step_pkt"] == pytest.approx(0.55, abs=1e-3)


@given(st.lists(st.integers(0, 300_000), min_size=3, max_size=30), st.sampled_from(["minimum", "product"]))
def test_the_rules_that_fired_explain_the_output(delays: list[int], conjunction: str):
    law = leeway.law(f"flower:slow_start=none,and={conjunction}", initial_window_pkt=10)
    drive(law, delays)
    why = law.explain()
    assert 1 <= len(why["rules"]) <= 4
    for side in why["memberships"].values():
        assert sum(side.values()) == pytest.approx(1)
    if why["loss_zone"]:
        assert why["output"] == -6 and law.window_pkt == 1
    else:
        total = sum(rule["weight"] for rule in why["rules"])
        centre = sum(rule["weight"] * rule["output"] for rule in why["rules"]) / total
        assert why["output"] == pytest.approx(centre, abs=1e-3)


def test_a_sharp_fall_is_the_loss_zone():
    law = leeway.law("flower:slow_start=none", initial_window_pkt=10)
    drive(law, [0, 90_000, 90_000, 20_000, 20_000])
    assert law.phase == "loss_zone" and law.explain()["loss_zone"]
    assert law.window_pkt == 1
    with pytest.raises(ValueError, match="newreno has no rules"):
        leeway.law("newreno").explain()


@given(
    st.sampled_from(NAMES),
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(-(2**40), 2**40), st.booleans()),
        max_size=30,
    ),
)
def test_no_law_minds_what_it_is_told(name: str, events: list[tuple[int, int, int, bool]]):
    law, now = leeway.law(name), 0
    for gap, rtt, owd, lost in events:
        now += gap
        if lost:
            law.on_loss(now)
        else:
            law.on_ack(now, rtt_us=rtt, owd_us=owd)
    assert law.window_bytes > 0
    units = next(info.probes for info in leeway.laws() if info.name == name)
    assert set(law.probe()) == set(units)
    assert name in repr(law)


def test_numbers_that_do_not_fit_are_refused():
    law = leeway.law("cubic")
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            law.on_ack(wrong)
    with pytest.raises(TypeError):
        law.on_ack("now")
