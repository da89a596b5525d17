"""The report of a simulation in a real browser: usage report.py CHROMIUM REPORT.html

What the background does to others is told in words and in the first columns, seen without
scrolling at 1280 px; each term has an explanation; a button changes the colours, and keeps them.
"""

import sys
from pathlib import Path

from browser import looks, opened
from playwright.sync_api import expect

chromium, report = sys.argv[1], Path(sys.argv[2]).resolve()


def harm_comes_first(page) -> None:
    tables = page.locator("table", has=page.locator("th", has_text="harm"))
    assert tables.count() > 0, "no table has a column of harm"
    for table in tables.all():
        heads = table.locator("thead th")
        texts = heads.all_inner_texts()
        # Behind the flows and their law.
        assert texts[2].startswith("harm"), texts
        harm = texts.index("throughput")
        for at, head in enumerate(heads.all()[1:], start=1):
            assert head.locator("[title]").count() == 1, f"{texts[at]} is not explained"
            box = head.bounding_box()
            assert at >= harm or box["x"] + box["width"] <= 1280, (texts[at], box)


def colours_change(page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    button = page.get_by_role("button", name="Dark")
    light = page.evaluate(background)
    button.click()
    expect(page.get_by_role("button", name="Light")).to_be_visible()
    assert page.evaluate(background) != light
    looks(page)
    page.reload()
    expect(page.get_by_role("button", name="Light")).to_be_visible()
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(background) == light


def main() -> None:
    with opened(chromium) as (_, context):
        page = context.new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(report.as_uri())
        expect(page.get_by_text("gives way").first).to_be_visible()
        harm_comes_first(page)
        looks(page)
        colours_change(page)
        assert not faults, faults
    print("ok")


main()
