"""Live paging screens: panels follow the thread, and equal a reload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_restless

T = "/p/acme/threads/restless"
ASKED = {"from": "user", "to": "assistant", "type": "chat.user", "content": "Again?"}
SPOKEN = {"role": "assistant", "content": "Once more."}
ANSWER = {**ASKED, "type": "chat.assistant", "content": SPOKEN}
Call = Callable[[str, Any], None]


@pytest.fixture
def restless(agent: Agent) -> Thread:
    return make_restless(agent, exchanges=2)


@pytest.fixture
def call(acme: Project, restless: Thread, page: Page) -> Call:
    """Return a function that posts to the thread as an agent does."""
    _, key = api_keys.create(acme)

    def posted(path: str, body: Any) -> None:
        answer = page.request.post(
            f"/api/v1/threads/restless{path}",
            data=body,
            headers={"Authorization": f"Bearer {key}"},
        )
        assert answer.ok, answer.text()

    return posted


def faults(call: Call, exchanges: int) -> None:
    """Evict the page and fetch it again, in each of so many exchanges."""
    for _ in range(exchanges):
        call("/turns", {"slots": [ASKED]})
        call("/pages/note/evict", {})
        call("/pages/note/fault", {"level": 0})


def test_warning_that_ended_stays_in_its_place(call: Call, page: Page) -> None:
    faults(call, 4)
    open_marked_page(page, f"{T}/paging")
    warning = page.locator("#paging > .notice", has_text="hrashing").first
    expect(warning).to_contain_text("Thrashing: what the model needs")
    last = cards(page)
    for _ in range(6):
        call("/turns", {"slots": [ASKED]})
    expect(warning).to_contain_text("Was thrashing until turn ")
    expect(page.locator("#paging > .notice").first).to_have_text(warning.inner_text())
    assert cards(page) != last
    warning.get_by_role("link").click()
    page.wait_for_url("**/paging/curves")


def open_marked_page(page: Page, path: str) -> None:
    """Open a page with a mark, which a reload would lose."""
    page.goto(path)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.marked = true")


def cards(page: Page) -> dict[str, str]:
    names = page.locator("#paging .figures dt").all_inner_texts()
    values = page.locator("#paging .figures dd").all_inner_texts()
    return dict(zip(names, values, strict=True))


def get_chart_images(page: Page) -> list[str]:
    """Return the charts as data URLs."""
    script = "all => all.map(each => each.toDataURL())"
    found: list[str] = page.locator("#paging .uplot canvas").evaluate_all(script)
    return found


def tlb(page: Page) -> list[str]:
    shown = "#paging > h2:has-text('TLB'), #paging .chip[id^=tlb-]"
    return page.locator(shown).all_inner_texts()


def follow(page: Page, restless: Thread) -> None:
    """Wait until the opened page has the newest push."""
    head = Thread.objects.get(id=restless.id).head_seq
    expect(page.locator("[data-live=paging]")).to_have_attribute("data-seq", str(head))
    assert page.evaluate("window.marked")


def test_paging_cards_charts_and_tlb_are_pushed(
    restless: Thread, page: Page, call: Call
) -> None:
    for _ in range(2):
        call("/turns", {"slots": [ASKED]})
    open_marked_page(page, f"{T}/paging")
    follow(page, restless)
    before = cards(page), get_chart_images(page), tlb(page)
    assert before[0]["Resident rate"].startswith("0.50")
    faults(call, 4)
    call("/tlb:flush", {})
    call("/pages/note/reference", {})
    follow(page, restless)
    after = cards(page), get_chart_images(page), tlb(page)
    moved = {name for name in after[0] if after[0][name] != before[0][name]}
    rates = {"Resident rate", "TLB hit rate", "Thrash index"}
    assert moved >= {*rates, "Faults", "Refaults"}
    assert after[0]["Resident rate"].startswith("0.25")
    assert len(after[1]) == len(before[1]) == 4
    assert not {*after[1]} & {*before[1]}
    assert before[2] != after[2]
    assert after[2][1:] == ["note"]
    page.reload()
    expect(page.locator("#paging .uplot canvas")).to_have_count(4)
    assert (cards(page), get_chart_images(page), tlb(page)) == after


def test_paging_charts_appear_with_the_first_tlb_lookup(
    agent: Agent, restless: Thread, page: Page, call: Call
) -> None:
    """Charts appear with their first data, while the page is open."""
    open_marked_page(page, f"{T}/paging")
    call("/turns", {"slots": [ASKED]})
    follow(page, restless)
    expect(page.locator("#paging .uplot")).to_have_count(4)


def test_thread_row_is_updated_in_the_list(
    restless: Thread, page: Page, call: Call
) -> None:
    for _ in range(2):
        call("/turns", {"slots": [ASKED]})
    open_marked_page(page, "/p/acme/threads")
    row = page.locator("[data-live=row]")
    rate = row.locator("[data-label='resident rate']")
    shown = rate.inner_text()
    faults(call, 2)
    expect(rate).not_to_have_text(shown)
    head = Thread.objects.get(id=restless.id).head_seq
    expect(row).to_have_attribute("data-seq", str(head))
    assert page.evaluate("window.marked")
    # Ages change with time, and the worker finds the beginning of a flag.
    figures = row.locator("[data-label]:not(:has(time), .since)")
    cells = figures.all_inner_texts()
    page.reload()
    assert figures.all_inner_texts() == cells


def test_open_turn_page_is_told_of_its_answer_and_the_next_turn(
    call: Call, restless: Thread, page: Page
) -> None:
    n = restless.turn_count + 1
    call("/turns", {"slots": [ASKED]})
    page.goto(f"{T}/turns/{n}")
    expect(page.locator("#live")).to_have_text(f"As of turn {n} · 0 newer")
    expect(page.locator(".qa")).to_contain_text("No answer yet.")
    page.evaluate("window.marked = true")
    call("/slots", ANSWER)
    expect(page.locator(".qa .assistant")).to_contain_text("Once more.")
    call("/turns", {"slots": [ASKED]})
    expect(page.locator("#live")).to_have_text(f"As of turn {n} · 1 newer")
    assert page.evaluate("window.marked")


def test_page_screen_announces_newer_events(call: Call, page: Page) -> None:
    page.goto(f"{T}/pages/note")
    expect(page.locator("#live")).to_have_text("Live")
    call("/pages/note/evict", {})
    expect(page.locator("#live")).to_contain_text("1 newer")
    page.get_by_role("link", name="Show now").click()
    expect(page.locator("#live")).to_have_text("Live")
