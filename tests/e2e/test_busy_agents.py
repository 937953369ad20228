"""Acts by hand against an agent that writes ten times a second."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import WAIT_SECONDS, Watched
from tests.inspector import forgotten
from tests.inspector.remembered import make_desk
from tests.promises.journal.clients import Client

P = "/p/acme"
RESTORE = f"{P}/threads/desk/checkpoints/12/restore"
#: Seconds between two writes.
PAUSE_SECONDS = 0.1

#: Slow, since tests type as a person does while the agent writes.
pytestmark = pytest.mark.slow


@dataclass(kw_only=True)
class Busy:
    """Agent thread that writes over HTTP, whatever the answers."""

    write: Callable[[Client, int], int]
    client: Client
    statuses: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self.client:
            while not self.over.wait(PAUSE_SECONDS):
                self.statuses.append(self.write(self.client, len(self.statuses)))

    def goes_on(self) -> None:
        """Return once the agent has written again."""
        seen, until = len(self.statuses), time.monotonic() + WAIT_SECONDS
        while len(self.statuses) < seen + 2:
            assert time.monotonic() < until, self.statuses
            time.sleep(PAUSE_SECONDS)


@pytest.fixture
def key(acme: Project) -> str:
    return factories.make_key(acme)[1]


@pytest.fixture
def busy(key: str, server: str) -> Iterator[Callable[..., Busy]]:
    """Return a function that starts an agent, which writes until the test ends."""
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


def talk(client: Client, number: int) -> int:
    return client.append("ann-1", f"One more thing, the number {number}.").status


@pytest.fixture
def desk(agent: Agent) -> None:
    make_desk(agent)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return forgotten.make_person(agent, "ann")


def test_restore_against_a_busy_agent_tells_what_differed(
    desk: None, busy: Callable[..., Busy], page: Page
) -> None:
    agent = busy(beat)
    for _ in range(3):
        agent.goes_on()
        page.goto(RESTORE)
        agent.goes_on()
        page.locator("main form[method=post] button").first.click()
        expect(page.locator(".saved")).to_contain_text("restored")
    page.locator(".saved a").first.click()
    differed = page.locator("#differed")
    expect(differed).to_contain_text("beat")
    expect(differed).to_contain_text(re.compile(r"\d events? came after the preview"))
    page.click("text=Undo…")
    agent.goes_on()
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator(".saved")).to_contain_text("restored")
    assert {*agent.statuses} <= {200, 201}


def begin(page: Page, ann: Subject) -> None:
    page.goto(f"{P}/subjects/{ann.id}/forget")
    page.select_option("[name=reason]", "consent_withdrawn")


def confirm(page: Page, agent: Busy) -> None:
    """Type the confirming words as slowly as a person does, and confirm."""
    typed = page.locator("label[for=typed] code").text_content()
    assert typed is not None
    page.fill("[name=typed]", typed)
    agent.goes_on()
    page.click("button.danger")


def complete(page: Page) -> None:
    page.get_by_role("link", name="The receipt").wait_for(timeout=WAIT_SECONDS * 1_000)
    assert Erasure.objects.get(confirmed_at__isnull=False).state == "complete"


def test_erasure_plan_keeps_busy_agents_out_by_default(
    ann: Subject, busy: Callable[..., Busy], open_page: Callable[..., Page]
) -> None:
    page, agent = open_page("officer"), busy(talk)
    begin(page, ann)
    page.click("text=Show the plan")
    confirm(page, agent)
    complete(page)


@pytest.mark.parametrize("way", ["by its button", "by the form"])
def test_stale_plan_offers_to_keep_agents_out(
    ann: Subject,
    busy: Callable[..., Busy],
    open_page: Callable[..., Page],
    watched: Watched,
    way: str,
) -> None:
    """Agents are kept out by the button, or by the form sent again."""
    watched.expected.append("409")
    page, agent = open_page("officer"), busy(talk)
    begin(page, ann)
    page.uncheck("[name=restrict]")
    page.click("text=Show the plan")
    confirm(page, agent)
    problem = page.locator("[role=alert]")
    expect(problem).to_contain_text("after this plan was made")
    expect(page.locator("main")).not_to_contain_text("`")
    if way == "by its button":
        page.click("text=Keep agents out and count again")
    else:
        begin(page, ann)
        page.check("[name=restrict]")
        page.click("text=Show the plan")
    expect(problem).to_have_count(0)
    confirm(page, agent)
    complete(page)


def rows_of(table: Locator) -> list[Locator]:
    return table.get_by_role("row").all()


def test_erasure_count_and_table_agree_to_the_end(
    ann: Subject, busy: Callable[..., Busy], open_page: Callable[..., Page]
) -> None:
    """Read count and table on the open page, without a reload."""
    page, agent = open_page("officer"), busy(talk)
    begin(page, ann)
    page.check("[name=restrict]")
    page.click("text=Show the plan")
    confirm(page, agent)
    complete(page)
    text = page.locator("#erasure p", has_text="rows erased").inner_text()
    gone, of = re.findall(r"[\d,]+", text)
    assert gone == of
    column = page.get_by_role("columnheader", name="Erased", exact=True)
    table = page.get_by_role("table").filter(has=column)
    heads, *rows = (row.locator("> *").all_inner_texts() for row in rows_of(table))
    at = heads.index("Erased")
    numbers = [int(row[at].replace(",", "")) for row in rows]
    assert sum(numbers) == int(gone.replace(",", ""))
