"""Draws the crates and who uses whom, from the manifests of the workspace.

usage: architecture.py PICTURE.svg

A crate stands one floor above the highest crate that it uses. An arrow is left out where another path of arrows
leads to the same crate.
"""

import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH, BOX, HEIGHT, ROW, TOP = 860, 118, 46, 96, 16
# What a crate is, in the words that fit into its box.
WORDS = {
    "accounts": "ledger and caps",
    "cli": "the program",
    "community": "users, gateways",
    "control": "laws (C)",
    "emulator": "links, real time",
    "explain": "errors in words",
    "gateway": "the proxy",
    "kernel": "laws as eBPF",
    "link": "rate, loss, delay",
    "net": "ip, nft, netlink",
    "python": "package and lab",
    "queue": "disciplines",
    "quinn": "laws for quinn",
    "selection": "which gateway",
    "share": "who may send",
    "sim": "virtual time",
    "testbed": "a shared line",
    "tunnel": "IP over QUIC",
    "units": "time, data, rate",
    "utp": "uTP, BEP 29",
    "utp-c": "in libutp's place",
}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #45443f; text-anchor: middle }
.name { font-weight: 600; font-size: 14px; fill: #1b1b19 }
.floor { text-anchor: start; fill: #6b6a64 }
.box { fill: #e3f1ef; stroke: #00897b; stroke-width: 1.2 }
.clockless { fill: #eef3fb; stroke: #2a78d6 }
.arrow { fill: none; stroke: #a3a29b; stroke-width: 1.2 }
.head { fill: #a3a29b }
.band { fill: #f4f3ee }
"""
# Crates without a clock, a socket, a file or a random device: time, packets and seeds are arguments.
CLOCKLESS = {"units", "control", "queue", "link", "share", "selection"}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    Path(sys.argv[1]).write_text(drawing(uses()), encoding="utf-8")
    return 0


def uses() -> dict[str, set[str]]:
    """Each crate with the crates of the workspace that it is built of."""
    manifests = [*sorted((ROOT / "crates").glob("*/Cargo.toml")), ROOT / "python/Cargo.toml"]
    found = {}
    for manifest in manifests:
        needed = tomllib.loads(manifest.read_text(encoding="utf-8")).get("dependencies", {})
        names = {one.get("package", name) if isinstance(one, dict) else name for name, one in needed.items()}
        found[manifest.parent.name] = {name.removeprefix("leeway-") for name in names if name.startswith("leeway-")}
    return found


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    found: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((floor(used) for used in graph[name]), default=-1)
        return found[name]

    for name in graph:
        floor(name)
    return found


def reachable(graph: dict[str, set[str]], name: str) -> set[str]:
    return graph[name].union(*(reachable(graph, used) for used in graph[name]))


def arrows(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Who uses whom, without what follows from other arrows."""
    return [
        (name, used)
        for name, needed in sorted(graph.items())
        for used in sorted(needed)
        if not any(used in reachable(graph, other) for other in needed - {used})
    ]


def places(graph: dict[str, set[str]], floor: dict[str, int]) -> dict[str, tuple[float, float]]:
    """The middle of each box; on a floor, crates stand near those that they use."""
    place: dict[str, tuple[float, float]] = {}
    highest = max(floor.values())
    for level in range(highest + 1):
        row = [name for name in graph if floor[name] == level]

        def wanted(name: str) -> tuple[float, str]:
            below = [place[used][0] for used in graph[name]]
            return (sum(below) / len(below) if below else WIDTH / 2, name)

        row.sort(key=wanted)
        left, step = 90, (WIDTH - 110) / len(row)
        for index, name in enumerate(row):
            place[name] = (left + step * (index + 0.5), TOP + (highest - level) * ROW + HEIGHT / 2)
    return place


def drawing(graph: dict[str, set[str]]) -> str:
    floor = floors(graph)
    place = places(graph, floor)
    highest = max(floor.values())
    height = TOP + highest * ROW + HEIGHT + TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        "<title>The crates of Leeway and who uses whom</title>",
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path class="head" d="M0,0 8,4 0,8z"/></marker>',
    ]
    for level in range(highest + 1):
        y = TOP + (highest - level) * ROW
        lines.append(f'<rect class="band" x="0" y="{y - 8}" width="{WIDTH}" height="{HEIGHT + 16}" rx="6"/>')
        words = f"floor {level}" if level else "ground"
        lines.append(f'<text class="floor" x="10" y="{y + HEIGHT / 2 + 4:.0f}">{words}</text>')
    for name, used in arrows(graph):
        (x1, y1), (x2, y2) = place[name], place[used]
        y1, y2 = y1 + HEIGHT / 2, y2 - HEIGHT / 2 - 1
        bend = (y2 - y1) / 2
        curve = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}"
        lines.append(f'<path class="arrow" d="{curve}" marker-end="url(#head)"/>')
    for name, (x, y) in sorted(place.items()):
        kind = "box clockless" if name in CLOCKLESS else "box"
        corner = f'x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}"'
        lines += [
            f'<rect class="{kind}" {corner} width="{BOX}" height="{HEIGHT}" rx="6"/>',
            f'<text class="name" x="{x:.0f}" y="{y - 3:.0f}">{escape(name)}</text>',
            f'<text x="{x:.0f}" y="{y + 14:.0f}">{escape(WORDS.get(name, ""))}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
