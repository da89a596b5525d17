"""The satellite channel: its statistics, its traces, and its command."""

import numpy as np
import pytest

from leeway import satellite
from leeway.satellite import OPPORTUNITY_BITS, SAMPLE_S, SUBURBAN_40, LandMobile, Signal

CHANNEL = LandMobile()
SEEDS = range(1, 13)


@pytest.fixture(scope="module")
def signals() -> list[Signal]:
    return [satellite.signal(CHANNEL, seed) for seed in SEEDS]


def test_states_have_their_stationary_shares(signals):
    shares = SUBURBAN_40.shares()
    assert shares == pytest.approx([0.4545, 0.4545, 0.091], abs=0.001)
    states = np.concatenate([signal.state for signal in signals])
    assert [(states == k).mean() for k in range(3)] == pytest.approx(shares, abs=0.03)


def test_stays_in_a_state_last_as_long_as_the_chain_says(signals):
    for k, expected in enumerate(SUBURBAN_40.mean_stay_m() / CHANNEL.speed):
        stays = np.concatenate([_runs(signal.state == k)[1:-1] for signal in signals]) * SAMPLE_S
        assert stays.mean() == pytest.approx(expected, rel=0.08)
        assert stays.min() == pytest.approx(SUBURBAN_40.frame_m / CHANNEL.speed, abs=2 * SAMPLE_S)


def test_direct_signal_is_lognormal_in_each_state(signals):
    for k, state in enumerate(SUBURBAN_40.states):
        level = np.concatenate([signal.direct_db[signal.state == k] for signal in signals])
        assert level.mean() == pytest.approx(state.mean_db, abs=0.08 * state.deviation_db + 0.05)
        assert level.std() == pytest.approx(state.deviation_db, rel=0.06)


def test_shadowing_is_correlated_over_its_distance(signals):
    lag = round(SUBURBAN_40.correlation_m / CHANNEL.speed / SAMPLE_S)
    of_state = np.array([(state.mean_db, state.deviation_db) for state in SUBURBAN_40.states])
    correlation = []
    for signal in signals:
        mean, deviation = of_state[signal.state].T
        z = (signal.direct_db - mean) / deviation
        correlation.append(np.mean(z[:-lag] * z[lag:]))
    assert np.mean(correlation) == pytest.approx(np.exp(-1), abs=0.05)


def test_multipath_has_its_power_and_a_doppler_spread():
    noise = satellite._doppler_noise(400_000, CHANNEL.doppler_hz, np.random.default_rng(1))
    assert np.mean(np.abs(noise) ** 2) == pytest.approx(1, rel=0.02)
    # Circular: what matters is that in-phase and quadrature do not know of each other.
    assert abs(np.mean(noise.real * noise.imag)) < 0.02
    spectrum = np.abs(np.fft.fft(noise)) ** 2
    inside = np.abs(np.fft.fftfreq(len(noise), SAMPLE_S)) <= CHANNEL.doppler_hz
    assert spectrum[inside].sum() / spectrum.sum() > 0.93
    assert 120 < CHANNEL.doppler_hz < 123


def test_level_is_loo_distributed(signals):
    """Mean power of Loo's distribution: that of the log-normal part plus the multipath."""
    for k, state in enumerate(SUBURBAN_40.states):
        power = np.concatenate([10 ** (signal.level_db[signal.state == k] / 10) for signal in signals])
        natural = np.log(10) / 10
        direct = np.exp(natural * state.mean_db + (natural * state.deviation_db) ** 2 / 2)
        assert power.mean() == pytest.approx(direct + 10 ** (state.multipath_db / 10), rel=0.12 if k == 2 else 0.02)


def test_mean_rate_is_the_published_one():
    stamps = [satellite.opportunities(CHANNEL, seed) for seed in range(1, 25)]
    rate = np.array([len(s) * OPPORTUNITY_BITS / CHANNEL.duration_s for s in stamps])
    assert rate.mean() == pytest.approx(2.3e6, rel=0.02)
    # A single way differs, but not by much.
    assert np.all(np.abs(rate / 2.3e6 - 1) < 0.10)


def test_calibration_finds_the_default():
    assert satellite.calibrate(CHANNEL, 2.3e6, ways=12) == pytest.approx(CHANNEL.snr_db, abs=0.15)
    with pytest.raises(ValueError, match="out of reach"):
        satellite.calibrate(CHANNEL, 1e9, ways=1)


def test_rates_are_steps_of_coding_that_need_enough_signal():
    known = {0.0} | {e * 4.5e6 for e in satellite.EFFICIENCIES}
    found = satellite.rates(CHANNEL, satellite.signal(CHANNEL, 1).level_db)
    assert set(np.round(found, 3)) <= {round(rate, 3) for rate in known}
    levels = np.repeat(np.linspace(-40, 30, 200), 36)
    rising = satellite.rates(CHANNEL, levels)
    assert np.all(np.diff(rising) >= 0)
    assert rising[0] == 0
    assert rising[-1] == pytest.approx(5.5547 * 4.5e6)
    # Nothing beyond what theory allows.
    shannon = 4.5e6 * np.log2(1 + 10 ** ((CHANNEL.snr_db + levels[::36]) / 10))
    assert np.all(rising <= shannon)


def test_deep_shadowing_interrupts_the_link(signals):
    silences = []
    for signal in signals:
        silences.extend(_runs(satellite.rates(CHANNEL, signal.level_db) == 0) * CHANNEL.interleaving_ms / 1000)
    assert 0.02 < np.sum(silences) / (len(signals) * CHANNEL.duration_s) < 0.12
    assert 0.5 < np.max(silences) < 15


def test_opportunities_carry_the_rate():
    channel = LandMobile(distance_km=1)
    stamps = satellite.opportunities(channel, 4)
    assert np.all(np.diff(stamps) >= 0)
    assert stamps[0] >= 1
    assert stamps[-1] <= 60_000
    bits = satellite.rates(channel, satellite.signal(channel, 4).level_db).sum() * 0.036
    assert len(stamps) * OPPORTUNITY_BITS == pytest.approx(bits, rel=0.005)


def test_seeds_repeat_and_differ():
    channel = LandMobile(distance_km=0.5)
    assert np.array_equal(satellite.opportunities(channel, 1), satellite.opportunities(channel, 1))
    assert not np.array_equal(satellite.opportunities(channel, 1), satellite.opportunities(channel, 2))


def test_a_trace_is_written_once_and_whole(tmp_path):
    channel = LandMobile(distance_km=0.2)
    path = satellite.write_trace(tmp_path / "way" / "a.trace", channel, seed=5)
    assert [int(line) for line in path.read_text().splitlines()] == satellite.opportunities(channel, 5).tolist()
    assert [file.name for file in path.parent.iterdir()] == ["a.trace"]

    cached = satellite.cached_trace(channel, 5, tmp_path)
    stamp = cached.stat().st_mtime_ns
    assert satellite.cached_trace(channel, 5, tmp_path) == cached
    assert cached.stat().st_mtime_ns == stamp
    assert satellite.cached_trace(channel, 6, tmp_path) != cached
    assert satellite.cached_trace(LandMobile(distance_km=0.2, snr_db=5), 5, tmp_path) != cached


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(satellite.Path, "chmod", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        satellite.write_trace(tmp_path / "a.trace", LandMobile(distance_km=0.2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speed_kmh": 0}, "speed_kmh is 0, and has to be above 0"),
        ({"interleaving_ms": 0.5}, "interleaving_ms is 0.5, and has to be at least 1"),
        ({"speed_kmh": 1000}, "Doppler spread of 2025 Hz is too much"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        LandMobile(**changes)


def test_a_channel_that_delivers_nothing_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="nothing is delivered"):
        satellite.write_trace(tmp_path / "a.trace", LandMobile(distance_km=0.2, snr_db=-60))


def test_command(tmp_path, capsys):
    out = tmp_path / "bus.trace"
    assert satellite.main([str(out), "--distance", "1", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    assert "60 s" in text
    assert "Mbit/s on average" in text
    assert "deep shadowing" in text
    assert out.exists()
    assert satellite.main([str(tmp_path / "b"), "--distance", "-1"]) == 1
    assert "error: distance_km is -1.0" in capsys.readouterr().err


def _runs(condition: np.ndarray) -> np.ndarray:
    """Lengths of the runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], condition.astype(np.int8), [0]])))
    return edges[1::2] - edges[::2]
