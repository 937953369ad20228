"""Frame of every page: rail, menu of a phone, tabs of a thread."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

PHONE = {"width": 390, "height": 844}
#: Pixels that navigation and header may take of a phone's 844.
HEADER = 96


@pytest.fixture
def talk(agent: Agent) -> None:
    factories.make_thread(agent, "red-1")
    factories.append(agent, "red-1", "hello", "again")


@pytest.mark.parametrize("scripts", [True, False])
def test_phone_menu_opens_with_and_without_scripts(
    talk: None, open_page: Callable[..., Page], scripts: bool
) -> None:
    page = open_page(viewport=PHONE, java_script_enabled=scripts)
    page.goto("/p/acme/threads/red-1")
    rail = page.get_by_role("navigation", name="Project acme")
    expect(rail).to_be_hidden()
    main = page.locator("main").bounding_box()
    assert main
    assert main["y"] <= HEADER
    page.get_by_role("button", name="Menu").click()
    expect(rail).to_be_visible()
    rail.get_by_role("link", name="Health").click()
    expect(page).to_have_url(re.compile("/p/acme/health$"))


def test_views_and_pins_stay_in_the_browser(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto("/p/acme/threads/red-1")
    page.get_by_role("button", name="Pin", exact=True).click()
    page.goto("/p/acme/threads?q=status:open&sort=tokens")
    page.get_by_text("Save view").click()
    page.get_by_label("Name").fill("Large ones")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="Pinned 1").click()
    expect(page.locator("a[data-row]")).to_have_attribute("title", "red-1")
    page.get_by_role("link", name="Large ones").click()
    expect(page).to_have_url(re.compile(r"\?q=status%3Aopen&sort=tokens$"))
    page.get_by_role("button", name="Forget the view Large ones").click()
    expect(page.get_by_role("link", name="Large ones")).to_have_count(0)


def test_every_thread_view_is_two_clicks_away_at_its_event(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/p/acme/threads/red-1?at_seq=2")
    tabs = page.get_by_role("navigation", name="Views of this thread")
    *names, person = tabs.get_by_role("link").all_text_contents()
    assert names == ["Replay", "Turns", "Paging", "Memory", "Branches"]
    assert person == "Person's memory"
    seen = set[str]()
    for name in names:
        tabs.get_by_role("link", name=name, exact=True).click()
        expect(tabs.locator("[aria-current=page]")).to_have_text(name)
        views = page.get_by_role("navigation", name=name, exact=True)
        seen |= {
            link.get_attribute("href") or "" for link in views.get_by_role("link").all()
        }
    # A person's memory is that of all threads, and has moments of its own.
    seen = {address for address in seen if "/subjects/" not in address}
    assert {address for address in seen if not address.endswith("?at_seq=2")} == set()
    assert len(seen) >= len(names)


def test_thread_menu_leads_to_retention_and_close(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/p/acme/threads/red-1")
    page.locator("summary[aria-label^=More]").click()
    expect(page.get_by_role("link", name="Retention")).to_be_visible()
    page.get_by_role("link", name="Close").click()
    expect(page.get_by_role("heading", name="Close red-1")).to_be_visible()
