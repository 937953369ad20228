"""It gave a wrong answer: what it saw, what was missing and why, in three clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import recordings, sample
from tests.e2e.conftest import Watched
from tests.e2e.screens.conftest import COLOURS, TAGS, findings
from tests.inspector.denied import DENIAL, DENIED, PROMISED, QUESTION, make_denial

#: Tokens of a request; of the longest run more has to leave than stays.
BUDGET = 6_000


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


@pytest.fixture
def journey(acme: Project, tmp_path: Path) -> Thread:
    """The longest of the recorded runs, as an import plays it in a small context."""
    runs = json.loads(sample.path().read_text(encoding="utf-8"))
    longest = max(runs, key=lambda each: len(each["traj"]))
    path = recordings.array(tmp_path, longest, name=f"{sample.NAME}.json")
    recordings.take(acme, path, budget=BUDGET)
    return Thread.objects.get(project=acme, name__startswith=sample.NAME)


def test_from_the_overview_to_what_was_missing(
    refund: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto("/p/acme/")
    page.get_by_role("link", name="refund", exact=True).first.click()
    page.get_by_role("link", name="Turns", exact=True).first.click()
    page.get_by_role("link", name=f"Turn {DENIED}", exact=True).click()
    expect(page.locator(".qa")).to_contain_text(QUESTION)
    expect(page.locator(".qa")).to_contain_text(DENIAL)
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("The best match for this question was not in")
    expect(verdict).to_contain_text(PROMISED)
    expect(verdict).to_contain_text("to make room for")
    expect(page.locator(f"#out-{PROMISED} blockquote")).to_contain_text("EUR 132.00")


def test_from_a_message_to_its_turn_without_scripts(
    refund: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/p/acme/threads/refund/slots")
    said = page.locator(".bubble", has_text=DENIAL)
    said.get_by_role("link", name=f"turn {DENIED}", exact=True).click()
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED}")
    page.get_by_role("link", name=re.compile("^See it leave")).click()
    expect(page).to_have_url(re.compile(r"/threads/refund\?at_seq=\d+$"))
    page.go_back()
    page.get_by_role("link", name=f"Life of {PROMISED}").click()
    expect(page.locator("#life")).to_contain_text("fetched back")
    page.go_back()
    page.locator("#goto").fill("3")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("h1")).to_have_text("Turn 3")


def test_arrows_walk_from_turn_to_turn(refund: Thread, page: Page) -> None:
    page.goto(f"/p/acme/threads/refund/turns/{DENIED}")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED + 1}")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED}")


def test_a_recorded_run_says_what_was_missing(
    journey: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto("/p/acme/")
    page.get_by_role("link", name=journey.name, exact=True).first.click()
    page.get_by_role("link", name="Turns", exact=True).first.click()
    newest = page.locator(".turnlist a[data-row]").first
    newest.click()
    expect(page.locator("h1")).to_have_text(f"Turn {journey.turn_count}")
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".notice", has_text="Simulated by the import")).to_be_visible()
    expect(page.locator("#not-in")).to_be_visible()
    assert page.locator(".missing > li").count()


@pytest.mark.parametrize("path", [f"turns/{DENIED}", "turns", f"pages/{PROMISED}"])
def test_axe_finds_nothing_on_phones_and_desks(
    refund: Thread, open_page: Callable[..., Page], watched: Watched, path: str
) -> None:
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto(f"/p/acme/threads/refund/{path}")
    assert findings(page, *()) == [], TAGS
    page.emulate_media(color_scheme="dark")
    assert findings(page, *COLOURS) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
