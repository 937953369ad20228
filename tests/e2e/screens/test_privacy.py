"""The privacy console in both themes: axe, and reflow at 320 px."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Watched
from tests.e2e.screens.conftest import WIDE, check_moving

WORLD = "make_town"
P = "/p/acme"
#: `{ann}` and other names stand for subject ids; the rest for records of the town.
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
GONE = {"subject-gone", "thread-gone", "slot-gone"}


@pytest.mark.parametrize("screen", SCREENS)
def test_privacy_screens_pass_axe_and_reflow_at_320_px(
    names: dict[str, str],
    open_page: Callable[..., Page],
    watched: Watched,
    screen: str,
) -> None:
    watched.expected.append("410" if screen in GONE else "nothing")
    page = open_page("officer", viewport=WIDE)
    check_moving(page, SCREENS[screen].format(**names), screen)
