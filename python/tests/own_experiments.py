"""Experiments for the tests of the command line."""

from leeway import Channel, Dumbbell, Flow, Scenario
from leeway.lab import Case, Claim, Figure, Interval, Outcome, Setting, Table, experiment


def beside(law: str, duration: str = "2 s") -> Scenario:
    return Scenario(
        title=f"newreno beside {law}",
        duration=duration,
        dumbbell=Dumbbell(bottleneck=Channel(rate="5 Mbit/s", delay="10 ms", buffer="20 pkt")),
        flow=[
            Flow(name="tcp", start={"uniform": ["0 s", "500 ms"]}),
            Flow(name="lbe", law=law, role="background", start={"uniform": ["0 s", "500 ms"]}),
        ],
    )


@experiment("own:share", title="What a law leaves to NewReno")
def share(setting: Setting):
    """NewReno beside LEDBAT and FLOWER at 5 Mbit/s."""
    results = yield [
        Case(beside(law), seed, {"law": law})
        for law in ("ledbat", "flower")
        for seed in setting.seeds(quick=3, full=10)
    ]
    shares = {law: each.interval(lambda run: run.window().group("tcp").share) for (law,), each in results.groups("law")}

    def draw(canvas):
        axes = canvas.add_subplot()
        axes.bar(list(shares), [each.mean for each in shares.values()])

    return Outcome(
        claims=[
            Claim.number("NewReno's share beside LEDBAT", "0.9", shares["ledbat"], accept=(-9, 9)),
            Claim.open("NewReno's share beside FLOWER", shares["flower"]),
        ],
        figures=[Figure("fig 1", "Shares of NewReno", draw)],
        tables=[Table("shares", "Shares", ["law", "share"], [[law, each] for law, each in shares.items()])],
    )


@experiment("own:differs", title="A claim that differs, and nobody knows why")
def differs(setting: Setting):
    yield []
    return Outcome(claims=[Claim.number("the answer", "42", Interval(41.0, 0.5, 3), accept=(42, 42))])


@experiment("own:explained", title="A claim that differs, and it is known why")
def explained(setting: Setting):
    yield []
    return Outcome(claims=[Claim.fact("it rains", "yes", "no", False, why="own:share: it is dry")])


@experiment("other:fails", title="An experiment that fails")
def fails(setting: Setting):
    results = yield [Case(beside("cubic"))]
    raise RuntimeError(f"{len(results)} is too few")


@experiment("other:many", title="Many runs")
def many(setting: Setting):
    results = yield [Case(beside("ledbat", "60 s"), seed) for seed in setting.seeds(quick=60, full=20_000)]
    return Outcome(claims=[Claim.open("share", results.interval(lambda run: run.window().group("tcp").share))])
