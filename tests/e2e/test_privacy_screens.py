"""Privacy screens of a project under deletion, and of many subjects."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import project_deletions
from memoryhub.services.people import subjects
from tests.e2e.screens.conftest import WIDE, check_moving
from tests.inspector import forgotten

P = "/p/acme"


@pytest.fixture
def few(agent: Agent) -> None:
    for name in ("ann", "bob", "cid"):
        forgotten.make_person(agent, name)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("screen", ["overview-deleting", "subjects-deleting"])
def test_project_that_is_being_deleted_says_so(
    acme: Project, open_page: Callable[..., Page], screen: str
) -> None:
    page = open_page("officer", viewport=WIDE)
    forgotten.keep_workers_away()
    project_deletions.begin_deletion(acme, confirmed=acme.slug, reason="not_needed")
    check_moving(
        page, f"{P}/{'' if screen.startswith('overview') else 'subjects'}", screen
    )
    assert "being deleted" in page.inner_text("main [role=status]")


@pytest.mark.slow
def test_subject_list_of_120_passes_axe_and_pages(
    agent: Agent, open_page: Callable[..., Page]
) -> None:
    for n in range(120):
        subjects.find_or_create(agent.project, f"person-{n}")
    page = open_page("officer", viewport=WIDE)
    check_moving(page, f"{P}/subjects", "subjects-busy")
    page.click("text=Next 50")
    assert page.locator(".row").count() == 50
