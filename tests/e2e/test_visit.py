"""A visit: sign-in, reading, export, sign-out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from memoryhub.models.projects import Project
from memoryhub.services.access import api_keys, operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import Watched


@pytest.fixture
def talk(agent: Agent) -> None:
    factories.make_thread(agent, "red-1", labels={"team": "red"})
    factories.make_thread(agent, "blue-1", labels={"team": "blue"})
    factories.append(agent, "red-1", *(f"message {n}" for n in range(5)))


def test_sign_in_link_works_once(
    acme: Project, chromium: Browser, server: str, watched: Watched
) -> None:
    watched.expected.append("422")
    token = operators.make_link(operators.ensure_default())
    for heading in ("No thread yet", "Sign in"):
        context = chromium.new_context(base_url=server)
        page = context.new_page()
        watched.watch(page)
        page.goto(f"/sign-in/{token}")
        # Our script sends the form; the second time there is nothing left to use.
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        used = heading == "Sign in"
        if used:
            expect(page.locator("[role=alert]")).to_contain_text("manage.py signin")
        context.close()


def test_sign_in_link_survives_a_preview(
    acme: Project, chromium: Browser, server: str, watched: Watched
) -> None:
    token = operators.make_link(operators.ensure_default())
    context = chromium.new_context(base_url=server, java_script_enabled=False)
    page = context.new_page()
    watched.watch(page)
    for _ in range(3):
        page.goto(f"/sign-in/{token}")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="No thread yet")).to_be_visible()
    context.close()


def test_pages_make_no_external_request(
    talk: None, page: Page, watched: Watched
) -> None:
    paths = ["/p/acme/", "/p/acme/threads", "/p/acme/threads/red-1", "/p/acme/health"]
    for path in [*paths, "/p/acme/threads/red-1/slots", "/p/acme/api-keys/new"]:
        page.goto(path)
        page.wait_for_load_state("networkidle")
    # `watched` holds every address against our own.
    assert len(watched.urls) > len(paths)


def test_thread_export_equals_the_filter(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads")
    page.locator("#find").fill("label.team:red")
    page.locator("#find").press("Enter")
    shown = page.locator(".threads .name a[data-row]").all_inner_texts()
    with page.expect_download() as download:
        page.get_by_text("Export", exact=True).first.click()
        page.get_by_role("link", name="ndjson").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert [json.loads(line)["thread"] for line in lines] == shown == ["red-1"]


def test_facets_narrow_the_list(talk: None, page: Page) -> None:
    page.goto("/p/acme/threads")
    page.locator("#facets").get_by_text("Narrow down").click()
    page.locator("#facets").get_by_role("link", name="blue").click()
    expect(page.locator(".threads .name a[data-row]")).to_have_text(["blue-1"])
    assert "label.team" in page.url


def test_key_is_made_and_never_shown_again(acme: Project, page: Page) -> None:
    page.goto("/p/acme/api-keys")
    page.get_by_role("link", name="Create a key").click()
    page.get_by_role("button", name="Create the key").click()
    secret = page.locator("#secret").inner_text()
    assert api_keys.parse_prefix(secret)
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator(".api-keys .row")).to_have_count(1)
    assert secret not in page.content()


def test_two_hubs_on_one_host_keep_separate_sessions(
    servers: tuple[str, str], open_page: Callable[..., Page], watched: Watched
) -> None:
    """A browser sends the cookies of a host to every port of the host."""
    watched.others.append(servers[1])
    page = open_page("owner")
    viewer = operators.add("viewer")
    operators.set_role(Project.objects.get(slug="acme"), viewer, "viewer")
    other = page.context.new_page()
    other.goto(f"{servers[1]}/sign-in/{operators.make_link(viewer)}")
    other.wait_for_url("**/p/acme/")
    for each, role in ((page, "owner"), (other, "viewer"), (page, "owner")):
        each.reload()
        each.locator("summary", has_text=role).click()
        each.get_by_role("button", name="dark").click()
        expect(each.locator("summary", has_text=role)).to_be_visible()


def test_signed_out_panel_says_so_and_swaps_in_no_page(
    talk: None, open_page: Callable[..., Page], watched: Watched
) -> None:
    watched.expected += ["401", "Response Status Error"]
    page = open_page()
    page.goto("/p/acme/threads/red-1?at_seq=3")
    page.context.clear_cookies()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=alert]")).to_contain_text("signed out")
    expect(page.locator("header.top")).to_have_count(1)
    expect(page.locator("main h1")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#moment[role=alert]")).to_have_count(1)


def test_signing_out_leads_to_the_sign_in_page(page: Page) -> None:
    page.locator(".rail .menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("/p/acme/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_chosen_theme_overrides_the_system_theme(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(color_scheme="light")
    page.locator(".rail .menu summary").click()
    page.get_by_role("button", name="dark").click()
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(11, 13, 17)"
