"""The demo's screens after days, as its first user sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from memoryhub.demo import airline, week
from memoryhub.demo.agents import FORGOTTEN
from tests.e2e.conftest import PATIENCE, Watched
from tests.management.server.test_demo import comes_true, playing

LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in/[\w-]{43}")
#: Thread names: the words of a story, its number, and a fork's suffix.
STORY = re.compile(r"[a-z]+(-[a-z]+)*(-\d+)?(-[a-z]+-try)?")
#: Number of threads by which each agent is past its first story.
THREADS = 30


@pytest.mark.timeout(300)
def test_demo_looks_right_after_days(chromium: Browser, tmp_path: Path) -> None:
    watched = Watched()
    with playing(tmp_path) as said:
        comes_true(lambda: link_in(said()))
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE)
        watched.watch(page)
        page.goto(link_in(said()))
        page.wait_for_url("**/p/*/")
        home = page.url
        comes_true(lambda: one_thrashes(page, home))
        comes_true(lambda: one_recalls_what_left(page, home))
        comes_true(lambda: one_is_forgotten(page, home))
        comes_true(lambda: one_is_remembered(page, home))
        comes_true(lambda: one_week_is_observed(page, home))
        comes_true(lambda: names_are_short_stories(page, home))
        one_keeps_eight_pages_at_hand(page, home)
        comes_true(lambda: nobody_else_was_refused(page, home))
        page.close()
    assert watched.problems == []


def link_in(said: str) -> str:
    found = LINK.search(said)
    assert found
    return found[0]


def one_thrashes(page: Page, home: str) -> None:
    page.goto(f"{home}threads?q=research")
    assert page.locator(".row .badge", has_text="thrashing").count()


def one_recalls_what_left(page: Page, home: str) -> None:
    """Check that the diary's last question recalls its first message."""
    page.goto(f"{home}threads/diary/turns/1")
    brought = page.locator("dl div", has_text="Recalled automatically").first
    assert "1 used" in brought.inner_text()


def one_is_forgotten(page: Page, home: str) -> None:
    page.goto(f"{home}erasures")
    assert "complete" in page.locator("main").inner_text()
    page.goto(f"{home}threads?q=concierge-bob")
    assert not page.get_by_role("link", name="concierge-bob", exact=True).count()


def one_is_remembered(page: Page, home: str) -> None:
    """Check a fact told late about the past, and a retracted, struck-out fact."""
    # Until the agent has begun, its address is a 404, which the browser would log.
    page.goto(f"{home}threads?q=concierge-bea")
    assert page.locator("main a", has_text="concierge-bea").count()
    page.goto(f"{home}threads/concierge-bea/facts")
    lanes = page.locator("main").inner_text()
    # At this speed the model has no time for the thread's first exchanges.
    assert re.search(r"lives_in\s+user · \d+ facts?", lanes)
    assert "Ghent" in [
        text.strip() for text in page.locator(".lane foreignObject").all_text_contents()
    ]
    # Two, if the model had learnt the fact as well before the retraction.
    assert re.search(r"\b[12] retracted", lanes)
    page.get_by_role("link", name="Blocks", exact=True).click()
    assert "Bea is a guest of the house." in page.locator("main").inner_text()


def one_week_is_observed(page: Page, home: str) -> None:
    """Check that observing went so far that the log was condensed."""
    page.goto(f"{home}threads/{week.THREAD}/observer")
    assert page.get_by_role("region", name="Generations").locator("tbody tr").count()


def names_are_short_stories(page: Page, home: str) -> None:
    page.goto(f"{home}threads")
    found = page.locator(".row .name a[data-row]").all_inner_texts()
    assert len(found) >= THREADS
    assert [name for name in found if not STORY.fullmatch(name)] == []
    assert max(map(len, found)) < 48


def one_keeps_eight_pages_at_hand(page: Page, home: str) -> None:
    page.goto(f"{home}threads/{airline.THREAD}/paging")
    heading = page.get_by_role("heading", name=re.compile("of 8 entries"))
    expect(heading).to_be_visible()


def nobody_else_was_refused(page: Page, home: str) -> None:
    """Check that only the agent of the guest who is being forgotten was refused."""
    page.goto(f"{home}refusals")
    codes = page.locator("main tbody th .mono").all_inner_texts()
    assert codes
    assert {*codes} <= {*FORGOTTEN}
