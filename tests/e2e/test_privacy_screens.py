"""The console of privacy in both themes, empty and busy: axe has nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from memoryhub.models.projects import Project
from memoryhub.services import project_deletions, subjects
from memoryhub.services.api_keys import Agent
from tests.e2e.conftest import picture
from tests.e2e.test_screens import NARROW, WIDE, findings
from tests.inspector import forgotten
from tests.inspector.forgotten import Town

P = "/p/acme"
#: `{ann}` and the like are ids of people, the rest what the town names.
SCREENS = {
    "subjects": f"{P}/subjects",
    "subject": f"{P}/subjects/{{ann}}",
    "subject-restricted": f"{P}/subjects/{{fay}}",
    "subject-held": f"{P}/subjects/{{eve}}",
    "subject-gone": f"{P}/subjects/{{cid}}",
    "subject-export": f"{P}/subjects/{{ann}}/export",
    "subject-restrict": f"{P}/subjects/{{ann}}/restrict",
    "subject-hold": f"{P}/subjects/{{ann}}/hold",
    "forget": f"{P}/subjects/{{ann}}/forget?scope=record&thread=ann-1&record=2",
    "forget-open": f"{P}/subjects/{{bob}}/forget",
    "erasures": f"{P}/erasures",
    "erasures-none": f"{P}/erasures?state=expired",
    "erasure-planned": f"{P}/erasures/{{planned}}",
    "erasure-under-way": f"{P}/erasures/{{under_way}}",
    "erasure-held": f"{P}/erasures/{{held}}",
    "erasure-complete": f"{P}/erasures/{{complete}}",
    "receipts": f"{P}/receipts",
    "receipt": f"{P}/receipts/{{receipt}}",
    "receipt-verify": f"{P}/receipts/verify",
    "holds": f"{P}/holds",
    "hold-lift": f"{P}/holds/{{hold}}/lift",
    "hold-renew": f"{P}/holds/{{hold}}/renew",
    "tombstones": f"{P}/tombstones",
    "tombstone-lift": f"{P}/tombstones/{{stone}}/lift",
    "privacy": f"{P}/health/privacy",
    "thread-gone": f"{P}/threads/cid-1",
    "slot-gone": f"{P}/threads/gus-1/slots/0",
    "overview-officer": f"{P}/",
}
EMPTY = {
    "subjects-one": f"{P}/subjects",
    "erasures-empty": f"{P}/erasures",
    "receipts-empty": f"{P}/receipts",
    "holds-empty": f"{P}/holds",
    "tombstones-empty": f"{P}/tombstones",
    "privacy-empty": f"{P}/health/privacy",
}
GONE = {"subject-gone", "thread-gone", "slot-gone"}


@pytest.fixture
def town(agent: Agent) -> Town:
    return forgotten.make_town(agent)


def address(town: Town, screen: str) -> str:
    ids = {name: person.id for name, person in town.people.items()}
    rows = ("planned", "under_way", "held", "complete", "receipt", "hold", "stone")
    return SCREENS[screen].format(**ids, **{r: getattr(town, r).id for r in rows})


def look(page: Page, path: str, name: str) -> None:
    page.goto(path)
    # Not idle: what is under way is looked at again each second.
    page.wait_for_load_state("load")
    picture(page, name)


def check(page: Page, path: str, name: str) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        look(page, path, f"{name}-{theme}")
        assert findings(page) == [], theme
    page.set_viewport_size(NARROW)
    look(page, path, f"{name}-narrow")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"]


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_and_reflow_320(
    town: Town, open_page: Callable[..., Page], watched: Any, screen: str
) -> None:
    watched.expected.append("410" if screen in GONE else "nothing")
    page = open_page("officer", viewport=WIDE)
    check(page, address(town, screen), screen)


@pytest.mark.parametrize("screen", EMPTY)
def test_empty_lists_say_what_would_be_there(
    acme: Project, open_page: Callable[..., Page], screen: str
) -> None:
    page = open_page("officer", viewport=WIDE)
    check(page, EMPTY[screen], screen)


@pytest.fixture
def few(agent: Agent) -> None:
    for name in ("ann", "bob", "cid"):
        forgotten.make_person(agent, name)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("screen", ["overview-deleting", "subjects-deleting"])
def test_a_project_that_is_being_deleted_says_so(
    acme: Project, open_page: Callable[..., Page], screen: str
) -> None:
    page = open_page("officer", viewport=WIDE)
    project_deletions.begin(acme, confirmed=acme.slug, reason="not_needed")
    check(page, f"{P}/{'' if screen.startswith('overview') else 'subjects'}", screen)
    assert "being deleted" in page.inner_text("main [role=status]")


def test_a_crowd(agent: Agent, open_page: Callable[..., Page]) -> None:
    for n in range(120):
        subjects.find_or_create(agent.project, f"person-{n}")
    page = open_page("officer", viewport=WIDE)
    check(page, f"{P}/subjects", "subjects-busy")
    page.click("text=Next 50")
    assert page.locator(".row").count() == 50
