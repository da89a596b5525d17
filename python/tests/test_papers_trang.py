"""Trang 2014: every experiment at quick size, the claims it makes, and the sampling of its large grid."""

import math

import numpy as np
import pytest
from papers_claims import assert_drawn, assert_explained, assert_tables_fit, outcome

import leeway
from leeway.lab import Setting, experiments
from leeway.papers.trang2014 import grid, regions, sampling
from leeway.papers.trang2014.common import bdp, drain_ms, part

PAPER = [
    "trang2014:fig3.1",
    "trang2014:fig3.2",
    "trang2014:fig3.3",
    "trang2014:fig3.4",
    "trang2014:fig3.5",
    "trang2014:table3.1",
    "trang2014:fig3.6",
    "trang2014:fig3.7",
    "trang2014:table3.2",
    "trang2014:fig3.8",
    "trang2014:fig3.9",
    "trang2014:fig5.1",
    "trang2014:fig5.2",
    "trang2014:fig5.3",
    "trang2014:fig5.4",
]
DIFFERENCES = [
    "trang2014:difference-recovery",
    "trang2014:difference-long-recovery",
    "trang2014:difference-cubic-decrease",
    "trang2014:difference-slow-start",
    "trang2014:difference-displacement",
    "trang2014:difference-base-history",
    "trang2014:difference-standing-queue",
]


def test_all_of_the_paper_is_there():
    ours = {name: known.kind for name, known in experiments().items() if known.paper == "trang2014"}
    assert ours == dict.fromkeys(PAPER, "paper") | dict.fromkeys(DIFFERENCES, "difference")


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_claims_hold_or_are_explained(name):
    assert_explained(name)


@pytest.mark.parametrize("name", [*PAPER, *DIFFERENCES])
def test_figures_and_tables(name):
    assert_drawn(name)
    assert_tables_fit(name)


def test_causes_are_those_of_claims_that_differ():
    """Each difference is the cause of a claim, or the note of an experiment names it."""
    named = {claim.why.partition(": ")[0] for name in PAPER for claim in outcome(name).claims}
    noted = " ".join(note for name in PAPER for note in outcome(name).notes)
    assert [name for name in DIFFERENCES if name not in named and name not in noted] == []


@pytest.mark.parametrize("name", ["trang2014:fig3.7", "trang2014:table3.2"])
def test_outcomes_left_open_are_recorded(name):
    assert {claim.verdict for claim in outcome(name).claims} == {"open"}


def test_buffers_in_bdp_are_those_of_the_thesis():
    assert [bdp(tenths=n) for n in (1, 5, 10, 11, 20)] == [9, 42, 84, 92, 167]
    assert bdp(rate=1, owd=10) == 2
    assert drain_ms(84) == pytest.approx(100.8)


def test_full_grid():
    """28,750 points; each run once; the grid of figure 3.5 is part of that of 3.4."""
    points = [point for key in grid.cells() for point in grid.cell(*key)]
    assert len(points) == len(set(points)) == 28_750
    assert all(point.buffer > 1 for point in points)
    full = Setting(full=True)
    runs = {name: experiments()[f"trang2014:{name}"].first_cases(full) for name in ("fig3.4", "fig3.5")}
    needed = {name: {case.labels["point"] for case in cases} for name, cases in runs.items()}
    assert {name: len(found) for name, found in needed.items()} == {name: len(found) for name, found in runs.items()}
    assert len(needed["fig3.4"]) == 24_340
    assert needed["fig3.5"] < needed["fig3.4"]
    assert {case.scenario.duration for case in runs["fig3.4"]} == {"1000 s"}
    assert all(case.scenario.series is None and len(case.scenario.window) == 1 for case in runs["fig3.4"])


@pytest.mark.parametrize("point", [grid.Point(1, 10, 50, 7, 3), grid.Point(5, 50, 100, 10, 39)])
def test_the_gain_is_nothing_where_the_delay_stays_below_the_target(point):
    """What is not simulated would have come out the same."""
    assert point.run == point._replace(gain=1)
    taken = {
        gain: tuple(
            part(name)(leeway.run(grid.scenario(point._replace(gain=gain)), seed=1)) for name in ("tcp", "ledbat")
        )
        for gain in (1, point.gain)
    }
    assert taken[1] == taken[point.gain]


def test_the_gain_counts_where_the_delay_passes_the_target():
    point = grid.Point(10, 50, 100, 10, 92)
    assert point.run == point
    assert grid.Point(10, 50, 100, 10, 83).run.gain == 10  # 84 packets with that in service: 100.8 ms
    assert grid.Point(10, 50, 100, 10, 82).run.gain == 1


def test_right_and_wrong():
    """TCP takes 0.8, here and at one BDP, and LEDBAT within 0.15 of what it takes there."""
    reference, point = grid.Point(10, 50, 25, 1, 84), grid.Point(10, 50, 25, 1, 117)

    def found(here, there):
        return grid.right(point, {reference: there, point: here})

    assert found((0.85, 0.14), (0.98, 0.01))
    assert not found((0.79, 0.14), (0.98, 0.01))
    assert not found((0.83, 0.17), (0.98, 0.01))
    assert not found((0.98, 0.01), (0.79, 0.01))
    assert grid.right(reference, {reference: (0.8, 0.2)})


def test_numbers_that_rise_with_capacity():
    exact = [sampling.Share(mean, mean, mean, 100, 100) for mean in (0.5, 0.6, 0.6, 0.9)]
    assert grid.rising(exact)
    assert not grid.rising(exact[::-1])
    assert not grid.rising([exact[0], exact[3], exact[1]])
    assert not grid.rising([exact[1], exact[2]])


def test_the_best_of_a_sample_is_not_beaten_beyond_its_interval():
    def estimated(mean, half):
        return sampling.Share(mean, mean - half, mean + half, 100, 10)

    assert grid.best({5: estimated(0.7, 0.2), 100: estimated(0.8, 0.1)}, 5)
    assert not grid.best({5: estimated(0.4, 0.1), 100: estimated(0.8, 0.1)}, 5)
    counted = {5: sampling.Share(0.7, 0.7, 0.7, 100, 100), 100: sampling.Share(0.8, 0.8, 0.8, 100, 100)}
    assert not grid.best(counted, 5)
    assert grid.best(counted, 100)


@pytest.mark.parametrize(
    ("found", "region"),
    [((0.5, 0.4, 0.45), "loss-based"), ((1.1, 0.2, 0.8), "hostile"), ((1.6, 0.9, 0.1), "working")],
)
def test_regions(found, region):
    assert regions.region(*found) == region


def synthetic():
    """A full table as the grid's might be: Right from a buffer on that depends on gain, delay and target."""
    generator = np.random.default_rng(3)
    table = {}
    for rate, target in grid.cells():
        for gain in grid.GAINS:
            for owd in grid.OWDS:
                begins = target / (2 * owd) * (2.2 - gain / 10) + generator.normal(0, 0.1)
                for buffer in grid.buffers(rate, owd):
                    point = grid.Point(rate, owd, target, gain, buffer)
                    table[point] = bool(buffer / point.reference.buffer > begins or generator.random() < 0.05)
    return table


def estimate(table, runs, seed):
    """Shares of Right in each cell by a sample."""
    generator = np.random.default_rng(seed)
    shares = {}
    for key in grid.cells():
        line = grid.cell(*key)
        drawn = grid.chosen(line, runs, generator)
        shares[key] = sampling.share((table[point] for point in drawn), len(line))
    return shares


def truth(table, key):
    return np.mean([table[point] for point in grid.cell(*key)])


def test_the_whole_grid_is_counted():
    table = synthetic()
    found = estimate(table, None, seed=1)
    assert all(share.counted and share.low == share.mean == share.high for share in found.values())
    assert all(share.mean == pytest.approx(truth(table, key)) for key, share in found.items())
    everything = sampling.by(found)[()]
    assert everything.mean == pytest.approx(np.mean(list(table.values())))
    assert everything.size == 28_750


def test_the_estimate_is_unbiased_and_its_interval_covers():
    """Over 300 samples: means within four standard errors of the truth, in each cell; 93 % of the intervals cover it."""
    table, tries = synthetic(), 300
    cells = {key: truth(table, key) for key in grid.cells()}
    rates = {
        (rate,): np.mean([table[point] for key in cells if key[0] == rate for point in grid.cell(*key)])
        for rate in grid.RATES
    }
    means = {key: [] for key in cells}
    covered, covered_by_rate = [], []
    for seed in range(tries):
        found = estimate(table, 300, seed)
        for key, share in found.items():
            means[key].append(share.mean)
            covered.append(share.low <= cells[key] <= share.high)
        for key, share in sampling.by(found, 0).items():
            covered_by_rate.append(share.low <= rates[key] <= share.high)
    for key, values in means.items():
        error = max(np.std(values, ddof=1), 1e-3) / math.sqrt(tries)
        assert abs(np.mean(values) - cells[key]) <= 4 * error, key
    assert np.mean(covered) >= 0.93
    assert np.mean(covered_by_rate) >= 0.93


def test_a_sample_covers_each_cell_alike():
    """Of each capacity and target the same number; of each gain as many as of the others, within two; all delays."""
    drawn = {key: grid.chosen(grid.cell(*key), 2500, np.random.default_rng(5)) for key in grid.cells()}
    assert {len(points) for points in drawn.values()} == {50}
    for (rate, _), points in drawn.items():
        gains = [sum(point.gain == gain for point in points) for gain in grid.GAINS]
        assert min(gains) >= 4, gains
        assert max(gains) <= 6, gains
        if rate >= 10:  # below that the shortest delay has few buffers
            assert {point.owd for point in points} == set(grid.OWDS)


def test_a_larger_sample_has_narrower_intervals():
    table = synthetic()
    small, large = (sampling.by(estimate(table, runs, seed=2))[()] for runs in (200, 2000))
    assert large.high - large.low < (small.high - small.low) / 2


def test_sample_is_about_as_large_as_asked_for():
    for name in ("fig3.4", "fig3.5"):
        known = experiments()[f"trang2014:{name}"]
        assert 300 <= len(known.first_cases(Setting(sample=600))) <= 650
        assert len(known.first_cases(Setting(sample=600))) == len(known.first_cases(Setting(full=True, sample=600)))
