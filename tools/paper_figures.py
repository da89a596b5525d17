"""Draws the figures of docs/ebb-paper.md: from runs of the simulator, boards, and a table of docs/live.md.

usage: paper_figures.py BOARDS PICTURES

BOARDS has the output of `leeway-lab run scoreboard:...` in folders `literature`, `real` and `wide`; `tools/paper.sh`
makes them. The figures are written into PICTURES as ebb-*.svg.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

import leeway
from leeway import Channel, Dumbbell, Flow, Scenario, Series
from leeway.lab import Figure
from leeway.lab.figures import svg
from leeway.papers.common import PALETTE, frame, history, queue_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LIVE = Path(__file__).resolve().parent.parent / "docs" / "live.md"
BOARDS = {"literature": "all", "real": "real", "wide": "wide"}
PHASES = {"slow_start": "teal", "avoidance": "green", "inference": "orange", "yielding": "red"}
NAMES = {"slow_start": "begin", "avoidance": "fill", "inference": "check", "yielding": "yield"}
MARGIN = 0.2
"""Harm above this fails, as on the boards."""


def line(flows: list[Flow], duration: str) -> leeway.Run:
    """10 Mbit/s, 50 ms, a buffer of 2 BDP: the base network of docs/live.md, with Linux at both ends."""
    bottleneck = Channel(rate="10 Mbit/s", delay="25 ms", buffer="125 kB")
    scenario = Scenario(
        duration=duration,
        profile="linux",
        dumbbell=Dumbbell(bottleneck=bottleneck),
        flow=flows,
        series=Series(every="50 ms"),
    )
    return leeway.run(scenario, seed=1)


def visit() -> Figure:
    """A CUBIC download comes and goes."""
    run = line(
        [
            Flow(name="ebb", law="ebb", role="background"),
            Flow(name="cubic", law="cubic", intervals=[["20 s", "40 s"]]),
        ],
        "60 s",
    )
    table = run.flows.filter(pc.equal(pc.cast(run.flows["flow"], "string"), "ebb"))
    phase = np.array(pc.cast(table["phase"], "string").to_pylist())

    def draw(canvas: Canvas) -> None:
        rates, windows, queues = canvas.subplots(3, 1, sharex=True)
        own, other = history(run, "ebb"), history(run, "cubic")
        rates.plot(own.time, smooth(own.rate) / 1e6, color=PALETTE["blue"], label="ebb")
        rates.plot(other.time, smooth(other.rate) / 1e6, color=PALETTE["orange"], label="CUBIC")
        frame(rates, "", "Mbit/s", ylim=(0, 11))
        for name, colour in PHASES.items():
            there = phase == name
            windows.fill_between(
                own.time, 0.01, 100, where=there, color=PALETTE[colour], alpha=0.3, linewidth=0, label=NAMES[name]
            )
        windows.plot(own.time, own.cwnd, color=PALETTE["blue"])
        windows.set_yscale("log")
        frame(windows, "", "window (packets)", ylim=(0.01, 100), legend=False)
        windows.legend(frameon=False, fontsize="small", ncols=4, loc="lower right", bbox_to_anchor=(1, 1))
        time, packets = queue_history(run)
        queues.plot(time, packets * 1500 * 8 / 10e6 * 1e3, color=PALETTE["grey"])
        frame(queues, "time (s)", "queue (ms)", xlim=(0, 60), ylim=(0, 110))
        canvas.tight_layout()

    words = "Rates, the window and phases of ebb, and the queue, while a CUBIC download comes at 20 s and goes at 40 s."
    return Figure("visit", words, draw, (8.0, 6.0))


def smooth(rate: np.ndarray, over: int = 10) -> np.ndarray:
    """A moving mean."""
    return np.convolve(rate, np.ones(over) / over, mode="same")


def two() -> Figure:
    """A second background flow comes 20 s late."""
    laws = {"ebb": "ebb", "LEDBAT (25 ms)": "ledbat:target=25ms"}
    runs = {
        name: line([Flow(name="first", law=law), Flow(name="second", law=law, start="20 s")], "80 s")
        for name, law in laws.items()
    }

    def draw(canvas: Canvas) -> None:
        for axes, (name, run) in zip(canvas.subplots(1, 2, sharey=True), runs.items(), strict=True):
            for flow, colour in (("first", "blue"), ("second", "purple")):
                past = history(run, flow)
                axes.plot(past.time, smooth(past.rate, 20) / 1e6, color=PALETTE[colour], label=flow)
            frame(axes, "time (s)", "Mbit/s" if name == "ebb" else "", (0, 80), (0, 11), title=name)
        canvas.tight_layout()

    return Figure("two", "Rates of two flows of a kind, of which the second starts at 20 s.", draw, (8.0, 2.8))


def harm(folder: Path, columns: list[str]) -> np.ndarray:
    """The largest harm of these columns on each network, sorted."""
    found = []
    with (folder / "details-ebb.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            values = [float(row[name]) for name in columns if row.get(name, "-") not in ("", "-")]
            if values:
                found.append(max(values))
    return np.sort(np.array(found))


def boards(folder: Path) -> Figure:
    """Harm on each network of three boards."""
    kinds = {"bulk traffic": ["harm to NewReno", "harm to CUBIC", "harm to BBR"], "the web": ["harm to answers"]}
    found = {
        kind: {name: harm(folder / name / "scoreboard" / board, columns) for name, board in BOARDS.items()}
        for kind, columns in kinds.items()
    }

    def draw(canvas: Canvas) -> None:
        for axes, (kind, lines) in zip(canvas.subplots(1, 2, sharey=True), found.items(), strict=True):
            axes.axvline(MARGIN, color=PALETTE["grey"], linestyle=":", linewidth=1.2)
            for colour, (name, values) in zip(("blue", "green", "orange"), lines.items(), strict=True):
                part = np.arange(1, len(values) + 1) / len(values)
                axes.step(values, part, where="post", color=PALETTE[colour], label=f"{name} ({len(values)})")
            frame(axes, f"harm to {kind}", "part of the networks", (0, 1), (0, 1.02))
        canvas.tight_layout()

    words = "Part of the networks with no more than this harm, on three boards; the dotted line is the margin of 0.2."
    return Figure("boards", words, draw, (8.0, 3.2))


def kept() -> dict[str, dict[str, tuple[float, float]]]:
    """What the primary keeps on each network, by law: live and simulated (%), from the table of docs/live.md."""
    text = LIVE.read_text(encoding="utf-8")
    table = text.split("<!-- keeps -->")[1].split("<!-- end -->")[0].strip().splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    pair = re.compile(r"([\d.]+) \(([\d.]+)\)")
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in cells[2:]:
        for law, cell in zip(cells[0][1:], row[1:], strict=True):
            if match := pair.fullmatch(cell):
                found.setdefault(law.strip("`"), {})[row[0]] = (float(match[1]), float(match[2]))
    return found


def live() -> Figure:
    """What the kernel's CUBIC keeps beside ebb and LEDBAT."""
    found = kept()
    laws = {"ebb": ("ebb", "blue"), "ledbat:target=25ms": ("LEDBAT (25 ms)", "orange")}
    places = list(found["ebb"])

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for shift, (law, (name, colour)) in enumerate(laws.items()):
            at = np.arange(len(places)) + 0.4 * shift - 0.2
            axes.bar(at, [found[law][place][0] for place in places], 0.38, color=PALETTE[colour], label=name)
            there = [found[law][place][1] for place in places]
            axes.plot(at, there, "_", color=PALETTE["grey"], markersize=11, markeredgewidth=2)
        axes.plot([], [], "_", color=PALETTE["grey"], markersize=11, markeredgewidth=2, label="simulated")
        axes.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize="small")
        frame(axes, "", "the primary keeps (%)", ylim=(0, 119))
        axes.legend(frameon=False, fontsize="small", ncols=3, loc="upper left")
        canvas.tight_layout()

    words = "What the kernel's CUBIC keeps on real TCP beside ebb and beside LEDBAT, and the simulator's value."
    return Figure("live", words, draw, (8.0, 3.4))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, pictures = Path(sys.argv[1]), Path(sys.argv[2])
    missing = [name for name in BOARDS if not (folder / name).is_dir()]
    if missing:
        print(f"{folder} has no {', '.join(missing)}: run tools/paper.sh", file=sys.stderr)
        return 1
    for figure in (visit(), two(), boards(folder), live()):
        (pictures / f"ebb-{figure.name}.svg").write_text(svg(figure), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
