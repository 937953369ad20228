"""The privacy console of an empty project, which explains each screen."""

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
def test_empty_privacy_screens_pass_axe_and_reflow_at_320_px(
    open_page: Callable[..., Page], screen: str
) -> None:
    check_moving(open_page("officer", viewport=WIDE), SCREENS[screen], screen)
