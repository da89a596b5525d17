"""Figure 3: the second flow starts later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leeway import Run
from leeway.lab import Figure, Interval, Outcome, Setting, Table, experiment
from leeway.papers.common import history
from leeway.papers.rossi2010.drawing import three
from leeway.papers.rossi2010.network import FIG3, judged, twice, two_ledbat, utilisation, window_fairness

if TYPE_CHECKING:
    from leeway.lab.experiment import Steps


@experiment("rossi2010:fig3", title="The second LEDBAT flow starts later")
def fig3(setting: Setting) -> Steps:
    """Two LEDBAT flows, the second later, in (2 s, 40 packets), (10 s, 40 packets), (10 s, 100
    packets).

    Published: (2, 40): same base delay, the first keeps the larger window. (10, 40): the
    late-comer takes over, the first reaches the minimum window slightly after 20 s, a loss about
    25 s drains the queue, afterwards close to fair. (10, 100): no loss, the first flow starves for
    good.
    """
    duration = 60
    results = yield [
        case
        for delay, buffer in FIG3
        for case in twice(
            lambda jitter, delay=delay, buffer=buffer: two_ledbat(delay, buffer, duration, jitter),
            setting,
            case=(delay, buffer),
        )
    ]
    runs = {case: results.one(case=case, starts="published") for case in FIG3}

    def drawn(case: tuple[int, int], metric: Callable[[Run], float]) -> Interval:
        return results.where(case=case, starts="drawn").interval(metric)

    def share(run: Run) -> float:
        return run.windows[0].group("first").share

    def losses(run: Run) -> float:
        return run.windows[0].link().dropped

    def best_late(run: Run) -> float:
        return float(history(run, "first").between(30, duration).cwnd.max())

    close, late, large = FIG3
    apart = history(runs[close], "first"), history(runs[close], "second")
    between = [abs(h.delay[h.time > 5].mean()) for h in apart]
    first, second = history(runs[late], "first"), history(runs[late], "second")
    late_share = second.cwnd_at(20) / (first.cwnd_at(20) + second.cwnd_at(20))
    fair = window_fairness(runs[late], 50)
    return Outcome(
        claims=[
            judged(
                "(2 s, 40): share of the first flow", "> 0.5", share(runs[close]), drawn(close, share), (0.55, 0.95)
            ),
            judged("(2 s, 40): losses", "0", losses(runs[close]), drawn(close, losses), (0, 0)),
            judged(
                "(2 s, 40): difference of the queuing delays that both see",
                "0 (same base delay)",
                abs(between[0] - between[1]),
                None,
                (0, 1),
                "ms",
            ),
            judged("(10 s, 40): late-comer's part of both windows at 20 s", "takes over", late_share, None, (0.8, 1)),
            judged(
                "(10 s, 40): first flow at its minimum",
                "slightly after 20 s",
                first.when(first.cwnd < 1.1, after=10),
                None,
                (20, 23),
                "s",
            ),
            judged("(10 s, 40): a loss", "about 25 s", second.halving(after=12), None, (23, 27), "s"),
            judged(
                "(10 s, 40): Jain's index of the windows at 50 s",
                "close to fair",
                fair,
                drawn(late, lambda run: window_fairness(run, 50)),
                (0.9, 1),
                why="rossi2010:difference-repair: one packet is lost and repaired at once, which only halves the "
                "late-comer; from equal base delays on both grow alike and keep their distance. Repaired by a timeout "
                "they are fair.",
            ),
            judged("(10 s, 100): losses", "0", losses(runs[large]), drawn(large, losses), (0, 0)),
            judged(
                "(10 s, 100): best window of the first flow after 30 s",
                "1 packet (starves)",
                best_late(runs[large]),
                drawn(large, best_late),
                (1, 1.1),
                "packets",
            ),
        ],
        figures=[
            Figure(
                "fig3",
                "Windows and queue when the second LEDBAT flow starts 2 s or 10 s after the first; buffers of 40 and "
                "100 packets.",
                lambda canvas: three(canvas, runs, duration),
                (10.0, 5.2),
            )
        ],
        tables=[
            Table(
                "fig3",
                f"Over {duration} s; starts drawn within 50 ms",
                ("second flow after, buffer", "share of the first", "utilisation", "dropped packets", "F at 50 s"),
                [
                    [
                        f"{case[0]} s, {case[1]} packets",
                        *(
                            drawn(case, metric)
                            for metric in (share, utilisation, losses, lambda run: window_fairness(run, 50))
                        ),
                    ]
                    for case in FIG3
                ],
            )
        ],
        notes=[f"The paper shows 50 s and more; {duration} s are simulated."],
    )
