"""A wrong answer: what the model saw, what was missing and why, in three clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from memoryhub.demo import airline
from memoryhub.demo.client import DemoClient
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys
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
def storm(acme: Project, server: str) -> None:
    """Send the demo's denied promise to the server, as the demo does."""
    _, key = api_keys.create(acme)
    url = urlsplit(server)
    client = DemoClient(host=url.hostname or "", port=url.port or 0, key=key)
    airline.tell_story(client, Random(1), at=clock.now())


@pytest.fixture
def journeys(acme: Project, tmp_path: Path) -> list[Thread]:
    """Import the longest recorded runs, played in a small context."""
    runs = json.loads(sample.require_path().read_text(encoding="utf-8"))
    runs.sort(key=lambda each: len(each["traj"]), reverse=True)
    path = recordings.array(tmp_path, *runs[:3], name=f"{sample.NAME}.json")
    recordings.take(acme, path, budget=BUDGET)
    return [*Thread.objects.filter(project=acme, name__startswith=sample.NAME)]


def click(page: Page, *links: str) -> None:
    """Click links from the overview on, three at most."""
    assert len(links) <= 3
    page.goto("/p/acme/")
    for link in links:
        page.get_by_role("link", name=link, exact=True).first.click()


def test_missing_page_is_three_clicks_from_the_overview(
    refund: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    click(page, "refund", "Turns", f"Turn {DENIED}")
    expect(page.locator(".qa")).to_contain_text(QUESTION)
    expect(page.locator(".qa")).to_contain_text(DENIAL)
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("The best match for this question was not in")
    expect(verdict).to_contain_text(PROMISED)
    expect(verdict).to_contain_text("to make room for")
    expect(page.locator(f"#out-{PROMISED} blockquote")).to_contain_text("EUR 132.00")


def test_message_leads_to_its_turn_without_scripts(
    refund: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto("/p/acme/threads/refund/slots")
    said = page.locator(".bubble", has_text=DENIAL)
    said.get_by_role("link", name=f"turn {DENIED}", exact=True).click()
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED}")
    page.get_by_role("link", name="See what the request lacked").click()
    page.get_by_role("link", name=re.compile("^Open the eviction")).click()
    expect(page).to_have_url(re.compile(r"/threads/refund\?at_seq=\d+$"))
    page.go_back()
    page.get_by_role("link", name=f"Life of {PROMISED}").click()
    expect(page.locator("#life")).to_contain_text("fetched back")
    page.goto(f"/p/acme/threads/refund/turns/{DENIED}")
    page.locator("#goto").fill("3")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("h1")).to_have_text("Turn 3")


def test_arrow_keys_walk_from_turn_to_turn(refund: Thread, page: Page) -> None:
    page.goto(f"/p/acme/threads/refund/turns/{DENIED}")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED + 1}")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("h1")).to_have_text(f"Turn {DENIED}")


def test_demo_turn_names_the_missing_page(
    storm: None, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    click(page, airline.THREAD, "Turns", f"Turn {airline.DENIED}")
    expect(page.locator(".qa")).to_contain_text(airline.ASKED_AGAIN)
    expect(page.locator(".qa")).to_contain_text(airline.DENIAL)
    expect(page.locator(".verdict")).to_contain_text("was not in the request")
    promise = page.locator(".missing > li", has_text="I promise you a refund")
    for part in ("EUR 132.00", "to make room for", "score", "Offered", "Asked for"):
        expect(promise).to_contain_text(part)
    promise.get_by_role("link", name=re.compile("^event ")).first.click()
    expect(page.locator("#at-hand")).to_contain_text(re.compile(r"pages?\.evicted"))


def test_turns_of_recorded_runs_name_the_missing_pages(
    journeys: list[Thread], open_page: Callable[..., Page]
) -> None:
    page = open_page()
    assert len(journeys) == 3
    for journey in journeys:
        click(page, journey.name, "Turns", f"Turn {journey.turn_count}")
        expect(page.locator("h1")).to_have_text(f"Turn {journey.turn_count}")
        expect(page.locator(".verdict")).to_be_visible()
        simulated = page.locator(".notice", has_text="Simulated by the import")
        expect(simulated).to_be_visible()
        best = page.locator(".missing > li").first
        for part in ("Left", "Offered", "Asked for"):
            expect(best).to_contain_text(part)
        event = best.get_by_role("link", name=re.compile("^event ")).first
        expect(event).to_have_attribute("href", re.compile(r"\?at_seq=\d+$"))


@pytest.mark.parametrize("path", [f"turns/{DENIED}", "turns", f"pages/{PROMISED}"])
def test_turn_page_passes_axe_on_phones_and_desktops(
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
