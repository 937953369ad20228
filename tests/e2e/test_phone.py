"""Checks that need a phone's viewport, or the pixels of a screen."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from memoryhub import journal
from memoryhub.journal.writing.activity import activity
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.e2e.conftest import AXE
from tests.e2e.test_shell import PHONE
from tests.inspector.observed import NAME, PAGE, fail_observer, make_observed

THREAD = f"/p/acme/threads/{NAME}"
#: The newest, which changes a field of many characters.
EVENT = f"{THREAD}/events/{{head}}"
#: Script that returns axe violations of WCAG 2.2 A and AA.
FINDINGS = """async () => (await axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag22aa"]}))
  .violations.map(each => [each.id, each.nodes.map(node => node.html)])"""

#: Script that lists table parts outside the visible area.
HIDDEN = """nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1)
  .map(node => node.ariaLabel)"""
#: Script that returns the colours of a pixel row of a picture.
PIXELS = """async ([data, y]) => {
  const picture = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const row = canvas.getImageData(0, y, picture.width, 1).data;
  return [...Array(picture.width).keys()].map(x => [...row.slice(4 * x, 4 * x + 3)]);
}"""


@pytest.fixture
def observed(agent: Agent, acme: Project) -> int:
    """Make a thread whose observer failed just now; return its newest event."""
    row = make_observed(agent)
    fail_observer(agent)
    activity.count_model_run(acme.id, "observer", "written", calls=1, tokens=900)
    journal.run(activity.flush)
    row.refresh_from_db()
    return row.head_seq


@pytest.mark.parametrize("path", [PAGE, EVENT, "/p/acme/health"])
def test_tables_stack_on_a_phone(
    observed: int, open_page: Callable[..., Page], path: str
) -> None:
    page = open_page(viewport=PHONE)
    page.goto(path.format(head=observed))
    tables = page.locator("main .scroll")
    assert tables.count()
    assert tables.evaluate_all(HIDDEN) == []


@pytest.mark.parametrize("path", [PAGE, THREAD, EVENT])
def test_screens_pass_axe_on_a_phone(
    observed: int, open_page: Callable[..., Page], path: str
) -> None:
    page = open_page(viewport=PHONE)
    page.goto(path.format(head=observed))
    page.evaluate(AXE.read_text())
    assert page.evaluate(FINDINGS) == []


def test_replay_is_whole_on_a_phone(
    observed: int, open_page: Callable[..., Page]
) -> None:
    page = open_page(viewport=PHONE)
    page.goto(THREAD)
    for part in ("#turn", "[data-mark=next]", "#speed", "#pin", ".deck .legend"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, 600)")
    bar = page.locator(".top").bounding_box()
    deck = page.locator(".deck").bounding_box()
    assert bar
    assert deck
    assert deck["y"] + deck["height"] < PHONE["height"] / 4
    # A control is whole, or wholly under the bar of the page.
    for each in page.locator(".transport :is(a, button, input, select):visible").all():
        box = each.bounding_box()
        assert box
        assert box["y"] >= bar["height"] or box["y"] + box["height"] <= bar["height"]
    names = page.locator(".tile .line1 b")
    assert names.count()
    assert names.evaluate_all(HIDDEN) == []
    page.goto("/p/acme/threads")
    expect(page.locator(".threads .row .health").first).to_contain_text("fine")


def test_actions_of_a_thread_stand_below_its_views_on_a_phone(
    observed: int, open_page: Callable[..., Page]
) -> None:
    page = open_page(viewport=PHONE)
    page.goto(f"{THREAD}/turns")
    views = page.locator(".scroll-tabs > nav").bounding_box()
    assert views
    for name in ("Search this thread", "Fork"):
        action = page.get_by_role("link", name=name).bounding_box()
        assert action
        assert action["y"] >= views["y"] + views["height"]
        assert 0 <= action["x"] <= PHONE["width"] - action["width"]


def test_waiting_observation_is_outlined_at_its_end(observed: int, page: Page) -> None:
    page.goto(PAGE)
    ruler = page.locator(".ruler > svg")
    picture = base64.b64encode(ruler.screenshot()).decode()
    whole, waits = ruler.bounding_box(), ruler.locator(".is-waiting").bounding_box()
    assert whole
    assert waits
    page.goto("about:blank")
    middle = round(waits["y"] - whole["y"] + waits["height"] / 2)
    data = f"data:image/png;base64,{picture}"
    row = page.evaluate(PIXELS, [data, middle])
    end = round(waits["x"] - whole["x"] + waits["width"])
    # The outline is blue; both the waiting and the unobserved part are nearly grey.
    assert max(blue - red for red, _, blue in row[end - 3 : end + 3]) > 50
