"""Replay in a real browser: the page shows the event where the thumb ends."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import say

T = "/p/acme/threads/talk"
#: Query of the event list with the changes tab.
LISTED = "view=events&tab=changes"
EVENTS = 40


@pytest.fixture
def talk(agent: Agent) -> None:
    """Make a thread of forty events: its creation, then 39 messages."""
    factories.append(agent, "talk", *(f"message {n}" for n in range(EVENTS - 1)))


def drag(page: Page, seqs: list[int]) -> None:
    """Move a range input as a hand does: an input event every 8 ms."""
    page.evaluate(
        """async seqs => {
             const range = document.getElementById("at");
             for (const seq of seqs) {
               range.value = seq;
               range.dispatchEvent(new Event("input", {bubbles: true}));
               await new Promise(done => setTimeout(done, 8));
             }
           }""",
        seqs,
    )


def shows(page: Page, seq: int) -> None:
    """Check that the panels, the URL and the controls agree on the event."""
    for panel in ("#moment", "#at-hand", "#events", "#changed"):
        expect(page.locator(panel)).to_have_attribute("data-at", str(seq))
    expect(page.locator("#events [aria-current=true]")).to_have_id(f"event-{seq}")
    expect(page).to_have_url(re.compile(rf"{T}\?(.*&)?at_seq={seq}(&|$)"))
    expect(page.locator("#at")).to_have_value(str(seq))
    expect(page.locator("#to")).to_have_value(str(seq))


def test_scrubber_shows_the_event_where_the_thumb_ends(talk: None, page: Page) -> None:
    page.goto(f"{T}?{LISTED}")
    for last in (1, EVENTS, 17, 1, 23):
        there = [1 + (n * 7) % EVENTS for n in range(100)]
        drag(page, [*there, last])
        shows(page, last)


def test_dragging_the_thumb_to_the_start_shows_the_first_event(
    talk: None, page: Page
) -> None:
    page.goto(f"{T}?{LISTED}")
    for _ in range(8):
        drag(page, list(range(EVENTS, 0, -1)))
        shows(page, 1)
        expect(page.locator("#changed h2")).to_have_text("thread.created")


def test_mouse_drags_the_scrubber_thumb(talk: None, page: Page) -> None:
    page.goto(f"{T}?{LISTED}")
    box = page.locator("#at").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 8, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, middle, steps=20)
    page.mouse.move(box["x"] + 1, middle, steps=20)
    page.mouse.up()
    shows(page, 1)


def test_step_buttons_lead_to_the_named_event(talk: None, page: Page) -> None:
    page.goto(f"{T}?at_seq=20&{LISTED}")
    for name, seq in (
        ("One event on", 21),
        ("+10", 31),
        ("One event back", 30),
        ("−10", 20),
        ("First event", 1),
        ("−10", 1),
        ("Newest event", EVENTS),
        ("One event on", EVENTS),
    ):
        page.get_by_role("link", name=name, exact=True).click()
        shows(page, seq)


def test_replay_keys_step_through_events(talk: None, page: Page) -> None:
    page.goto(f"{T}?at_seq=20&{LISTED}")
    for key, seq in (
        ("ArrowRight", 21),
        ("Shift+ArrowRight", 31),
        ("ArrowLeft", 30),
        ("Shift+ArrowLeft", 20),
        ("Home", 1),
        ("End", EVENTS),
    ):
        page.keyboard.press(key)
        shows(page, seq)


def test_replay_keys_are_off_while_typing_or_disabled(talk: None, page: Page) -> None:
    page.goto(f"{T}?at_seq=20")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("p?")
    expect(page.locator("#q")).to_have_value("p?")
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("#sheet")).to_be_visible()
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("Home")
    page.reload()
    page.keyboard.press("Home")
    expect(page.locator("#at")).to_have_value("20")


def test_event_rows_are_walked_and_opened_by_keyboard(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{T}")
    page.keyboard.press("u")
    page.wait_for_url("**/p/acme/threads")
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.wait_for_url("**/p/acme/api-keys")


def test_replay_jumps_to_marks(talk: None, page: Page) -> None:
    page.goto(f"{T}/close")
    page.get_by_role("button", name="Close the thread").click()
    page.wait_for_url(f"**{T}")
    page.goto(f"{T}?at_seq=5&{LISTED}")
    page.keyboard.press("]")
    shows(page, EVENTS + 1)
    assert page.locator("[data-mark=next]").get_attribute("href") is None


def test_replay_plays_and_stops(talk: None, page: Page) -> None:
    page.goto(f"{T}?at_seq=30&{LISTED}")
    page.locator("#speed").select_option("10")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#playing")).to_have_text("every 10th event")
    shows(page, EVENTS)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_seeking_does_not_stop_the_replay(talk: None, page: Page) -> None:
    page.goto(f"{T}?at_seq=1&{LISTED}")
    page.get_by_role("button", name="Play").click()
    drag(page, [36])
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    shows(page, EVENTS)


def test_permalink_reopens_the_same_view(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{T}?view=events")
    drag(page, [9, 12])
    expect(page.locator("#moment")).to_have_attribute("data-at", "12")
    expect(page).to_have_url(re.compile("at_seq=12"))
    other = open_page("viewer")
    other.goto(page.url)
    expect(page.locator("#working-set")).to_have_attribute("data-at", "12")
    for part in ("#events .said", "#working-set .first"):
        seen = page.locator(part).all_text_contents()
        assert seen == other.locator(part).all_text_contents()
        assert seen


@pytest.mark.parametrize("loaded", ["", "?at_seq=9"])
def test_links_lead_to_the_event_under_the_thumb(
    talk: None, agent: Agent, page: Page, loaded: str
) -> None:
    """Fork, tabs and search follow the thumb, and the head shows the same event."""
    page.goto(f"{T}{loaded}")
    drag(page, [20, 12])
    expect(page.locator("#moment")).to_have_attribute("data-at", "12")
    say(agent, "talk", "one more")
    expect(page.locator("#live")).to_have_text(f"As of event 12 · {EVENTS - 11} newer")
    expect(page.get_by_text("12 events", exact=True)).to_be_visible()
    expect(page.get_by_text("11 messages", exact=True)).to_be_visible()
    expect(page.locator("main h1:visible")).to_have_count(1)
    ways = [page.get_by_role("link", name=name) for name in ("Fork here", "Branches")]
    ways += [
        page.locator(".tabs .seekin"),
        *page.locator(".tabs nav a[data-then]").all(),
    ]
    for way in ways:
        expect(way).to_have_attribute("href", re.compile(r"[?&]at_seq=12$"))
    ways[0].click()
    expect(page.get_by_label("From event")).to_have_value("12")


def test_browser_back_never_shows_a_page_fragment(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads")
    page.goto(f"{T}?{LISTED}")
    drag(page, [5, 9])
    shows(page, 9)
    page.get_by_role("link", name="API keys").click()
    page.wait_for_url("**/api-keys")
    page.go_back()
    shows(page, 9)
    expect(page.locator("header.top")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Threads")).to_be_visible()


def test_pause_is_a_permalink(talk: None, agent: Agent, page: Page) -> None:
    page.goto(T)
    page.locator("#pause").click()
    expect(page.locator("#moment")).to_have_attribute("data-at", str(EVENTS))
    say(agent, "talk", "one more")
    page.reload()
    expect(page.locator("#live")).to_contain_text("· 1 newer")
    expect(page.locator("#conversation")).not_to_contain_text("one more")
    page.get_by_role("link", name="Show now").click()
    expect(page.locator("#conversation")).to_contain_text("one more")
    assert page.url.endswith(T)


def test_events_pause_and_resume(talk: None, agent: Agent, page: Page) -> None:
    """Open the old address of the event list."""
    page.goto(f"{T}/tail?hide=turn")
    page.wait_for_url(f"**{T}?view=events&hide=turn")
    page.keyboard.press("p")
    page.wait_for_url(re.compile(f"at_seq={EVENTS}"))
    assert "hide=turn" in page.url
    say(agent, "talk", "one more")
    page.keyboard.press("p")
    page.wait_for_url(f"**{T}?view=events&hide=turn")
    expect(page.locator("#events")).to_contain_text("one more")


def test_newest_event_is_visible_without_scrolling(talk: None, page: Page) -> None:
    """The newest event is in view on a laptop, at the head and as of an event."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{T}?view=events")
    expect(page.locator(f"#event-{EVENTS}")).to_be_in_viewport(ratio=1)
    drag(page, [25])
    expect(page.locator("#event-25[aria-current]")).to_be_in_viewport(ratio=1)


def test_numbers_of_any_size_stand_on_one_line(talk: None, page: Page) -> None:
    page.goto(f"{T}?view=events")
    number = page.locator(f"#event-{EVENTS} .seq")
    box = number.bounding_box()
    number.evaluate("each => each.textContent = '9,999,999'")
    after = number.bounding_box()
    assert box is not None
    assert after is not None
    assert after["height"] == box["height"]


def test_slow_panels_load_when_the_thumb_rests(talk: None, page: Page) -> None:
    """The slow panels keep their content until the thumb rests."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{T}?at_seq=30")
    drag(page, [29, 25, 20])
    expect(page.locator("#working-set")).to_have_attribute("data-at", "20")
    seeks = [url for url in asked if "/panels/moment" in url]
    assert "passing=1" in seeks[0]
    assert "passing" not in seeks[-1]
    assert "at_seq=20" in seeks[-1]


def test_pinned_event_is_compared_with_each_event_visited(
    talk: None, page: Page
) -> None:
    page.goto(f"{T}?{LISTED}")
    page.keyboard.press("ArrowLeft")
    shows(page, EVENTS - 1)
    page.keyboard.press("b")
    pinned = re.compile(f"at_seq={EVENTS - 1}&base={EVENTS - 1}$")
    expect(page).to_have_url(pinned)
    drag(page, [30, 20])
    title = page.locator("#difference h2")
    expect(title).to_have_text(f"From event {EVENTS - 1} to event 20")
    expect(page).to_have_url(re.compile(f"at_seq=20&base={EVENTS - 1}$"))
    page.reload()
    expect(title).to_have_text(f"From event {EVENTS - 1} to event 20")
    page.click("[data-unpin]")
    shows(page, 20)
    expect(title).to_have_count(0)


@pytest.mark.parametrize("scripts", [True, False])
def test_opened_events_stay_in_view(
    talk: None, open_page: Callable[..., Page], *, scripts: bool
) -> None:
    page = open_page(java_script_enabled=scripts)
    page.goto(f"{T}?at_seq=20&view=events")
    for seq in (4, 6):
        page.click(f"#event-{seq} [aria-expanded=false]")
        expect(page.locator(f"#event-{seq} pre")).to_be_in_viewport()
    expect(page.locator("#events pre")).to_have_count(2)
    page.click("#event-4 [aria-expanded=true]")
    expect(page.locator("#events pre")).to_have_count(1)


def test_replay_works_without_scripts(
    talk: None, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/p/acme/threads?q=status:open")
    page.get_by_role("link", name="talk", exact=True).click()
    page.get_by_role("link", name="Pause").click()
    page.get_by_role("link", name="−10").click()
    assert page.url.endswith(f"?at_seq={EVENTS - 10}")
    page.get_by_role("link", name="Events", exact=True).first.click()
    expect(page.locator("#events [aria-current=true]")).to_have_id(
        f"event-{EVENTS - 10}"
    )
    page.locator("#to").fill("7")
    page.locator("#to").press("Enter")
    assert page.url.endswith("?view=events&at_seq=7")
    page.get_by_role("link", name="Conversation").first.click()
    page.get_by_role("link", name="All messages").click()
    expect(page.locator(".bubble")).to_have_count(6)
    page.get_by_role("link", name="Fork here").click()
    page.get_by_label("Name of the new thread").fill("other")
    page.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", name="other")).to_be_visible()
