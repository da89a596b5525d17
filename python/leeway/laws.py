"""Control laws, driven by hand: the controller of one flow, event by event, with its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from leeway import _core


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """A parameter of a law or of a queue discipline.

    Attributes
    ----------
    name
        Name in a specification such as "ledbat:target=25ms".
    default
        Value where the parameter is not given, in the same spelling.
    range
        Bounds, or the possible words.
    about
        What the parameter sets.
    source
        RFC or paper that defines the parameter; empty where it is the source of the law or queue.
    """

    name: str
    default: str
    range: str
    about: str
    source: str


@dataclass(frozen=True, slots=True)
class LawInfo:
    """A control law, as ``leeway laws`` prints it.

    Attributes
    ----------
    name
        As it is spelt in scenarios.
    summary
        One line.
    source
        The RFC or paper that defines it.
    params
        Parameters.
    probes
        Names of numbers of its state, with their units ("us", "pkt", "" for none).
    """

    name: str
    summary: str
    source: str
    params: list[ParamInfo]
    probes: dict[str, str]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue discipline, as ``leeway queues`` prints it.

    Attributes
    ----------
    name
        As it is spelt in scenarios.
    summary
        One line.
    source
        Where it is specified.
    params
        Parameters.
    """

    name: str
    summary: str
    source: str
    params: list[ParamInfo]


def laws() -> list[LawInfo]:
    """All control laws of this version."""
    return [
        LawInfo(name, summary, source, [ParamInfo(*p) for p in params], dict(probes))
        for name, summary, source, params, probes in _core.laws()
    ]


def queues() -> list[QueueInfo]:
    """All queue disciplines of this version."""
    return [
        QueueInfo(name, summary, source, [ParamInfo(*p) for p in params])
        for name, summary, source, params, _ in _core.queues()
    ]


def law(spec: str, *, mss_bytes: int = 1500, initial_window_pkt: float = 10) -> Law:
    """The control law of a new flow.

    Parameters
    ----------
    spec
        The law with its parameters: "flower", "ledbat:target=25ms,gain_down=10".
    mss_bytes
        Size of a full segment; the window counts these bytes.
    initial_window_pkt
        Window at the start, in segments.

    Raises
    ------
    ValueError
        If there is no such law or parameter; the message lists those that exist.

    Examples
    --------
    >>> flow = law("ledbat:target=100ms,slow_start=none", initial_window_pkt=2)
    >>> flow.on_ack(50_000, rtt_us=50_000)
    >>> round(flow.window_pkt, 3)
    2.5
    """
    return Law(spec, mss_bytes=mss_bytes, initial_window_pkt=initial_window_pkt)


class Law:
    """The controller of one flow. It has no clock: every event comes with its time.

    Make one with `law`. Between events read `window_pkt`, `ssthresh_pkt`, `pacing_bps`,
    `queuing_delay_us`, `phase`; `probe` shows more of the state. `explain` shows how FLOWER made
    its last decision.
    """

    def __init__(self, spec: str, *, mss_bytes: int = 1500, initial_window_pkt: float = 10):
        self._law = _core.Law(spec, mss_bytes, round(initial_window_pkt * mss_bytes))
        self._mss_bytes = mss_bytes
        self._initial_window_bytes = round(initial_window_pkt * mss_bytes)
        self._srtt_us = 0
        self._min_rtt_us = 0
        self._round_us: int | None = None

    def on_ack(
        self,
        now_us: int,
        acked_bytes: int | None = None,
        *,
        rtt_us: int = 0,
        owd_us: int | None = None,
        owd_resolution_us: int = 1,
        prior_inflight_bytes: int | None = None,
        inflight_bytes: int | None = None,
        ce_bytes: int = 0,
        app_limited: bool = False,
        round_start: bool | None = None,
        recovering: bool = False,
        srtt_us: int | None = None,
        min_rtt_us: int | None = None,
    ) -> None:
        """An acknowledgement arrives.

        Parameters
        ----------
        now_us
            Microseconds on any clock that does not go back.
        acked_bytes
            Newly acknowledged; one segment if None.
        rtt_us
            Round-trip sample, microseconds; 0 for none.
        owd_us
            One-way delay sample, microseconds: the receiver's clock minus the sender's, with any
            constant offset; None for none.
        owd_resolution_us
            Resolution of the clocks of that sample.
        prior_inflight_bytes
            Bytes in flight before the ACK; the window if None.
        inflight_bytes
            Bytes in flight after the ACK; `prior_inflight_bytes` less `acked_bytes` if None.
        ce_bytes
            Bytes newly reported as marked CE (congestion experienced).
        app_limited
            Whether the sender has less to send than its window allows.
        round_start
            Whether this is the first ACK of a round trip. If None: whether a round trip passed
            since the last one.
        recovering
            Whether loss recovery is under way.
        srtt_us, min_rtt_us
            Smoothed (RFC 6298) and smallest round-trip time, microseconds; computed from the
            samples if None.
        """
        acked = self._mss_bytes if acked_bytes is None else acked_bytes
        prior = max(int(self.window_bytes), acked) if prior_inflight_bytes is None else prior_inflight_bytes
        self._note_rtt(rtt_us, srtt_us, min_rtt_us)
        if round_start is None:
            round_start = self._round_us is None or now_us - self._round_us >= self._srtt_us
        if round_start:
            self._round_us = now_us
        self._law.on_ack(
            path=self._path(max(prior - acked, 0) if inflight_bytes is None else inflight_bytes),
            now_us=now_us,
            acked_bytes=acked,
            prior_inflight_bytes=prior,
            ce_bytes=ce_bytes,
            rtt_us=rtt_us,
            owd_us=0 if owd_us is None else owd_us & 0xFFFF_FFFF,
            owd_resolution_us=0 if owd_us is None else owd_resolution_us,
            app_limited=app_limited,
            round_start=round_start,
            recovering=recovering,
        )

    def on_loss(
        self,
        now_us: int,
        lost_bytes: int | None = None,
        *,
        sent_us: int | None = None,
        timeouts: int = 0,
        inflight_bytes: int | None = None,
    ) -> None:
        """The sender detects a loss.

        Parameters
        ----------
        now_us
            Microseconds on the clock of `on_ack`.
        lost_bytes
            Bytes that this event counts as lost; one segment if None.
        sent_us
            When the first of these bytes was last sent, on the same clock; a round trip ago if
            None.
        timeouts
            Timeouts in a row, this one included; 0 for a loss that duplicate ACKs showed.
        inflight_bytes
            Bytes in flight after the loss; the window less `lost_bytes` if None.
        """
        lost = self._mss_bytes if lost_bytes is None else lost_bytes
        inflight = max(int(self.window_bytes) - lost, 0) if inflight_bytes is None else inflight_bytes
        self._law.on_loss(
            path=self._path(inflight),
            now_us=now_us,
            lost_bytes=lost,
            sent_us=max(now_us - self._srtt_us, 0) if sent_us is None else sent_us,
            timeouts=timeouts,
        )

    def _note_rtt(self, rtt_us: int, srtt_us: int | None, min_rtt_us: int | None) -> None:
        if rtt_us:
            self._srtt_us = (7 * self._srtt_us + rtt_us) // 8 if self._srtt_us else rtt_us
            self._min_rtt_us = min(self._min_rtt_us or rtt_us, rtt_us)
        self._srtt_us = self._srtt_us if srtt_us is None else srtt_us
        self._min_rtt_us = self._min_rtt_us if min_rtt_us is None else min_rtt_us

    def _path(self, inflight_bytes: int) -> tuple[int, int, int, int, int]:
        return inflight_bytes, self._mss_bytes, self._initial_window_bytes, self._srtt_us, self._min_rtt_us

    @property
    def name(self) -> str:
        """Name of the law."""
        return self._law.name

    @property
    def spec(self) -> str:
        """The law with the parameters that are not at their defaults."""
        return self._law.spec

    def param(self, name: str) -> str:
        """A parameter's value as it is written: "100ms".

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        return self._law.param(name)

    @property
    def window_bytes(self) -> float:
        """Window in bytes, with its fraction; may be below one segment."""
        return self._law.window_bytes

    @property
    def window_pkt(self) -> float:
        """Window in segments."""
        return self._law.window_bytes / self._mss_bytes

    @property
    def ssthresh_pkt(self) -> float:
        """Slow-start threshold in segments; infinite where not set."""
        return self._law.ssthresh_bytes / self._mss_bytes

    ssthresh = ssthresh_pkt

    @property
    def pacing_bps(self) -> float | None:
        """Pacing rate that the law asks for, bits per second; None where it asks for none."""
        return self._law.pacing_bytes_per_s * 8.0 or None

    pacing = pacing_bps

    @property
    def queuing_delay_us(self) -> int:
        """The law's estimate of the queuing delay, microseconds; 0 where it has none."""
        return self._law.queuing_delay_us

    @property
    def phase(self) -> str:
        """What the law is doing: slow_start, avoidance, yielding, inference, slowdown,
        loss_zone."""
        return self._law.phase

    def probe(self) -> dict[str, float]:
        """Numbers of the law's state, by name; `laws` has their units."""
        return self._law.probe()

    def copy(self) -> Self:
        """Another law in the same state, for experiments that leave this one as it is."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._law = self._law.copy()
        return twin

    def explain(self) -> dict[str, Any]:
        """How FLOWER made its last decision.

        Returns
        -------
        dict
            ``error`` and ``change``: the inputs as indices, -5 to 5. ``memberships``: for each,
            the linguistic values (NVL, NL, NM, NS, NVS, Z, PVS, PS, PM, PL, PVL) that it belongs
            to, and how much. ``rules``: those that fired, the strongest first, each with its
            ``error``, ``change``, ``output`` (-6 to 5) and ``weight``. ``output``: what they gave,
            averaged by centre. ``step_pkt``: the change of the window that this asks for,
            segments. ``loss_zone``: whether the queue fell so sharply that the window went to the
            floor instead.

        Raises
        ------
        ValueError
            If the law is another one.
        """
        if self.name != "flower":
            raise ValueError(f"{self.name} has no rules; flower has")
        state = self.probe()
        error, change = state["error_value"], state["change_value"]
        both = (_memberships(error), _memberships(change))
        product = self.param("and") == "product"
        rules = [
            {
                "error": VALUES[e + 5],
                "change": VALUES[c + 5],
                "output": self._law.flower_rule(e, c),
                "weight": e_weight * c_weight if product else min(e_weight, c_weight),
            }
            for e, e_weight in both[0].items()
            for c, c_weight in both[1].items()
        ]
        named = [{VALUES[value + 5]: weight for value, weight in each.items()} for each in both]
        return {
            "error": error,
            "change": change,
            "memberships": {"error": named[0], "change": named[1]},
            "rules": sorted(rules, key=lambda rule: -rule["weight"]),
            "output": state["output_value"],
            "step_pkt": state["output_value"] * float(self.param("step")),
            "loss_zone": self.phase == "loss_zone",
        }

    def __repr__(self) -> str:
        return (
            f"<Law {self.spec}: window {self.window_pkt:.2f} pkt, {self.phase}, "
            f"queuing delay {self.queuing_delay_us / 1000:.1f} ms>"
        )


VALUES = ("NVL", "NL", "NM", "NS", "NVS", "Z", "PVS", "PS", "PM", "PL", "PVL")
"""FLOWER's linguistic values, -5 to 5: negative or positive; very large, large, medium, small,
very small; zero."""


def _memberships(index: float) -> dict[int, float]:
    """The linguistic values that an index belongs to: triangles between neighbouring centres."""
    low = int(index // 1)
    high = index - low
    return {value: weight for value, weight in ((low, 1 - high), (low + 1, high)) if weight > 0}
