"""The API reference: accessibility and themes, as on any other page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.screens.conftest import findings

DOCS = "/api/v1/docs"
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_api_reference_passes_axe_with_an_open_operation(
    open_page: Callable[..., Page], scheme: str
) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(DOCS)
    expect(page.get_by_role("heading", name="slots")).to_be_visible()
    assert findings(page) == []
    page.locator(".opblock-summary-control").first.click()
    expect(page.locator(".responses-table").first).to_be_visible()
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_api_reference_keeps_the_chosen_theme(open_page: Callable[..., Page]) -> None:
    page = open_page(color_scheme="light")
    page.goto(DOCS)
    light = page.evaluate(GROUND)
    page.context.add_cookies([{"name": "mh_theme", "value": "dark", "url": page.url}])
    page.reload()
    expect(page.locator("html.dark-mode")).to_have_count(1)
    assert page.evaluate(GROUND) != light
    page.get_by_role("link", name="MemoryHub").click()
    page.wait_for_url("**/p/acme/")
