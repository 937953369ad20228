"""The pictures of README and docs/, taken of the demo: `make screenshots`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

from tests.harness.instances import free_port

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "docs"
#: Largest size of a picture in bytes.
MOST_BYTES = 150_000

pytestmark = [pytest.mark.screenshots, pytest.mark.timeout(360)]


@pytest.fixture
def link() -> Iterator[str]:
    """Run a demo for a little while; yield its sign-in link."""
    words = ["demo", "--port", str(free_port()), "--speed", "4"]
    with run_server(*words, env=os.environ) as found:
        yield found


@contextmanager
def run_server(*words: str, env: Mapping[str, str]) -> Iterator[str]:
    """Run a command of `manage.py` that serves; yield the sign-in link it prints."""
    with subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=env,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        links = (re.search(r"http://\S+/sign-in/\S+", line) for line in server.stdout)
        yield next(found[0] for found in links if found)
        server.terminate()


def take_picture(
    page: Page, name: str, *, dark: bool = False, quality: int = 70
) -> None:
    page.emulate_media(color_scheme="dark" if dark else "light")
    where = PICTURES / f"{name}-{'dark' if dark else 'light'}.jpg"
    page.wait_for_timeout(1_500)
    page.screenshot(path=where, type="jpeg", quality=quality)
    assert where.stat().st_size <= MOST_BYTES


def taken_twice(page: Page, name: str) -> None:
    """Take pictures in both themes; reload, since charts read their colours on load."""
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.reload()
        take_picture(page, name, dark=dark)


def lively(page: Page) -> Locator:
    """Return a page of the working set that was fetched lately, else any."""
    back = page.locator(".tile[id]:has(.chip.fault)")
    return (back if back.count() else page.locator(".tile[id]")).first


def open_first_row(page: Page, where: str) -> Locator:
    """Return the first row of a list."""
    page.goto(where)
    line = page.locator("a[data-row]").first
    line.wait_for()
    return line


def of_a_thread(page: Page, threads: str) -> None:
    """Take pictures of a promise that was evicted before the turn that denies it."""
    base = f"{threads}/rebook-lisbon-storm"
    for _ in range(60):
        answer = page.goto(f"{base}/turns/32")
        if answer and answer.ok:
            break
        page.wait_for_timeout(1_000)
    page.goto(f"{base}/turns/31")
    taken_twice(page, "context")
    page.get_by_role("link", name="Open the eviction").click()
    page.locator(".whyout").wait_for()
    taken_twice(page, "timeline")
    page.goto(f"{base}/slots")
    take_picture(page, "conversation")


def of_paging(page: Page, threads: str) -> None:
    """Take pictures of a thread with two topics too large for both to stay."""
    thread = open_first_row(page, f"{threads}?q=agent_type:researcher").get_attribute(
        "href"
    )
    base = f"{threads.split('/p/', maxsplit=1)[0]}{thread}"
    newest = open_first_row(page, f"{base}/turns").inner_text()
    # The turn before the newest tells all that it fetched back.
    n = int(newest.replace(",", "")) - 1
    for name, path in (
        ("working-set", f"?at_turn={n}"),
        ("pages", "/pages?q=tier:L0,L1"),
        ("turns", "/turns"),
        ("turn-diff", f"/turns/{n}/diff?base={n - 2}"),
        ("prefixes", "/prefix"),
        ("paging", "/paging"),
    ):
        page.goto(f"{base}{path}")
        taken_twice(page, name)
    page.goto(f"{base}?at_turn={n}")
    lively(page).click()
    page.locator("h1").wait_for()
    taken_twice(page, "page")


def of_memory(page: Page, threads: str) -> None:
    """Take pictures of the concierge, whose guest changes plans back and forth."""
    base = f"{threads}/concierge-bea"
    for _ in range(60):
        page.goto(f"{base}/checkpoints?auto=1")
        if page.locator("li", has_text="automatic").count():
            break
        page.wait_for_timeout(1_000)
    for name, path in (
        ("checkpoints", "checkpoints?auto=1"),
        ("compare", "compare?values=1"),
        ("notes", "notes"),
    ):
        page.goto(f"{base}/{path}")
        taken_twice(page, name)
    page.goto(f"{base}/keys")
    # A restored thread had its keys before.
    before = page.get_by_role("link", name="the moment before")
    if before.count():
        query = urlsplit(before.get_attribute("href") or "").query
        page.goto(f"{base}/keys?{query}")
    taken_twice(page, "keys")


def of_privacy(page: Page, threads: str) -> None:
    """Take pictures of the concierge's first guest, who was forgotten meanwhile."""
    hub = threads.removesuffix("/threads")
    open_first_row(page, f"{hub}/receipts").click()
    page.locator("h1").wait_for()
    taken_twice(page, "receipt")
    open_first_row(page, f"{hub}/erasures").click()
    page.locator("h1").wait_for()
    taken_twice(page, "erasure")


def test_readme_and_docs_pictures_are_taken(link: str) -> None:
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
        hub = page.url.rstrip("/")
        threads = f"{hub}/threads"
        open_first_row(page, f"{threads}?sort=slots")
        page.wait_for_timeout(20_000)
        page.reload()
        take_picture(page, "threads")
        of_a_thread(page, threads)
        of_paging(page, threads)
        page.goto(f"{hub}/?range=15m")
        taken_twice(page, "overview")
        of_memory(page, threads)
        of_privacy(page, threads)
        browser.close()
