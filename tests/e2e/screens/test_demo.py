"""The demo, as whoever starts it sees it: it could run for days."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from memoryhub.management.demo import airline, week
from memoryhub.management.demo.agents import FORGOTTEN
from tests.e2e.conftest import PATIENCE, Watched
from tests.management.server.test_demo import comes_true, playing

LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in/[\w-]{43}")
#: Of a thread: a story in words, which time it is told, and a fork's.
STORY = re.compile(r"[a-z]+(-[a-z]+)*(-\d+)?(-[a-z]+-try)?")
#: By when each agent is in a later story than its first.
THREADS = 30


@pytest.mark.timeout(300)
def test_the_demo_runs_for_days(chromium: Browser, tmp_path: Path) -> None:
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
    """The diary's last question brings along what was said first."""
    page.goto(f"{home}threads/diary/turns/1")
    brought = page.locator("dl div", has_text="Brought along unasked").first
    assert "1 used" in brought.inner_text()


def one_is_forgotten(page: Page, home: str) -> None:
    page.goto(f"{home}erasures")
    assert "complete" in page.locator("main").inner_text()
    page.goto(f"{home}threads?q=concierge-bob")
    assert not page.get_by_role("link", name="concierge-bob", exact=True).count()


def one_is_remembered(page: Page, home: str) -> None:
    """Told late where it lived before, and what it took back stays struck out."""
    page.goto(f"{home}threads/concierge-bea/facts")
    lanes = page.locator("main").inner_text()
    # At this speed the newest exchanges leave no time for its first ones.
    assert re.search(r"lives_in\s+user · \d+ facts?", lanes)
    assert "Ghent" in page.locator(".lane text").all_text_contents()
    # Two where the model had learnt it as well, before it was taken back.
    assert re.search(r"\b[12] retracted", lanes)
    page.goto(f"{home}threads/concierge-bea/blocks")
    assert "Bea is a guest of the house." in page.locator("main").inner_text()


def one_week_is_observed(page: Page, home: str) -> None:
    """So far that its log was condensed."""
    page.goto(f"{home}threads/{week.THREAD}/observer")
    assert page.get_by_role("region", name="Generations").locator("tbody tr").count()


def names_are_short_stories(page: Page, home: str) -> None:
    page.goto(f"{home}threads")
    found = page.locator(".row .name a").all_inner_texts()
    assert len(found) >= THREADS
    assert [name for name in found if not STORY.fullmatch(name)] == []
    assert max(map(len, found)) < 48


def one_keeps_eight_pages_at_hand(page: Page, home: str) -> None:
    page.goto(f"{home}threads/{airline.THREAD}/paging")
    heading = page.get_by_role("heading", name=re.compile("of 8 entries"))
    expect(heading).to_be_visible()


def nobody_else_was_refused(page: Page, home: str) -> None:
    """But for the agent of the guest who is being forgotten."""
    page.goto(f"{home}refusals")
    codes = page.locator("main tbody th .mono").all_inner_texts()
    assert codes
    assert {*codes} <= {*FORGOTTEN}
