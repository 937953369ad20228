"""What scripts add to the screens of working memory: countdowns, pushes, forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from memoryhub.kernel.memory.tasks import TaskField
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.e2e.conftest import Watched
from tests.inspector.remembered import make_desk, put
from tests.oracles import memory_acts

T = "/p/acme/threads/desk"
#: Notes each text that a countdown shows, from now on.
WATCH = """() => {
  window.told = [];
  const note = () => document.querySelectorAll("time[data-until]")
    .forEach((time) => window.told.push(time.textContent));
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true});
}"""


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


def test_an_expired_key_vanishes_and_is_never_at_0(
    agent: Agent, desk: Thread, page: Page
) -> None:
    page.goto(f"{T}/keys")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate(WATCH)
    put(agent, "brief", 1, ttl=timedelta(seconds=3))
    row = page.locator("tr", has_text="brief")
    expect(row).to_be_visible()
    expect(row).to_be_hidden()
    told = page.evaluate("window.told")
    assert any(text == "1 s" for text in told)
    assert not any(re.match("0 ?s|-", text) for text in told)
    # One that lasts longer is told in two units.
    put(agent, "long", 1, ttl=timedelta(hours=2))
    expect(page.locator("tr", has_text="long")).to_contain_text("1 h 59 min")


def test_a_key_that_expires_while_it_is_read_is_said_to_be_gone(
    agent: Agent, desk: Thread, page: Page
) -> None:
    put(agent, "brief", {"a": 1}, ttl=timedelta(seconds=4))
    page.goto(f"{T}/keys/brief")
    expect(page.locator(".gone")).to_be_hidden()
    expect(page.locator(".gone")).to_be_visible()
    expect(page.locator(".json")).to_be_hidden()


def test_what_is_written_is_pushed(agent: Agent, desk: Thread, page: Page) -> None:
    page.goto(f"{T}/notes")
    expect(page.locator("#live")).to_have_text("live")
    memory_acts.add_notes(agent, "A thought of just now.", thread="desk")
    expect(page.locator("#notes li").first).to_contain_text("A thought of just now.")
    page.click("#pause")
    page.wait_for_url(re.compile(r"at_seq=19"))
    expect(page.locator("#live")).to_contain_text("paused")
    memory_acts.add_notes(agent, "Another.", thread="desk")
    expect(page.locator("#live")).to_have_text("paused, 1 new")
    expect(page.locator("#notes")).not_to_contain_text("Another.")
    page.goto(f"{T}/task")
    expect(page.locator("#live")).to_have_text("live")
    whole: dict[TaskField, bytes] = {"progress_percent": b"100.0"}
    memory_acts.set_task(agent, "desk", status="completed", fields=whole)
    expect(page.locator("#task .badge")).to_have_text("completed")
    expect(page.locator("#task")).to_contain_text("100 %")


@pytest.mark.parametrize("scripts", [True, False])
def test_a_restore_and_its_undo(
    desk: Thread, open_page: Callable[..., Page], *, scripts: bool
) -> None:
    """By hand, from the tree of checkpoints and back, with scripts and without."""
    page = open_page("editor", java_script_enabled=scripts)
    page.goto(f"{T}/checkpoints")
    page.locator("li", has_text="after").get_by_text("restore…").click()
    page.uncheck("[name=part][value=task]")
    page.click("text=Show the difference")
    expect(page.locator("h1")).to_have_text("Restore checkpoint after")
    expect(page.locator("main")).to_contain_text("1 to change, 1 to go, 1 to come back")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("h1")).to_have_text("checkpoint.restored")
    page.click("text=Undo…")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("h1")).to_have_text("checkpoint.restored")
    page.goto(f"{T}/keys/seat")
    expect(page.locator(".json")).to_contain_text("12A")


def test_a_key_is_edited_by_hand(desk: Thread, page: Page, watched: Watched) -> None:
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
