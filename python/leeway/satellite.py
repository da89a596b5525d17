"""A land-mobile-satellite channel: traces of the rate at which a vehicle can receive, drawn from a
seed.

The model has three states: line of sight, moderate and deep shadowing. They follow each other
along the route as a Markov chain. Inside each state the signal has Loo's distribution: a
log-normal direct signal, correlated along the route, plus Rayleigh multipath with the Doppler
spread of the vehicle (Perez-Fontan et al., IEEE Trans. Vehicular Technology 50(6), 2001). Adaptive
coding in LTE's steps turns the signal-to-noise ratio into a rate. The rate becomes a trace of
delivery opportunities in mahimahi's format, for scenario files and the link emulator.

>>> from leeway.satellite import LandMobile, write_trace
>>> write_trace("bus.trace", seed=3)                                # doctest: +SKIP
>>> write_trace("train.trace", LandMobile(speed_kmh=120), seed=3)   # doctest: +SKIP

Or from a shell: ``python -m leeway.satellite bus.trace --seed 3``. docs/satellite.md says where
each number comes from.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy.signal import butter, lfilter, sosfilt

OPPORTUNITY_BITS = 1504 * 8
"""What one line of a trace delivers (mahimahi's packet of 1504 bytes)."""

SAMPLE_S = 1e-3
"""Interval between samples of the signal; the resolution of a trace as well."""

EFFICIENCIES = (
    *(0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141),
    *(2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547),
)
"""Steps of adaptive coding in bit/s/Hz: the channel quality indices 1 to 15 of LTE (3GPP TS
36.213, table 7.2.3-1)."""

SHANNON_SHARE = 0.75
"""Part of Shannon's capacity that coding of finite length reaches; sets the signal-to-noise ratio
each step needs."""

_MODEL = 1  # raised when the same parameters and seed give another trace


@dataclass(frozen=True, slots=True)
class State:
    """One state of the channel. All levels are relative to the direct signal without any obstacle.

    Attributes
    ----------
    name
        In words.
    mean_db
        Mean of the direct signal (dB).
    deviation_db
        Its standard deviation (dB).
    multipath_db
        Mean power of the multipath (dB).
    """

    name: str
    mean_db: float
    deviation_db: float
    multipath_db: float


@dataclass(frozen=True, slots=True)
class Environment:
    """The surroundings of the vehicle, and the elevation of the satellite.

    Attributes
    ----------
    name
        In words.
    states
        The states, from line of sight to deep shadowing.
    transitions
        Probability of going from the state of the row to that of the column, once every `frame_m`.
    frame_m
        Length of a step of the Markov chain, which is the shortest stay in a state (m).
    correlation_m
        Distance after which the correlation of the direct signal's level has fallen to 1/e (m).
    """

    name: str
    states: tuple[State, ...]
    transitions: tuple[tuple[float, ...], ...]
    frame_m: float
    correlation_m: float

    def shares(self) -> np.ndarray:
        """Share of the route spent in each state: the stationary distribution of the chain."""
        n = len(self.states)
        system = np.vstack([np.array(self.transitions).T - np.eye(n), np.ones(n)])
        shares = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
        return shares / shares.sum()

    def mean_stay_m(self) -> np.ndarray:
        """Mean length of a stay in each state (m)."""
        return self.frame_m / (1 - np.diag(np.array(self.transitions)))


SUBURBAN_40 = Environment(
    name="suburban, elevation 40 degrees, S-band",
    states=(
        State("line of sight", -1.0, 0.5, -13.0),
        State("moderate shadowing", -3.7, 0.98, -12.2),
        State("deep shadowing", -15.0, 5.9, -13.0),
    ),
    transitions=((0.8177, 0.1715, 0.0108), (0.1544, 0.7997, 0.0459), (0.1400, 0.1433, 0.7167)),
    frame_m=5.2,
    correlation_m=1.7,
)
"""Suburban roads under a satellite at 40 degrees, near 2.2 GHz."""


@dataclass(frozen=True, slots=True)
class LandMobile:
    """The channel between a satellite and a vehicle.

    Attributes
    ----------
    environment
        States and their statistics.
    speed_kmh
        Speed of the vehicle (km/h).
    distance_km
        Length of the route (km); with the speed it sets the duration of a trace.
    carrier_ghz
        Carrier frequency (GHz); with the speed it sets the Doppler spread.
    bandwidth_mhz
        Bandwidth that carries data (MHz): 25 resource blocks of 180 kHz in a channel of 5 MHz.
    interleaving_ms
        Period over which coding averages the channel, and between two changes of its rate (ms).
    snr_db
        Signal-to-noise ratio of the direct signal without any obstacle (dB). The default is what
        :func:`calibrate` finds for 2.3 Mbit/s on average.
    """

    environment: Environment = SUBURBAN_40
    speed_kmh: float = 60.0
    distance_km: float = 8.0
    carrier_ghz: float = 2.185
    bandwidth_mhz: float = 4.5
    interleaving_ms: float = 36.0
    snr_db: float = 1.41

    def __post_init__(self):
        for name in ("speed_kmh", "distance_km", "carrier_ghz", "bandwidth_mhz", "interleaving_ms"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, and has to be above 0")
        if self.interleaving_ms < 1000 * SAMPLE_S:
            raise ValueError(f"interleaving_ms is {self.interleaving_ms}, and has to be at least {1000 * SAMPLE_S:g}")
        if self.doppler_hz > 0.45 / SAMPLE_S:
            raise ValueError(f"a Doppler spread of {self.doppler_hz:.0f} Hz is too much for samples every millisecond")

    @property
    def speed(self) -> float:
        """Speed in m/s."""
        return self.speed_kmh / 3.6

    @property
    def duration_s(self) -> float:
        """Duration of the route (s)."""
        return 1000 * self.distance_km / self.speed

    @property
    def doppler_hz(self) -> float:
        """Largest Doppler shift of a path."""
        return self.speed * self.carrier_ghz * 1e9 / 299_792_458


@dataclass(frozen=True, slots=True)
class Signal:
    """The signal that a vehicle receives, one sample a millisecond.

    Attributes
    ----------
    state
        Index of the state.
    direct_db
        Level of the direct signal (dB).
    level_db
        Level of direct signal and multipath together (dB).
    """

    state: np.ndarray
    direct_db: np.ndarray
    level_db: np.ndarray


def signal(channel: LandMobile = LandMobile(), seed: int = 1) -> Signal:
    """The received signal along one route."""
    chance = np.random.default_rng(seed)
    samples = max(1, round(channel.duration_s / SAMPLE_S))
    step_m = channel.speed * SAMPLE_S
    state = _states(channel.environment, samples * step_m, chance)[
        (np.arange(samples) * step_m / channel.environment.frame_m).astype(int)
    ]
    of_state = np.array([(s.mean_db, s.deviation_db, s.multipath_db) for s in channel.environment.states])[state]

    keep = np.exp(-step_m / channel.environment.correlation_m)
    noise = chance.standard_normal(samples) * np.sqrt(1 - keep**2)
    noise[0] = chance.standard_normal()
    direct_db = of_state[:, 0] + of_state[:, 1] * lfilter([1.0], [1.0, -keep], noise)

    multipath = _doppler_noise(samples, channel.doppler_hz, chance) * 10 ** (of_state[:, 2] / 20)
    level_db = 20 * np.log10(np.abs(10 ** (direct_db / 20) + multipath))
    return Signal(state, direct_db, level_db)


def _states(environment: Environment, length_m: float, chance: np.random.Generator) -> np.ndarray:
    """State of each step of the Markov chain; begins in its stationary distribution."""
    frames = int(length_m / environment.frame_m) + 2
    rows = np.cumsum(np.array(environment.transitions), axis=1)
    draws = chance.random(frames)
    last = len(environment.states) - 1
    states = np.empty(frames, dtype=np.int64)
    states[0] = min(np.searchsorted(np.cumsum(environment.shares()), draws[0]), last)
    for frame in range(1, frames):
        states[frame] = min(np.searchsorted(rows[states[frame - 1]], draws[frame]), last)
    return states


def _doppler_noise(samples: int, doppler_hz: float, chance: np.random.Generator) -> np.ndarray:
    """Complex Gaussian noise of mean power 1, low-pass at the Doppler spread."""
    sections = butter(5, doppler_hz, fs=1 / SAMPLE_S, output="sos")
    settle = int(20 / doppler_hz / SAMPLE_S)
    response = sosfilt(sections, np.concatenate([[1.0], np.zeros(10 * settle)]))
    noise = chance.standard_normal((2, samples + settle))
    real, imaginary = sosfilt(sections, noise, axis=1)[:, settle:] / np.sqrt(2 * (response**2).sum())
    return real + 1j * imaginary


def rates(channel: LandMobile, level_db: np.ndarray) -> np.ndarray:
    """Rate in each interleaving period (bit/s), of a signal sampled each millisecond.

    Coding spans a period, so its rate depends on the mean of Shannon's capacity over the period.
    The rate is the largest step of `EFFICIENCIES` that fits into `SHANNON_SHARE` of this mean, and
    0 below the smallest step.
    """
    block = max(1, round(channel.interleaving_ms / 1000 / SAMPLE_S))
    capacity = np.log2(1 + 10 ** ((channel.snr_db + level_db) / 10))
    starts = np.arange(0, len(capacity), block)
    mean = np.add.reduceat(capacity, starts) / np.diff(np.append(starts, len(capacity)))
    steps = np.searchsorted(EFFICIENCIES, SHANNON_SHARE * mean, side="right")
    return np.array((0.0, *EFFICIENCIES))[steps] * channel.bandwidth_mhz * 1e6


def opportunities(channel: LandMobile = LandMobile(), seed: int = 1) -> np.ndarray:
    """Milliseconds at which 1504 bytes may be delivered, ascending."""
    level_db = signal(channel, seed).level_db
    block = max(1, round(channel.interleaving_ms / 1000 / SAMPLE_S))
    bits = np.repeat(rates(channel, level_db), block)[: len(level_db)] * SAMPLE_S
    whole = np.floor(np.cumsum(bits) / OPPORTUNITY_BITS).astype(np.int64)
    return np.repeat(np.arange(1, len(whole) + 1), np.diff(whole, prepend=0))


def calibrate(channel: LandMobile, mean_rate_bps: float = 2.3e6, ways: int = 60) -> float:
    """`snr_db` that gives this mean rate (bit/s), over many routes of the channel's length.

    Raises
    ------
    ValueError
        If no signal-to-noise ratio between -20 and 60 dB gives that rate.
    """
    levels = [signal(channel, seed=10_000 + way).level_db for way in range(ways)]

    def mean(snr_db: float) -> float:
        at = _with(channel, snr_db=snr_db)
        return float(np.mean([rates(at, level).mean() for level in levels]))

    low, high = -20.0, 60.0
    if not mean(low) <= mean_rate_bps <= mean(high):
        raise ValueError(f"a mean rate of {mean_rate_bps / 1e6:g} Mbit/s is out of reach in this channel")
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < mean_rate_bps else (low, middle)
    return (low + high) / 2


def write_trace(path: str | Path, channel: LandMobile = LandMobile(), seed: int = 1) -> Path:
    """Writes a trace in mahimahi's format; the file is complete or does not exist.

    Raises
    ------
    ValueError
        If nothing is delivered on the whole route.
    """
    stamps = opportunities(channel, seed)
    if not len(stamps):
        raise ValueError("nothing is delivered on the whole way; snr_db is too low")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write("\n".join(map(str, stamps)) + "\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def cached_trace(channel: LandMobile = LandMobile(), seed: int = 1, folder: str | Path | None = None) -> Path:
    """The trace of this channel and seed, written if it does not exist yet.

    It is kept in `folder`, or in ``leeway/traces`` of the user's cache (``XDG_CACHE_HOME``,
    ``~/.cache``).
    """
    if folder is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leeway" / "traces"
    key = hashlib.sha256(repr((_MODEL, asdict(channel), seed)).encode()).hexdigest()[:16]
    path = Path(folder) / f"satellite-{key}.trace"
    return path if path.exists() else write_trace(path, channel, seed)


def _with(channel: LandMobile, **changes) -> LandMobile:
    return LandMobile(**{f.name: getattr(channel, f.name) for f in fields(channel)} | changes)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m leeway.satellite``."""
    default = LandMobile()
    parser = argparse.ArgumentParser(
        prog="python -m leeway.satellite",
        description="Write a trace of a land-mobile-satellite channel (suburban, elevation 40 degrees, S-band) in "
        "mahimahi's format: a line is a millisecond at which 1504 bytes may be delivered.",
    )
    parser.add_argument("out", help="file to write")
    parser.add_argument("--seed", type=int, default=1, help="seed of the route (default: 1)")
    parser.add_argument("--speed", type=float, default=default.speed_kmh, metavar="KM/H", help="default: %(default)g")
    parser.add_argument(
        "--distance", type=float, default=default.distance_km, metavar="KM", help="default: %(default)g"
    )
    parser.add_argument(
        "--interleaving", type=float, default=default.interleaving_ms, metavar="MS", help="default: %(default)g"
    )
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "--snr", type=float, metavar="DB", help=f"of the direct signal without obstacles (default: {default.snr_db:g})"
    )
    level.add_argument("--mean-rate", type=float, metavar="MBIT/S", help="find the --snr with this mean rate")
    given = parser.parse_args(arguments)
    try:
        channel = LandMobile(
            speed_kmh=given.speed,
            distance_km=given.distance,
            interleaving_ms=given.interleaving,
            snr_db=default.snr_db if given.snr is None else given.snr,
        )
        if given.mean_rate is not None:
            channel = _with(channel, snr_db=calibrate(channel, given.mean_rate * 1e6))
        path = write_trace(given.out, channel, given.seed)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stamps = opportunities(channel, given.seed)
    received = signal(channel, given.seed)
    silence = int((rates(channel, received.level_db) == 0).mean() * 100 + 0.5)
    rate = len(stamps) * OPPORTUNITY_BITS / channel.duration_s / 1e6
    print(f"{path}: {channel.duration_s:g} s, {rate:.2f} Mbit/s on average, nothing {silence} % of the time")
    print(f"  {channel.environment.name}; {channel.speed_kmh:g} km/h; {channel.snr_db:.2f} dB without obstacle")
    for index, state in enumerate(channel.environment.states):
        print(f"  {state.name:<20} {100 * (received.state == index).mean():5.1f} % of the time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
