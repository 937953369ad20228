"""Search of messages: first sight and eviction in three clicks, or by keys alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import Watched, save_picture
from tests.e2e.screens.conftest import COLOURS, findings
from tests.inspector.denied import (
    DENIAL,
    DENIED,
    PROMISE,
    PROMISED,
    QUESTION,
    make_denial,
)


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


def test_search_leads_to_first_sight_and_eviction_in_three_clicks(
    refund: Thread, page: Page, watched: Watched
) -> None:
    page.locator(".rail a.seek").click()
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("promise refund seats", delay=20)
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("First seen", exact=True).first.click()
    hit = dialog.locator(".hit.said", has_text=PROMISE)
    expect(hit).to_contain_text("back at turn")
    name = f"Record of {PROMISED} of refund"
    dialog.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(re.compile(rf"/threads/refund/pages/{PROMISED}\?at_seq=\d+$"))
    expect(page.locator("#life")).to_contain_text(re.compile(r"left in turn \d+"))
    # No address contains the typed words.
    assert not [url for url in watched.urls if "promise" in url]


def test_search_leads_from_a_wrong_answer_to_its_turn_in_three_clicks(
    refund: Thread, page: Page
) -> None:
    page.locator(".rail a.seek").click()
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("afraid nothing is refunded", delay=20)
    page.get_by_role("dialog").locator(".hit.said", has_text=DENIAL).first.click()
    page.wait_for_url("**/slots?index=*")
    found = page.locator(".bubble[aria-current=true]")
    expect(found).to_be_in_viewport()
    expect(found.locator("mark").first).to_have_text("afraid")
    found.get_by_role("link", name=f"turn {DENIED}", exact=True).click()
    expect(page.locator(".verdict")).to_contain_text("The best match for this question")


def test_thread_search_works_by_keyboard_alone(refund: Thread, page: Page) -> None:
    page.goto("/p/acme/threads/refund")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.insert_text("EUR 132.00")
    said = page.locator(".hit.said")
    expect(said.first).to_have_attribute("aria-current", "true")
    expect(page.locator("#preview")).to_contain_text("First seen")
    page.keyboard.press("ArrowDown")
    expect(said.nth(1)).to_be_focused()
    chosen = said.nth(1).get_attribute("data-now")
    assert chosen is not None
    expect(page.locator("#preview .id").first).to_have_text(chosen.split("/")[-1])
    page.keyboard.press("Shift+Enter")
    page.wait_for_url(f"**{chosen}")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.insert_text("EUR 132.00")
    page.keyboard.press("Enter")
    page.wait_for_url("**/slots?index=*")


def test_thread_search_as_of_an_event_finds_no_later_message(
    refund: Thread, page: Page
) -> None:
    page.goto("/p/acme/threads/refund?at_seq=6")
    page.get_by_role("link", name="Search this thread").click()
    expect(page.locator("#ask")).to_contain_text("as of event 6")
    page.keyboard.type("afraid", delay=20)
    expect(page.locator("#found")).to_contain_text("No text matches")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_question_of_a_turn_is_searched_as_of_that_turn(
    refund: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"/p/acme/threads/refund/turns/{DENIED}")
    page.get_by_role("link", name="Not in the request").click()
    page.get_by_role("button", name=re.compile("^Search all")).click()
    expect(page.locator("#q")).to_have_value(QUESTION)
    expect(page.locator("#ask")).to_contain_text("as of event")
    expect(page.locator(".hit.said", has_text=PROMISE)).to_be_visible()
    expect(page.locator("#preview")).to_contain_text("Open the page")
    page.get_by_label("Newest").check(force=True)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".found")).to_contain_text("newest first")


def test_first_hit_is_chosen_and_enter_opens_the_previewed_hit(
    refund: Thread, page: Page
) -> None:
    page.goto("/p/acme/threads/refund")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("EUR 132.00", delay=20)
    said, chosen = page.locator(".hit.said"), page.locator(".hit[aria-current]")
    previewed = page.locator("#preview .id").first

    def expect_chosen(n: int) -> None:
        expect(chosen).to_have_count(1)
        expect(said.nth(n)).to_have_attribute("aria-current", "true")
        record = said.nth(n).get_attribute("data-now") or ""
        expect(previewed).to_have_text(record.split("/")[-1])

    expect_chosen(0)
    page.mouse.move(1, 1)
    said.nth(1).hover()
    expect_chosen(1)
    # The mouse leaves the list, and what it chose stays.
    page.locator("#q").hover()
    expect_chosen(1)
    address = said.nth(1).get_attribute("href") or ""
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address}")


def test_search_of_a_thread_is_widened_by_a_click(refund: Thread, page: Page) -> None:
    page.goto("/p/acme/threads/refund")
    page.get_by_role("link", name="Search this thread").click()
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("refund you a promise", delay=20)
    page.get_by_role("button", name="Search all of acme").click()
    expect(page.get_by_label("All of acme")).to_be_checked()
    expect(page.locator("#scan")).to_contain_text("No message has these words")


def test_arrow_keys_walk_the_hits_of_the_latest_query(
    refund: Thread, page: Page
) -> None:
    page.goto("/p/acme/threads/refund")
    page.get_by_role("link", name="Search this thread").click()
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("EUR", delay=20)
    said = page.locator(".hit.said")
    expect(said.first).to_be_visible()
    held = list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/search/found", hold)
    with page.expect_request("**/search/found"):
        page.locator("#q").fill("EUR 132.00")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#q")).to_be_focused()
    held[0].continue_()
    # The later preview of the first hit must not replace the chosen one.
    expect(said.nth(1)).to_be_focused()
    chosen = said.nth(1).get_attribute("data-now")
    assert chosen is not None
    page.wait_for_timeout(400)
    expect(page.locator("#preview .id").first).to_have_text(chosen.split("/")[-1])


def test_search_link_survives_a_reload_and_follows_the_typed_words(
    refund: Thread, page: Page, watched: Watched
) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("promise seats", delay=20)
    page.get_by_role("link", name="Link to this search").click()
    page.wait_for_url("**/search?search=*")
    expect(page.locator(".hit.said", has_text=PROMISE)).to_be_visible()
    page.reload()
    expect(page.locator("#q")).to_have_value("promise seats")
    before = page.url
    page.locator("#q").fill("afraid nothing")
    expect(page.locator(".hit.said", has_text=DENIAL)).to_be_visible()
    page.wait_for_url(lambda url: url != before)
    page.reload()
    expect(page.locator("#q")).to_have_value("afraid nothing")
    assert not [url for url in watched.urls if "promise" in url]


@pytest.fixture
def many(agent: Agent) -> None:
    for n in range(12):
        factories.make_thread(agent, f"talk-{n}")
        factories.append(agent, f"talk-{n}", "The ferry leaves at noon.")


def test_project_scan_streams_hits_until_stopped(many: None, page: Page) -> None:
    asked = list[str]()
    page.on("request", lambda sent: asked.append(sent.url))
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("ferry", delay=20)
    expect(page.locator("#scan")).to_contain_text(
        "12 matches in 12 threads · searched 12 of 12"
    )
    expect(page.locator(".hit.said")).to_have_count(12)
    # Hits arrive in batches, more on a slow server.
    assert len([url for url in asked if url.endswith("/said")]) >= 3
    # A batch that never comes: a stopped scan no longer waits for it.
    held = list[Route]()

    def hold(route: Route) -> None:
        if held or "stop=1" in (route.request.post_data or ""):
            return route.continue_()
        return held.append(route)

    page.route("**/search/said", hold)
    with page.expect_request("**/search/said"):
        page.locator("#q").fill("ferry noon")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Search further")).to_be_visible()
    expect(page.locator(".hit.said")).to_have_count(0)
    page.get_by_role("button", name="Search further").click()
    expect(page.locator(".hit.said")).to_have_count(12)


@pytest.fixture
def apart(agent: Agent) -> None:
    factories.append(agent, "best", "The ferry leaves noon to others.")
    for n in range(6):
        # Each two words stand side by side, so that the thread may hold all three.
        factories.append(agent, f"talk-{n}", "The ferry leaves, and leaves noon.")


def test_enter_waits_until_the_best_match_is_known(apart: None, page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    held = list[Route]()

    def hold(route: Route) -> None:
        if "cursor=&" in (route.request.post_data or ""):
            return route.continue_()
        return held.append(route)

    page.route("**/search/said", hold)
    page.keyboard.type("ferry leaves noon", delay=20)
    expect(page.locator(".hit.said")).not_to_have_count(0)
    expect(page.locator("#scan")).to_contain_text("Enter opens the best match once")
    before = page.url
    for _ in range(2):
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
    assert (page.url, len(held)) == (before, 1)
    held[0].continue_()
    page.unroute("**/search/said")
    page.wait_for_url("**/best/slots?index=*")


def test_project_scan_ends_with_its_dialog(many: None, page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.route("**/search/said", lambda _: None)
    with page.expect_request("**/search/said") as asked:
        page.keyboard.type("ferry")
    with page.expect_event("requestfailed", lambda each: each == asked.value):
        page.keyboard.press("Escape")
    expect(page.locator(".palette")).to_have_count(0)


@pytest.mark.parametrize("path", ["/p/acme/threads/refund", "/p/acme/"])
def test_search_dialog_passes_axe(
    refund: Thread, open_page: Callable[..., Page], path: str
) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto(path)
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("refund flight", delay=20)
    expect(page.locator("#preview")).to_contain_text("First seen")
    save_picture(page, "said-light")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    save_picture(page, "said-dark")
    assert findings(page, *COLOURS) == []
    page.set_viewport_size({"width": 390, "height": 844})
    save_picture(page, "said-narrow")
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
