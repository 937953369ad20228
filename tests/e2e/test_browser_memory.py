"""Browser storage after an erasure: nothing that the erased subject said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import CHROMIUM, PATIENCE, Watched
from tests.inspector import forgotten
from tests.oracles import memory_acts

P, T = "/p/acme", "/p/acme/threads/ann-2"
#: Texts to search: a message, a value, a note. The twin has others.
SAID, VALUE, NOTE = "canary-message-4711", "canary-value-4712", "canary-note-4713"
THEIRS = "twin-message-4714"
#: Live screens, and the text of the subject on each.
OPEN = {
    T: SAID,
    f"{T}?view=events": SAID,
    f"{T}/keys/canary": VALUE,
    f"{T}/notes": NOTE,
    "/p/acme/threads/bob-2": THEIRS,
}
#: Script that reads all browser storages and the page itself.
KEPT = """async () => JSON.stringify([
  document.documentElement.outerHTML, document.title, document.cookie, history.state,
  {...localStorage}, {...sessionStorage}, await indexedDB.databases(),
  await Promise.all((await caches.keys()).map(async (name) => {
    const cache = await caches.open(name), found = await cache.matchAll();
    return Promise.all(found.map((each) => each.text()));
  })),
  [...document.querySelectorAll("input, textarea")].map((each) => each.value),
])"""


@pytest.fixture
def ann(agent: Agent) -> Subject:
    forgotten.make_person(agent, "bob")
    found = forgotten.make_person(agent, "ann")
    factories.append(agent, "bob-2", THEIRS)
    factories.append(agent, "ann-2", SAID)
    memory_acts.set_key(agent, "canary", VALUE, thread="ann-2")
    memory_acts.add_notes(agent, NOTE, thread="ann-2")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "browser"


@pytest.fixture
def browser(
    ann: Subject, folder: Path, chromium: Browser, server: str, watched: Watched
) -> Iterator[Callable[[], Page]]:
    """Start a browser with its own disk, which opens signed-in pages of one officer."""
    context: BrowserContext = chromium.browser_type.launch_persistent_context(
        folder, executable_path=CHROMIUM, args=["--no-sandbox"], base_url=server
    )
    vera = operators.add("vera")
    operators.set_role(ann.project, vera, "officer")
    first = context.new_page()
    first.goto(f"/sign-in/{operators.make_link(vera)}")
    first.wait_for_url("**/p/acme/")

    def open_page() -> Page:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        watched.watch(page)
        return page

    yield open_page
    context.close()


def get_browser_storage(page: Page) -> str:
    found: str = page.evaluate(KEPT)
    return found


def files(folder: Path, *wanted: str) -> dict[str, set[str]]:
    """Map each searched text to the files of the browser that hold it."""
    found: dict[str, set[str]] = {each: set() for each in wanted}
    for path in folder.rglob("*"):
        raw = path.read_bytes() if path.is_file() else b""
        for each in wanted:
            if each.encode() in raw or each.encode("utf-16-le") in raw:
                found[each].add(path.name)
    return found


def forget(ann: Subject, page: Page) -> None:
    """Wait on the page until the worker has erased the subject and made a receipt."""
    row = forgotten.confirm(forgotten.plan(ann))
    page.goto(f"{P}/erasures/{row.id}")
    receipt = page.get_by_role("link", name="The receipt")
    expect(receipt).to_be_visible(timeout=30_000)


def test_browser_keeps_no_erased_content(
    ann: Subject,
    browser: Callable[[], Page],
    folder: Path,
    watched: Watched,
    server: str,
) -> None:
    """Check open pages, going back, storages, and every file of the browser.

    Thread names stay in addresses, which are the reader's own history.
    """
    watched.expected.append("410")
    pages: dict[str, Page] = {}
    for path, text in OPEN.items():
        pages[path] = page = browser()
        page.goto(path)
        expect(page.locator("main")).to_contain_text(text)
        expect(page.locator("#live")).to_have_text("Live")
        assert text in get_browser_storage(page)
    walked = browser()
    for path in (f"{T}/slots", f"{T}/keys/canary", f"{T}/notes", f"{P}/threads"):
        walked.goto(path)
    forget(ann, browser())
    for path, page in pages.items():
        if OPEN[path] == THEIRS:
            continue
        expect(page.locator("#live")).to_have_text(re.compile("Erased"))
        assert_nothing(page)
    for _ in range(3):
        walked.go_back()
        expect(walked.locator("h1")).to_contain_text("forgotten")
        assert_nothing(walked)
    twin = pages["/p/acme/threads/bob-2"]
    assert THEIRS in get_browser_storage(twin)
    twin.context.close()
    found: Any = files(folder, SAID, VALUE, NOTE, THEIRS, server)
    # As the control, addresses are found in the browser's files.
    assert found.pop(server)
    # The twin's texts are absent too: shown content is never stored.
    assert found == {each: set() for each in (SAID, VALUE, NOTE, THEIRS)}


def assert_nothing(page: Page) -> None:
    held = get_browser_storage(page)
    assert not [each for each in (SAID, VALUE, NOTE) if each in held]
