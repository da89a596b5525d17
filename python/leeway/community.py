"""Communities that share their lines: who gets what, when each user's client chooses among several
gateways.

>>> from leeway.community import Community
>>> run = Community(gateways=20, users=400, scheme="selector").run(seed=1)
>>> run.found > 0.8
True
>>> figure = run.plot()  # hour by hour

docs/selection.md says what is modelled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from leeway import _core, encoding
from leeway._core import Cancel
from leeway.shown import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scheme = Literal["selector", "nearest", "random", "least_loaded"]

_NO_SERIES = pa.table({})


@dataclass(frozen=True, kw_only=True)
class Community:
    """A community for a simulation with fluid flows.

    Attributes
    ----------
    title
        Title in words; it does not change the run.
    gateways, users
        Homes that share their lines, and people who use what is shared.
    known
        Gateways that a client knows: the nearest.
    hop_bps
        Rate over one hop of the mesh; over n hops an n-th of it.
    scheme
        How clients choose.
    policy
        Constants of the selector that are not its defaults.
    hours
        Simulated hours, from midnight on.
    demand
        Factor on what users want.
    transfer_s
        Mean length of a transfer, and of the time between two.
    failures_per_day, failure_min
        Failures of a gateway in a day, and their mean length.
    pauses_per_day, pause_min
        Announced pauses of a gateway in a day, and their mean length.
    """

    title: str = ""
    gateways: int = 50
    users: int = 2000
    known: int = 16
    hop_bps: float = 60e6
    scheme: Scheme = "selector"
    policy: Mapping[str, float] = field(default_factory=dict)
    hours: float = 24.0
    demand: float = 1.0
    transfer_s: float = 120.0
    failures_per_day: float = 1.0
    failure_min: float = 10.0
    pauses_per_day: float = 0.5
    pause_min: float = 60.0

    def to_json(self) -> str:
        """All fields."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The community that `to_json` wrote."""
        return cls(**json.loads(text))

    def key(self) -> str:
        """Hash of everything that decides the result of a run, but the seed.

        Raises
        ------
        ValueError
            If the community cannot be run.
        """
        canonical = _core.community_fields(self._fields())
        return hashlib.sha256(f"{canonical} {_core.COMMUNITY_ENGINE}".encode()).hexdigest()

    def run(self, seed: int = 1, cancel: Cancel | None = None) -> CommunityRun:
        """Plays the community. The same community and seed give the same result, bit by bit.

        Raises
        ------
        ValueError
            If the community cannot be run; the text says which field is wrong.
        CancelledError
            If `cancel` was set.
        """
        return CommunityRun.from_dict(json.loads(_core.community(self._fields(), seed, cancel)))

    def _fields(self) -> str:
        fields = asdict(self)
        del fields["title"]
        return json.dumps(fields)


@dataclass(frozen=True, repr=False)
class Hour(Shown):
    """Means of an hour of the day: what users wanted, what open gateways had to spare, the upper
    bound of what one gateway for each user could have given, what users got (bit/s), and moves of
    a user in an hour of use."""

    wanted_bps: float
    spare_bps: float
    bound_bps: float
    served_bps: float
    moves: float


@dataclass(frozen=True, repr=False)
class CommunityRun(Shown):
    """What a run found.

    Attributes
    ----------
    user_hours
        Hours that users spent in sessions.
    moves_per_user_hour, moves_better, moves_forced
        Changes of gateway within sessions: of a user in an hour of use; those for a better
        gateway; those because the one before was gone.
    arrivals_most
        The most users that moved to one gateway within a minute.
    found, feasible
        What users got, and what one gateway for each user surely could have given, over the upper
        bound of the latter.
    demand
        What users wanted over the spare capacity of open gateways.
    jain, least_tenth
        Jain's index over users, and the tenth percentile, of what they got of what they wanted.
    rtt_s
        Mean round trip to the gateway in use.
    failures, affected
        Failures of gateways, and users that were transferring through them.
    outage_mean_s, outage_p95_s, outage_most_s
        Seconds without service of such a user.
    after_over_before
        Rate of such a user in the first step with service, over the rate before the failure.
    without_service
        Part of the time of transfers in which a user had no service, though it knew an open
        gateway.
    beyond_spare_bps
        The most by which neighbours exceeded the spare capacity of a home.
    hours
        Hour by hour.
    """

    user_hours: float
    moves_per_user_hour: float
    moves_better: int
    moves_forced: int
    arrivals_most: int
    found: float
    feasible: float
    demand: float
    jain: float
    least_tenth: float
    rtt_s: float
    failures: int
    affected: int
    outage_mean_s: float
    outage_p95_s: float
    outage_most_s: float
    after_over_before: float
    without_service: float
    beyond_spare_bps: float
    hours: list[Hour]

    @classmethod
    def from_dict(cls, report: dict[str, Any]) -> Self:
        """The run with this report."""
        return cls(**{**report, "hours": [Hour(**hour) for hour in report["hours"]]})

    def plot(self, **options: Any) -> Figure:
        """Draws the hours with matplotlib: what users wanted and got, what was to spare, and
        changes of gateway.

        Parameters
        ----------
        **options
            ``dark`` (ground) and ``size`` (inches), as `leeway.plotting.community` has them.

        Raises
        ------
        ImportError
            If matplotlib is not installed, which the extra ``lab`` brings.
        """
        from leeway import plotting

        return plotting.community(self, **options)

    def encode(self) -> bytes:
        """The run as bytes: for a cache, or to send."""
        return encoding.pack(json.dumps(asdict(self)).encode(), _NO_SERIES, _NO_SERIES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The run of these bytes, which `encode` made.

        Raises
        ------
        ValueError
            If they are not the bytes of a run, or are damaged.
        """
        summary, _, _ = encoding.unpack(data)
        return cls.from_dict(json.loads(summary))
