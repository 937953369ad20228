"""Screens of one site per module, which no test changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, ViewportSize

from inspector.web.cookies import build_name
from tests.e2e.conftest import AXE, PATIENCE, Watched, save_picture
from tests.harness.instances import Instance, Server

TAGS = [
    "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice",
]  # fmt: skip
#: The rules that a theme can break.
COLOURS = ("color-contrast", "link-in-text-block")
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 320, "height": 640}


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest, shared: Instance) -> Iterator[dict[str, str]]:
    """Run the module's WORLD; return its ids by name while the world goes on."""
    # The world travels in time, which the clock allows only with this setting.
    place = f"tests.e2e.screens.worlds:{request.module.WORLD}"
    world = shared.start(place, MEMORYHUB_TESTING="1")
    with world as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        found: dict[str, str] = json.loads(line)
        yield found


@pytest.fixture
def server(names: dict[str, str], served: Server) -> str:
    return served.url


@pytest.fixture(scope="module")
def session(names: dict[str, str], shared: Instance) -> Callable[[str], str]:
    """Return a function that finds the session of an operator of this role."""
    known: dict[str, str] = {}

    def find(role: str) -> str:
        if role not in known:
            known[role] = shared.call("tests.cast.sockets:print_session", role, role)
        return known[role].strip()

    return find


@pytest.fixture
def open_page(
    chromium: Browser,
    server: str,
    watched: Watched,
    session: Callable[[str], str],
) -> Iterator[Callable[..., Page]]:
    """Return a function that opens signed-in pages with browser context options."""
    contexts = []

    def open_page(role: str = "owner", **options: Any) -> Page:
        context = chromium.new_context(base_url=server, **options)
        contexts.append(context)
        name = build_name(settings.SESSION_COOKIE_NAME, server)
        cookie = {"name": name, "value": session(role)}
        context.add_cookies([{**cookie, "url": server}])  # type: ignore[typeddict-item]  # it is whole
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        watched.watch(page)
        return page

    yield open_page
    for context in contexts:
        context.close()


def findings(page: Page, *rules: str) -> list[dict[str, Any]]:
    """Return the violations that axe finds, by these rules only if any are given."""
    page.evaluate(AXE.read_text())
    run = "only => axe.run({runOnly: only}).then(found => found.violations)"
    found = page.evaluate(run, [*rules] or TAGS)
    return [
        {"id": each["id"], "where": [node["html"][:160] for node in each["nodes"]]}
        for each in found
    ]


def check(page: Page, path: str, name: str, *, state: Any = "networkidle") -> None:
    """Check both themes with axe, and reflow at 320 px; save a picture of each."""
    page.goto(path)
    page.wait_for_load_state(state)
    save_picture(page, f"{name}-light")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    save_picture(page, f"{name}-dark")
    assert findings(page, *COLOURS) == [], "dark"
    page.set_viewport_size(NARROW)
    save_picture(page, f"{name}-narrow")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"]


#: Pages that poll each second, so the network is never idle.
check_moving = partial(check, state="load")
