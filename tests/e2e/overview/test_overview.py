"""The overview in a browser: problems, their beginnings, and live updates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from memoryhub import journal
from memoryhub.journal.writing.activity import activity
from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.overview.onsets import find_onsets
from memoryhub.queries.threads.thresholds import DEFAULTS
from memoryhub.queries.verify.privacy_checks import BACKED_UP_WITHIN
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import backup, keyring
from memoryhub.workers import anchors, stats
from memoryhub.workers.overview import unhealthy
from tests.cast import factories, recordings, sample
from tests.e2e.conftest import save_picture, say
from tests.inspector.paged import make_restless

#: A run whose agent returns to its passengers' bookings again and again.
TASK, BUDGET = 13, 4_000
LINK = re.compile(r"/threads/restless/turns/3\?at_turn=3$")


def look() -> None:
    """Check all threads, as the worker does every ten seconds."""
    now = timezone.now()
    stats.take(now)
    unhealthy.look(now)
    journal.run(activity.flush)


@pytest.fixture
def troubled(agent: Agent) -> Agent:
    """Make a thread that thrashes, and a healthy one."""
    factories.append(agent, "calm", "Where is my parcel?", "It is in Oslo.")
    make_restless(agent, exchanges=8)
    look()
    return agent


@pytest.fixture
def journey(acme: Project, tmp_path: Path) -> Thread:
    runs = json.loads(sample.require_path().read_text(encoding="utf-8"))
    restless = next(each for each in runs if each["task_id"] == TASK)
    path = recordings.array(tmp_path, restless, name=f"{sample.NAME}.json")
    recordings.take(acme, path, budget=BUDGET)
    look()
    return Thread.objects.get(project=acme, name__startswith=sample.NAME)


def test_empty_overview_becomes_live_by_the_first_event(
    agent: Agent, acme: Project, page: Page
) -> None:
    expect(page.get_by_role("heading", name="No thread yet")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    say(agent, "first", "Hello?")
    expect(page.get_by_role("link", name="first")).to_be_visible()
    expect(page.get_by_text("No thread yet")).to_have_count(0)


def test_overview_leads_to_the_cause_of_an_unhealthy_thread(
    troubled: Agent, page: Page
) -> None:
    """Click once of at most three times: from the list to the turn where it began."""
    listed = page.locator(".ill > li").first
    expect(listed.get_by_role("link", name="restless", exact=True)).to_be_visible()
    expect(listed).to_contain_text("Thrashing.")
    expect(listed).to_contain_text("limit 2")
    expect(listed).to_contain_text("since")
    listed.get_by_role("link", name="restless, turn 3").click()
    expect(page).to_have_url(LINK)
    expect(page.locator("main")).to_contain_text("And again, 2?")


def test_chart_shows_when_the_problem_began(troubled: Agent, page: Page) -> None:
    lead = page.locator(".chart.lead")
    expect(lead.locator(".onset-word")).to_have_text("restless begins to thrash")
    expect(lead.locator(".flagno")).to_have_text("1")
    save_picture(page, "overview-troubled")
    lead.locator(".flagno").click()
    expect(page).to_have_url(LINK)


def test_overview_flag_is_a_link_without_scripts_too(
    troubled: Agent, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.locator(".chart.lead svg a").click()
    expect(page).to_have_url(LINK)


def test_charts_show_the_value_at_the_cursor_and_zoom(
    troubled: Agent, page: Page
) -> None:
    over = page.locator("[data-chart=events] .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 1, y)
    said = over.locator(".readout")
    expect(said).to_have_text(re.compile(r"^\d\d:\d\d · events"))
    # The cursor's position is read out in all charts.
    expect(page.locator("[data-chart=lead] .readout")).not_to_be_empty()
    page.mouse.move(box["x"] + 2, y)
    first = said.inner_text()
    page.mouse.move(box["x"] + box["width"] * 0.6, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=4)
    page.mouse.up()
    page.mouse.move(box["x"] + 2, y)
    expect(said).not_to_have_text(first)
    # A push keeps the zoom.
    say(troubled, "calm", "And now it is in Bergen.")
    expect(page.locator(".recent")).to_contain_text("And now it is in Bergen.")
    page.mouse.move(box["x"] + 3, y)
    expect(said).not_to_have_text(re.compile(re.escape(first[:5])))


def test_overview_follows_what_agents_do(troubled: Agent, page: Page) -> None:
    say(troubled, "calm", "And now it is in Bergen.")
    expect(page.locator(".recent")).to_contain_text("And now it is in Bergen.")


def test_focus_survives_an_overview_push(troubled: Agent, page: Page) -> None:
    page.locator("#range-24h").focus()
    say(troubled, "calm", "And now it is in Bergen.")
    expect(page.locator(".recent")).to_contain_text("And now it is in Bergen.")
    expect(page.locator("#range-24h")).to_be_focused()


def test_threshold_links_to_its_health_check(troubled: Agent, page: Page) -> None:
    page.locator(".ill").get_by_role("link", name="limit 2", exact=True).click()
    expect(page).to_have_url(re.compile("/health#thrashing$"))
    expect(page.locator("#thrashing")).to_contain_text("in the last 5 turns")
    expect(page.locator("#thrashing")).to_contain_text("1 open thread")


def test_overview_of_a_recorded_run_leads_to_the_first_bad_turn(
    journey: Thread, page: Page
) -> None:
    """Play a run of a real agent in a small context; one click leads to the turn."""
    listed = page.locator(".ill > li").first
    expect(listed.get_by_role("link", name=journey.name, exact=True)).to_be_visible()
    expect(listed).to_contain_text("Thrashing.")
    listed.get_by_role("link", name=re.compile(f"{journey.name}, turn")).click()
    began = find_onsets(journey, ["thrashing"], DEFAULTS)["thrashing"].turn
    expect(page).to_have_url(re.compile(rf"/turns/{began}\?at_turn={began}$"))
    expect(page.locator("h1")).to_have_text(f"Turn {began}")


def test_every_time_range_is_a_link_without_scripts(
    troubled: Agent, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.get_by_role("link", name="30 d").click()
    expect(page).to_have_url(re.compile(r"\?range=30d$"))
    expect(page.get_by_role("link", name="30 d")).to_have_attribute(
        "aria-current", "true"
    )


@pytest.fixture
def vouched(agent: Agent) -> None:
    """Make the state that a server has after an hour."""
    factories.append(agent, "calm", "Where is my parcel?")
    anchors.move(at=timezone.now())
    look()


def heading(page: Page, path: str) -> str:
    """Return the heading of the page; wait, since the worker may start late."""
    text = ""
    for _ in range(20):
        page.goto(path)
        text = page.locator("h1").inner_text()
        if not text.startswith("2"):
            break
        page.wait_for_timeout(500)
    return text


def test_health_and_overview_both_warn_of_a_missing_key_backup(
    vouched: None, page: Page
) -> None:
    made_at = timezone.now() - BACKED_UP_WITHIN
    KekCheck.objects.using("keys").update(created_at=made_at)
    for path in ("/p/acme/", "/p/acme/health"):
        assert heading(page, path) == "1 thing needs a look", path
        expect(page.locator("main")).to_contain_text("Key file of this server")
    journal.run(lambda: backup.record(keyring.get_ring(), at=timezone.now()))
    for path in ("/p/acme/", "/p/acme/health"):
        assert heading(page, path).endswith("well"), path
