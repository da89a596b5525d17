#!/usr/bin/env python3
"""Opens a page in a headless Chromium, at the width of a desk or of a phone: checks it, or takes its picture.

`check` fails if a page scrolls sideways at one of the widths, or one of its scripts fails. `picture` shows it from an
anchor on, light or dark. Needs Chromium (Debian: chromium). The page is shown in a frame, because a headless window
cannot be as narrow as a phone.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PROBE = """<!doctype html><meta charset="utf-8"><body><pre id="found"></pre>
<iframe id="frame" style="width:WIDTHpx;height:800px;border:0" srcdoc="PAGE"></iframe>
<script>
document.getElementById("frame").addEventListener("load", event => {
  const view = event.target.contentWindow, page = view.document.documentElement;
  const scrolls = e => e && e !== page && e !== view.document.body
    && (/auto|scroll|hidden/.test(view.getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const wide = [...page.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > WIDTH + 1)
    .filter(e => !scrolls(e)).filter(e => view.getComputedStyle(e).position !== "absolute");
  document.getElementById("found").textContent = JSON.stringify({
    width: page.scrollWidth, height: page.scrollHeight, errors: view.failures,
    wide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
  });
});
</script>
"""
LISTEN = "<script>window.failures = []; onerror = message => { window.failures.push(String(message)); };</script>"
SHOW = """<!doctype html><body style="margin:0"><iframe style="width:{}px;height:{}px;border:0" src="{}"></iframe>"""


def main() -> int:
    """Carries out the command line; returns 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chromium", default="chromium", help="the program (default: chromium)")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("check")
    command.add_argument("pages", nargs="+", type=Path)
    command.add_argument("--widths", default="360,390,768,1280", help="pixels (default: %(default)s)")
    command.set_defaults(carry_out=check)
    command = commands.add_parser("picture")
    command.add_argument("page", type=Path)
    command.add_argument("png", type=Path)
    command.add_argument("--anchor", default="top")
    command.add_argument("--width", type=int, default=1280, help="pixels (default: %(default)s)")
    command.add_argument("--height", type=int, default=1000, help="pixels (default: %(default)s)")
    command.add_argument("--theme", choices=["light", "dark"], default="light")
    command.set_defaults(carry_out=picture)
    args = parser.parse_args()
    return args.carry_out(args)


def check(args: argparse.Namespace) -> int:
    """Prints a line for each page and width."""
    bad = 0
    for path in args.pages:
        page = path.read_text(encoding="utf-8").replace("<head>", f"<head>{LISTEN}", 1)
        for width in map(int, args.widths.split(",")):
            probe = PROBE.replace("WIDTH", str(width)).replace("PAGE", html.escape(page))
            dump = browse(args.chromium, probe, (1400, 900), "--virtual-time-budget=10000", "--dump-dom")
            text = re.search(r'<pre id="found">(\{.*?\})</pre>', dump, re.DOTALL)
            if not text:
                raise SystemExit(f"{path}: {width} px: it did not load")
            found = json.loads(html.unescape(text[1]))
            ok = found["width"] <= width and not found["errors"]
            bad += not ok
            print(f"{path}: {width} px: {found['width']} px wide, {found['height']} px high" + ("" if ok else ": BAD"))
            for line in [*found["errors"], *([] if ok else found["wide"])]:
                print(f"  {line}")
    return 1 if bad else 0


def picture(args: argparse.Namespace) -> int:
    """Writes a PNG of the part of the page that fits."""
    address = f"{args.page.resolve().as_uri()}?theme={args.theme}#{args.anchor}"
    page = SHOW.format(args.width, args.height, html.escape(address))
    size = (args.width, args.height)
    if args.width < 500:  # a window is no narrower: what is beside the frame is cut off below
        size = (500, args.height)
    browse(args.chromium, page, size, f"--screenshot={args.png.resolve()}")
    if size[0] != args.width:
        from PIL import Image

        with Image.open(args.png) as image:
            image.crop((0, 0, args.width, args.height)).save(args.png, optimize=True)
    return 0


def browse(chromium: str, page: str, size: tuple[int, int], *options: str) -> str:
    """Opens a page in a window of this size; returns what Chromium prints."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        window = f"--window-size={size[0]},{size[1]}"
        command = [chromium, *OPTIONS, f"--user-data-dir={folder}/profile", window, *options, file.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    sys.exit(main())
