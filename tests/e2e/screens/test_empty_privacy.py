"""The console of privacy where nothing is known yet: it says what would be there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.e2e.screens.conftest import WIDE, check_moving

WORLD = "make_nobody"
P = "/p/acme"
SCREENS = {
    "subjects-one": f"{P}/subjects",
    "erasures-empty": f"{P}/erasures",
    "receipts-empty": f"{P}/receipts",
    "holds-empty": f"{P}/holds",
    "tombstones-empty": f"{P}/tombstones",
    "privacy-empty": f"{P}/health/privacy",
}


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_and_reflow_320(
    open_page: Callable[..., Page], screen: str
) -> None:
    check_moving(open_page("officer", viewport=WIDE), SCREENS[screen], screen)
