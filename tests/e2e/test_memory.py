"""Scripts on the screens of working memory: countdowns, pushes, forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from memoryhub.kernel.memory.tasks import TaskField
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.e2e.conftest import Watched
from tests.inspector.remembered import make_desk, put
from tests.oracles import memory_acts

T = "/p/acme/threads/desk"
#: Script that records each text of a countdown from now on.
WATCH = """() => {
  window.shown = [];
  const note = () => document.querySelectorAll("time[data-until]")
    .forEach((time) => window.shown.push(time.textContent));
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true});
}"""


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


def test_expired_key_vanishes_without_showing_zero(
    agent: Agent, desk: Thread, page: Page
) -> None:
    page.goto(f"{T}/keys")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate(WATCH)
    put(agent, "brief", 1, ttl=timedelta(seconds=3))
    row = page.locator("tr", has_text="brief")
    expect(row).to_be_visible()
    expect(row).to_be_hidden()
    texts = page.evaluate("window.shown")
    assert any(text == "1 s" for text in texts)
    assert not any(re.match("0 ?s|-", text) for text in texts)
    # A longer countdown shows two units.
    put(agent, "long", 1, ttl=timedelta(hours=2))
    expect(page.locator("tr", has_text="long")).to_contain_text("1 h 59 min")


def test_counts_beside_a_key_follow_when_it_expires(
    agent: Agent, desk: Thread, page: Page
) -> None:
    put(agent, "lasting", 1)
    put(agent, "brief", 1, ttl=timedelta(seconds=4))
    page.goto(f"{T}/memory")
    heading = page.locator("#working-memory h2", has_text="Keys")
    before = heading.inner_text()
    expect(page.locator("tr", has_text="brief")).to_be_hidden()
    expect(heading).not_to_have_text(before)
    after = heading.inner_text()
    page.reload()
    expect(heading).to_have_text(after)


def test_key_page_says_that_the_key_expired(
    agent: Agent, desk: Thread, page: Page
) -> None:
    put(agent, "brief", {"a": 1}, ttl=timedelta(seconds=4))
    page.goto(f"{T}/keys/brief")
    expect(page.locator(".gone")).to_be_hidden()
    expect(page.locator(".gone")).to_be_visible()
    expect(page.locator(".json")).to_be_hidden()


def test_memory_writes_are_pushed(agent: Agent, desk: Thread, page: Page) -> None:
    page.goto(f"{T}/notes")
    expect(page.locator("#live")).to_have_text("Live")
    memory_acts.add_notes(agent, "A thought of just now.", thread="desk")
    expect(page.locator("#notes li").first).to_contain_text("A thought of just now.")
    page.click("#pause")
    page.wait_for_url(re.compile(r"at_seq=19"))
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    memory_acts.add_notes(agent, "Another.", thread="desk")
    expect(page.locator("#live")).to_contain_text("· 1 newer")
    expect(page.locator("#notes")).not_to_contain_text("Another.")
    page.goto(f"{T}/task")
    expect(page.locator("#live")).to_have_text("Live")
    whole: dict[TaskField, bytes] = {"progress_percent": b"100.0"}
    memory_acts.set_task(agent, "desk", status="completed", fields=whole)
    expect(page.locator("#task .badge")).to_have_text("completed")
    expect(page.locator("#task")).to_contain_text("100 %")


@pytest.mark.parametrize("scripts", [True, False])
def test_checkpoint_restore_is_undone_by_hand(
    desk: Thread, open_page: Callable[..., Page], *, scripts: bool
) -> None:
    """Restore from the tree of checkpoints and undo it, with scripts and without."""
    page = open_page("editor", java_script_enabled=scripts)
    page.goto(f"{T}/checkpoints")
    page.locator("li", has_text="after").get_by_text("restore…").click()
    page.uncheck("[name=part][value=task]")
    page.click("text=Show the difference")
    expect(page.locator("h1")).to_have_text("Restore checkpoint after")
    expect(page.locator("main")).to_contain_text(
        "1 to change, 1 to remove, 1 to bring back"
    )
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator(".saved")).to_contain_text("restored")
    page.click("text=Undo…")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator(".saved")).to_contain_text("restored")
    page.goto(f"{T}/keys/seat")
    expect(page.locator(".json")).to_contain_text("12A")


def test_list_of_checkpoints_says_that_the_thread_was_closed(
    desk: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page("editor")
    page.goto(f"{T}/checkpoints")
    expect(page.locator("#live")).to_have_text("Live")
    restore = page.locator("li", has_text="after").get_by_text("restore…")
    expect(restore).to_be_visible()
    expect(page.get_by_text("was closed meanwhile")).to_be_hidden()
    operator_threads.close(desk, actor="operator:x", reason="completed")
    expect(page.get_by_text("was closed meanwhile")).to_be_visible()
    expect(restore).to_be_visible()


def test_key_is_edited_by_hand(desk: Thread, page: Page, watched: Watched) -> None:
    watched.expected.append("422")
    page.goto(f"{T}/keys/seat")
    page.click("text=Edit…")
    page.fill("textarea", '{"row": 14')
    page.click("text=Save the value")
    expect(page.locator("[role=alert]")).to_contain_text("no JSON")
    expect(page.locator("textarea")).to_have_value('{"row": 14')
    page.fill("textarea", '{"row": 14}')
    page.click("text=Save the value")
    expect(page.locator(".json")).to_contain_text("row 14")


@pytest.mark.parametrize("scripts", [True, False])
def test_edit_is_undone_unless_somebody_wrote_since(
    agent: Agent,
    desk: Thread,
    open_page: Callable[..., Page],
    watched: Watched,
    *,
    scripts: bool,
) -> None:
    watched.expected.append("409")
    page = open_page("editor", java_script_enabled=scripts)
    page.goto(f"{T}/keys")
    page.click("text=Add a key…")
    page.fill("[name=key]", "gate")
    page.fill("textarea", '"B 7"')
    page.click("text=Add the key")
    expect(page.locator(".saved")).to_contain_text("Saved as event 19")
    page.click("text=Edit…")
    page.fill("textarea", '"B 8"')
    page.click("text=Save the value")
    page.click("text=Undo")
    expect(page.locator(".json")).to_contain_text("B 7")
    expect(page.locator(".saved")).to_contain_text("Saved as event 21")
    put(agent, "gate", "C 1")
    page.click("text=Undo")
    expect(page.locator("[role=alert]")).to_contain_text("nothing was undone")
    expect(page.locator(".json")).to_contain_text("C 1")
    written = page.locator("ins", has_text="B 8")
    page.locator(".story li", has=written).get_by_text("Set back").click()
    expect(page.locator(".json")).to_contain_text("B 8")


@pytest.mark.parametrize("scripts", [True, False])
def test_task_edit_is_undone_by_hand(
    desk: Thread, open_page: Callable[..., Page], *, scripts: bool
) -> None:
    page = open_page("editor", java_script_enabled=scripts)
    page.goto(f"{T}/task")
    page.click("text=Edit the task…")
    page.select_option("[name=status]", "blocked")
    page.fill("[name=progress_percent]", "75.5")
    page.click("text=Save the task")
    expect(page.locator("#task")).to_contain_text("75.5 %")
    page.click("text=Undo")
    expect(page.locator("#task")).to_contain_text("55 %")
    expect(page.locator("#task .badge")).to_have_text("running")


def test_closed_thread_offers_no_edit_until_it_is_reopened(
    desk: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page("editor")
    page.goto(f"{T}/close")
    page.click("text=Close the thread")
    for path, offered in (("keys", "Add a key…"), ("keys/seat", "Edit…")):
        page.goto(f"{T}/{path}")
        expect(page.locator("main")).to_contain_text("nothing in it can be edited")
        expect(page.get_by_text(offered)).to_have_count(0)
    page.locator(".readonly").get_by_role("button", name="Reopen").click()
    page.goto(f"{T}/keys/seat")
    expect(page.get_by_text("Edit…")).to_be_visible()


def test_post_only_addresses_link_to_a_page(
    desk: Thread, open_page: Callable[..., Page], watched: Watched
) -> None:
    watched.expected.append("405")
    page = open_page("editor")
    for path in ("/theme", f"{T}/reopen", f"{T}/events/3/undo"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text("accepts only a sent form")
        page.click("text=Open that page")
        expect(page.locator("main")).not_to_contain_text("accepts only a sent form")
