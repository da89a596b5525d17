"""Chromium for the tests of pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

# The function without the comment before it.
LOOKS = Path(__file__).with_name("looks.js").read_text(encoding="utf-8").partition("\n")[2].rstrip(";\n")
expect.set_options(timeout=30_000)


def looks(page) -> None:
    """Everything can be read and named, and nothing is wider than the window."""
    wrong = page.evaluate(LOOKS)
    assert not wrong, wrong


@contextmanager
def opened(chromium: str) -> Iterator[tuple[Browser, BrowserContext]]:
    """A browser of somebody in Britain, 1280 px wide and light."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        viewport = {"width": 1280, "height": 900}
        context = browser.new_context(locale="en-GB", viewport=viewport, color_scheme="light")
        # A browser's first page takes long on a busy machine.
        context.set_default_navigation_timeout(120_000)
        yield browser, context
        browser.close()
