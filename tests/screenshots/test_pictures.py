"""The README's pictures, taken of the demo: `make screenshots`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from memoryhub.management import server as serving

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "docs"
#: What the README may weigh, per picture.
MOST_BYTES = 150_000

pytestmark = [pytest.mark.screenshots, pytest.mark.timeout(240)]


@pytest.fixture
def link() -> Iterator[str]:
    """The sign-in link of a demo that has been running for a little while."""
    bound = serving.bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    bound.close()
    words = ["manage.py", "demo", "--port", str(port), "--speed", "4"]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        said = (re.search(r"http://\S+/sign-in/\S+", line) for line in demo.stdout)
        yield next(found[0] for found in said if found)
        demo.terminate()


def taken(page: Page, name: str, *, dark: bool = False) -> None:
    page.emulate_media(color_scheme="dark" if dark else "light")
    where = PICTURES / f"{name}.jpg"
    page.wait_for_timeout(1_500)
    page.screenshot(path=where, type="jpeg", quality=70)
    assert where.stat().st_size <= MOST_BYTES


def test_the_readmes_pictures(link: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium")
    assert chromium, "no chromium on PATH"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(link)
        page.wait_for_url("**/p/**")
        threads = page.url.rstrip("/") + "/threads"
        page.goto(f"{threads}?sort=slots")
        page.locator("a[data-row]").first.wait_for()
        page.wait_for_timeout(20_000)
        page.reload()
        taken(page, "threads-light")
        page.locator("a[data-row]").first.click()
        page.locator("#events").wait_for()
        timeline = page.url
        head = int(page.locator("#events").get_attribute("data-seq") or 20)
        page.goto(f"{timeline}?at_seq={max(head - 9, 1)}")
        taken(page, "timeline-light")
        taken(page, "timeline-dark", dark=True)
        page.goto(f"{timeline}/slots")
        taken(page, "conversation-light")
        browser.close()
