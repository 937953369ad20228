"""Scripts on the paging screens: arrow keys, pushes, charts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from inspector.paging import paging
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import say
from tests.inspector.paged import make_paged

T = "/p/acme/threads/paged"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


@pytest.fixture
def crowded(agent: Agent) -> Thread:
    factories.make_thread(agent, "crowded", user_id="ann", budget_tokens=200_000)
    factories.append(agent, "crowded", *(f"again {n}" for n in range(60)))
    return factories.get_thread(agent, "crowded")


TILES = ".tile[id]:visible"


def test_page_tiles_are_one_tab_stop_walked_by_arrows(
    paged: Thread, page: Page
) -> None:
    page.goto(f"{T}/working-set")
    cells = page.locator(TILES)
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    expect(cells.nth(1)).to_be_focused()
    expect(page.locator(".tile[tabindex='0']")).to_have_count(1)
    page.keyboard.press("End")
    expect(cells.last).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"{T}/pages/slot-"))


def test_arrows_in_the_page_tiles_do_not_move_the_scrubber(
    paged: Thread, page: Page
) -> None:
    page.goto(f"{T}?tab=working-set&at_seq=20")
    page.locator(TILES).first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(TILES).nth(1)).to_be_focused()
    expect(page.locator("#at")).to_have_value("20")


def test_closed_group_opens_in_its_place(crowded: Thread, page: Page) -> None:
    page.goto(f"/p/acme/threads/crowded?at_seq={crowded.head_seq}")
    closed = page.locator(".setgroup > .folded").last
    closed.scroll_into_view_if_needed()
    name = closed.get_attribute("id") or ""
    before = closed.bounding_box()
    closed.press("Enter")
    summary = page.locator(f"summary#{name}")
    expect(summary).to_be_focused()
    expect(page.locator(f"details:has(#{name}) .tile").first).to_be_visible()
    after = summary.bounding_box()
    assert before
    assert after
    assert abs(before["y"] - after["y"]) < 2
    # The link of the page opens it, too.
    page.wait_for_url(f"**group={name.removeprefix('group-')}**")
    page.reload()
    expect(page.locator(f"details[open] > #{name}")).to_be_visible()


def test_new_page_is_pushed_to_the_working_set(
    agent: Agent, paged: Thread, page: Page
) -> None:
    page.goto(f"{T}/working-set")
    expect(page.locator("#live")).to_have_text("Live")
    say(agent, "paged", "One more thing.", type="chat.user")
    expect(page.locator(f"#cell-slot-{paged.slot_count}")).to_be_visible()


def test_paging_charts_are_drawn_and_link_to_the_replay(
    paged: Thread, page: Page
) -> None:
    page.goto(f"{T}/paging")
    expect(page.locator(".uplot canvas")).to_have_count(4)
    plot = page.locator("[data-chart=lookups] .u-over")
    box = plot.bounding_box()
    assert box is not None
    plot.hover(position={"x": box["width"] - 2, "y": 20})
    plot.click(position={"x": box["width"] - 2, "y": 20})
    page.wait_for_url(re.compile(r"/threads/paged\?at_seq=\d+"))


def test_curves_of_a_long_thread_come_by_themselves(
    paged: Thread, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "_QUICK_EVENTS", 0)
    page.goto(f"{T}/paging/curves")
    expect(page.locator("#curves table")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)


def test_chart_brush_zooms_all_paging_charts(paged: Thread, page: Page) -> None:
    page.goto(f"{T}/paging")
    box = page.locator("[data-chart=rate] .u-over").bounding_box()
    assert box is not None
    y = box["y"] + 40
    page.mouse.move(box["x"] + 40, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, y, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))
    expect(page.locator(".asof")).to_contain_text("show all")


def test_page_act_is_previewed_then_done_without_scripts(
    paged: Thread, open_page: Callable[..., Page]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{T}/pages/policy")
    page.click("text=Unpin…")
    expect(page.locator("main")).to_contain_text("page.unpinned")
    page.click("text=Unpin it")
    page.wait_for_url(f"**{T}/pages/policy")
    page.select_option("select[name=level]", "1")
    page.click("text=Map…")
    expect(page.locator("h1")).to_have_text("Map policy at ~1")
    page.goto(f"{T}/paging/settings")
    page.get_by_label("budget tokens").fill("2600")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Not saved yet")
    page.get_by_role("button", name="Save and move pages").click()
    expect(page.get_by_label("budget tokens")).to_have_value("2600")
    expect(page.get_by_role("alert")).to_have_count(0)
