"""The list of projects, and a new project that waits for its first agent."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Watched


def test_owner_lists_projects_and_makes_another(page: Page, watched: Watched) -> None:
    watched.expected.append("422")
    page.get_by_title("All projects").click()
    page.wait_for_url("**/projects")
    expect(page.locator("main a.card")).to_contain_text("acme")
    page.get_by_role("link", name="New project").click()
    name = page.get_by_label("Name, used in URLs")
    name.fill("Night shift")
    name.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("a-z, 0-9 and -")
    name.fill("night-shift")
    name.press("Enter")
    page.wait_for_url("**/p/night-shift/connect")
    expect(page.get_by_role("button", name="Make the key")).to_be_visible()
    page.get_by_title("All projects").click()
    expect(page.locator("main a.card")).to_have_count(2)
