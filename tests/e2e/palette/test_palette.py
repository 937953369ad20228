"""The palette by the keyboard alone, and without a script."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import Watched


@pytest.fixture
def talk(agent: Agent) -> None:
    factories.make_thread(agent, "group-booking-choir")
    factories.make_thread(agent, "rebook-lisbon-storm")
    factories.append(agent, "rebook-lisbon-storm", *(f"message {n}" for n in range(5)))


def test_palette_opens_a_thread_by_keyboard(
    talk: None, page: Page, watched: Watched
) -> None:
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Search and go to")).to_be_focused()
    expect(dialog).to_contain_text("Recent threads")
    page.keyboard.type("lisbon")
    expect(dialog.locator("mark").first).to_have_text("lisbon")
    page.keyboard.press("ArrowDown")
    expect(dialog.locator(".hit").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/threads/rebook-lisbon-storm")
    # No address contains the typed words.
    assert not [url for url in watched.urls if "q=" in url]


def test_enter_opens_the_best_palette_hit_when_typed_quickly(
    talk: None, page: Page
) -> None:
    page.goto("/p/acme/threads/rebook-lisbon-storm")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("event 3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/threads/rebook-lisbon-storm/events/3")


def test_words_typed_while_the_palette_loads_are_kept(talk: None, page: Page) -> None:
    def answer_late(route: Route) -> None:
        time.sleep(1)
        route.continue_()

    page.route("**/search/palette*", answer_late)
    page.keyboard.press("Control+k")
    page.keyboard.type("lisbon")
    expect(page.get_by_role("dialog").locator("mark").first).to_have_text("lisbon")
    expect(page.locator("#q")).to_have_value("lisbon")
    page.keyboard.press("Enter")
    page.wait_for_url("**/threads/rebook-lisbon-storm")


def test_escape_returns_the_focus_from_the_palette(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads")
    row = page.get_by_role("link", name="group-booking-choir")
    row.focus()
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row).to_be_focused()


def test_typing_on_a_palette_hit_continues_in_the_field(talk: None, page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("li")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("sbon")
    expect(page.locator("#q")).to_have_value("lisbon")


def test_palette_actions_keep_the_current_event(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads/rebook-lisbon-storm?at_seq=4")
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("fork here")
    expect(page.locator("#found")).to_contain_text("as of event 4")
    page.keyboard.press("Enter")
    page.wait_for_url("**/fork?at_seq=4")


def test_palette_names_excluded_words(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads/rebook-lisbon-storm")
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("message not:3")
    found = page.locator("#found")
    expect(found).to_contain_text("Without messages that contain 3")
    expect(found).to_contain_text("message 2")
    expect(found).not_to_contain_text("message 3")


def test_search_page_works_without_scripts(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.get_by_role("link", name="Search", exact=False).first.click()
    page.wait_for_url("**/search")
    page.get_by_label("Search and go to").fill("choir")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="group-booking-choir").click()
    page.wait_for_url("**/threads/group-booking-choir")


def test_palette_fits_on_a_phone(talk: None, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 390, "height": 844})
    page.locator(".top").get_by_role("link", name="Search").click()
    expect(page.locator("#q")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
