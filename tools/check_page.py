#!/usr/bin/env python3
"""Opens a page in a headless Chromium and checks that no width makes it scroll sideways, and that no script fails.

usage: tools/check_page.py PAGE... [--widths 360,390,768,1280] [--chromium PROGRAM]

Needs Chromium (Debian: chromium). The page is shown in a frame of each width, because a headless window cannot be as
narrow as a phone.
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

PROBE = """
<!doctype html><meta charset="utf-8"><body><pre id="found"></pre>
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


def probe(page: str, width: int, chromium: str) -> dict:
    """What a frame of this width shows."""
    text = page.replace("<head>", f"<head>{LISTEN}", 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "probe.html"
        file.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", html.escape(text)), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        options += ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder}/profile"]
        dump = subprocess.run(
            [chromium, *options, "--window-size=1400,900", "--virtual-time-budget=10000", "--dump-dom", file.as_uri()],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout
    found = re.search(r'<pre id="found">(\{.*?\})</pre>', dump, re.DOTALL)
    if not found:
        raise RuntimeError("the page did not load")
    return json.loads(html.unescape(found[1]))


def main() -> int:
    """Prints a line for each page and width; fails if one is too wide or a script failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--widths", default="360,390,768,1280")
    parser.add_argument("--chromium", default="chromium")
    args = parser.parse_args()
    bad = 0
    for path in args.pages:
        page = path.read_text(encoding="utf-8")
        for width in map(int, args.widths.split(",")):
            found = probe(page, width, args.chromium)
            ok = found["width"] <= width and not found["errors"]
            bad += not ok
            print(f"{path}: {width} px: {found['width']} px wide, {found['height']} px high" + ("" if ok else ": BAD"))
            for line in [*found["errors"], *(found["wide"] if not ok else [])]:
                print(f"  {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
