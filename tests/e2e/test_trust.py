"""Consistency of pages: one event per page, and equal figures everywhere."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from memoryhub import journal
from memoryhub.journal.writing.activity import activity
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append
from tests.e2e.overview.test_overview import look
from tests.inspector.paged import make_restless


@pytest.fixture
def restless(agent: Agent) -> None:
    make_restless(agent, exchanges=8)
    look()


@pytest.fixture
def talk(agent: Agent) -> None:
    append(agent, "t-1", *(f"message {n}" for n in range(9)))


def test_header_body_and_live_pill_show_the_same_event(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads/t-1?at_seq=2")
    expect(page.locator("#live")).to_contain_text(re.compile(r"As of event 2 · \d"))
    expect(page.locator("main .meta").first).to_contain_text("2 events")
    expect(page.locator("main .meta").first).to_contain_text("1 message")
    expect(page.locator("main")).to_contain_text("message 0")
    assert "message 1" not in page.locator("main").inner_text()
    said = page.locator("body").inner_text().lower()
    assert said.count("paused") + said.count("as of event 2") == 1


def test_health_verdict_is_equal_everywhere(restless: None, page: Page) -> None:
    numbers = set[str]()
    for place in ("", "health", "health/privacy"):
        page.goto(f"/p/acme/{place}")
        rail = page.get_by_label(re.compile(r"^\d+ to look at$")).first.inner_text()
        main = page.locator("main").inner_text()
        numbers |= {rail, *re.findall(r"(\d+) (?:things? needs? a|to) look", main)}
        assert not re.search(r"^All .*well$", main, re.MULTILINE)
    assert len(numbers) == 1
    page.goto("/p/acme/")
    expect(page.locator("main")).to_contain_text(re.compile(r"worst restless\s+\d"))


def test_last_use_of_a_key_is_not_before_its_creation(
    acme: Project, server: str, page: Page
) -> None:
    page.goto("/p/acme/api-keys/new")
    page.get_by_role("button", name="Create the key").click()
    key = page.locator("#secret").inner_text()
    bearer = {"authorization": f"Bearer {key}"}
    assert httpx.get(f"{server}/api/v1/threads", headers=bearer).status_code == 200
    journal.run(activity.flush)
    page.goto("/p/acme/api-keys")
    times = page.locator(".api-keys .row time").evaluate_all(
        "each => each.map(time => Date.parse(time.dateTime))"
    )
    created, used = times[:2]
    assert used >= created
