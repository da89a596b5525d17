"""Draws a picture of rates and queuing delay from a report that `leeway sim --out` has written.

usage: picture.py REPORT.html PICTURE.svg

A column for each point of the report's sweep over a law, a row for the rates of the flows, background first, and one
for the queuing delay.
"""

import json
import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LEFT, RIGHT, GAP = 860, 52, 14, 34
TOP, ROW, ROW_GAP, BOTTOM = 46, 130, 34, 40
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #45443f }
.title { font-weight: 600; font-size: 14px; fill: #1b1b19 }
.axis { stroke: #c8c6bf; stroke-width: 1 }
.grid { stroke: #e7e5df; stroke-width: 1 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.background { stroke: #2a78d6 } .background-text { fill: #1c5cab }
.foreground { stroke: #d9622b } .foreground-text { fill: #a84416 }
.queue { stroke: #6b6a64 }
@media (prefers-color-scheme: dark) {
  text { fill: #c3c2bb } .title { fill: #f4f3ee }
  .axis { stroke: #55544f } .grid { stroke: #34342f }
  .background { stroke: #5b9bea } .background-text { fill: #86b6ef }
  .foreground { stroke: #e8804f } .foreground-text { fill: #f0a17c }
  .queue { stroke: #a3a29b }
}
"""


@dataclass
class Panel:
    """A coordinate system on the page: seconds to the right, values up to `top`."""

    x: float
    y: float
    width: float
    seconds: float
    top: float

    def line(self, times: list[float], values: list[float | None], kind: str) -> str:
        points = [
            f"{self.x + time / self.seconds * self.width:.1f},{self.y + ROW * (1 - value / self.top):.1f}"
            for time, value in zip(times, values, strict=True)
            if value is not None
        ]
        return f'<polyline class="line {kind}" points="{" ".join(points)}"/>'

    def frame(self, ticks: list[int], last: bool) -> list[str]:
        parts = []
        for tick in ticks:
            y = self.y + ROW * (1 - tick / self.top)
            kind = "grid" if tick else "axis"
            parts.append(f'<path class="{kind}" d="M{self.x} {y:.1f}h{self.width:.1f}"/>')
            parts.append(text(self.x - 7, y + 4, str(tick), "end"))
        if last:
            for second in range(0, int(self.seconds) + 1, 20):
                x = self.x + second / self.seconds * self.width
                label = f"{second} s" if second else "0"
                parts.append(text(x, self.y + ROW + 18, label, "middle"))
        return parts


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    if not found:
        print(f"{sys.argv[1]} is not a report of leeway", file=sys.stderr)
        return 1
    Path(sys.argv[2]).write_text(picture(json.loads(found.group(1))["points"]), encoding="utf-8")
    return 0


def picture(points: list[dict[str, Any]]) -> str:
    height = TOP + 2 * ROW + ROW_GAP + BOTTOM
    width = (WIDTH - LEFT - RIGHT - GAP * (len(points) - 1)) / len(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(points[0]['title'])}</title>",
        f"<style>{STYLE}</style>",
    ]
    for i, point in enumerate(points):
        parts += column(point, LEFT + i * (width + GAP), width)
    return "\n".join([*parts, "</svg>"]) + "\n"


def column(point: dict[str, Any], x: float, width: float) -> list[str]:
    charts, link = point["charts"], point["links"][0]
    times, seconds = charts["time_s"], point["duration_s"]
    rates = Panel(x, TOP, width, seconds, 12)
    delays = Panel(x, TOP + ROW + ROW_GAP, width, seconds, 100)
    parameter, _, law = point["label"].partition(" = ")
    subject, law = parameter.split(".")[1], law.partition(":")[0]
    parts = [text(x, 16, f"The {subject} runs {law}", "start", "title"), *rates.frame([0, 5, 10], False)]
    parts += [text(x, TOP - 8, "rates, Mbit/s", "start"), text(x, delays.y - 8, "queuing delay, ms", "start")]
    # A name stands where its line is: that of the background at the start, the other one's in the middle.
    for flow, kind, place in zip(charts["flows"], ("background", "foreground"), (0.16, 0.5), strict=True):
        values = [None if rate is None else rate / 1e6 for rate in flow["rate_bps"]]
        parts.append(rates.line(times, trimmed(values), kind))
        name = flow["name"].partition(" (")[0]
        parts.append(text(x + place * width, TOP + 12, name, "middle", f"{kind}-text"))
    parts += delays.frame([0, 25, 50, 75, 100], True)
    packet_ms = 1500 * 8e3 / link["rate_bps"]
    parts.append(delays.line(times, [queue * packet_ms for queue in charts["links"][0]["queue_pkt"]], "queue"))
    return parts


def trimmed(values: list[float | None]) -> list[float | None]:
    """Without the end, where a report repeats the last value of a flow that is over."""
    end = len(values)
    while end > 1 and values[end - 2] == values[-1]:
        end -= 1
    return values[:end] + [None] * (len(values) - end)


def text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{css}>{escape(words)}</text>'


if __name__ == "__main__":
    sys.exit(main())
