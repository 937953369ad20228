"""Acts by hand against an agent that writes ten times a second: they do not lose."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from memoryhub.models.projects import Project
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.e2e.conftest import WAIT_SECONDS
from tests.inspector.remembered import make_desk
from tests.promises.clients import Client

P = "/p/acme"
RESTORE = f"{P}/threads/desk/checkpoints/12/restore"
#: Between two writes.
PAUSE_SECONDS = 0.1


@dataclass(kw_only=True)
class Busy:
    """An agent over HTTP that goes on writing, whatever it is answered."""

    write: Callable[[Client, int], int]
    client: Client
    statuses: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.client:
            while not self.over.wait(PAUSE_SECONDS):
                self.statuses.append(self.write(self.client, len(self.statuses)))

    def goes_on(self) -> None:
        """Return once it has written again."""
        seen, until = len(self.statuses), time.monotonic() + WAIT_SECONDS
        while len(self.statuses) < seen + 2:
            assert time.monotonic() < until, self.statuses
            time.sleep(PAUSE_SECONDS)


@pytest.fixture
def key(acme: Project) -> str:
    return factories.make_key(acme)[1]


@pytest.fixture
def busy(key: str, server: str) -> Iterator[Callable[..., Busy]]:
    """Starts an agent that goes on until the test ends."""
    running: list[tuple[Busy, threading.Thread]] = []

    def start(write: Callable[[Client, int], int]) -> Busy:
        client = Client(urlsplit(server).port or 0, key)
        made = Busy(write=write, client=client)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        running.append((made, thread))
        return made

    yield start
    for made, thread in running:
        made.over.set()
        thread.join(WAIT_SECONDS)


def beat(client: Client, number: int) -> int:
    return client.put("/threads/desk/keys/beat", {"value": number}).status


@pytest.fixture
def desk(agent: Agent) -> None:
    make_desk(agent)


def test_a_restore_applies_and_tells_what_differed(
    desk: None, busy: Callable[..., Busy], page: Page
) -> None:
    agent = busy(beat)
    for _ in range(3):
        agent.goes_on()
        page.goto(RESTORE)
        agent.goes_on()
        page.locator("main form[method=post] button").first.click()
        expect(page.locator("h1")).to_have_text("checkpoint.restored")
    differed = page.locator("#differed")
    expect(differed).to_contain_text("beat")
    expect(differed).to_contain_text(re.compile(r"\d events? came after the preview"))
    page.click("text=Undo…")
    agent.goes_on()
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("h1")).to_have_text("checkpoint.restored")
    assert {*agent.statuses} <= {200, 201}
