from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import Watched, say
from tests.harness.instances import Server, instance
from tests.promises.journal.clients import Client

THREAD = "/p/acme/threads/t-1"
OpenPage = Callable[..., Page]


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> Thread:
    factories.append(agent, "t-1", "one", "two")
    return factories.get_thread(agent)


class Wire:
    """The socket of a page, which a test can freeze: nothing comes through any more."""

    def __init__(self) -> None:
        self.frozen = False
        self.sent: list[str] = []
        self.pushes = 0

    def attach(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def to_page(message: str | bytes) -> None:
            if not self.frozen:
                self.pushes += str(message).startswith("<")
                route.send(message)

        def to_server(message: str | bytes) -> None:
            self.sent.append(str(message))
            server.send(message)

        server.on_message(to_page)
        route.on_message(to_server)


@pytest.fixture
def wire(page: Page) -> Wire:
    wire = Wire()
    page.route_web_socket(re.compile("/ws/live/"), wire.attach)
    return wire


def live(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("#live")).to_have_text("Live")


def shown(page: Page, panel: str) -> int:
    return int(page.locator(f"#{panel}").get_attribute("data-seq") or 0)


def test_an_append_appears_by_itself(page: Page, agent: Agent) -> None:
    live(page, f"{THREAD}?view=events")
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_contain_text("three")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_a_list_shows_what_moved_in_place(page: Page, agent: Agent) -> None:
    live(page, "/p/acme/threads")
    row = page.locator("[data-live=row]")
    say(agent, "t-1", "three", "four")
    expect(row.locator("[data-label=slots]")).to_contain_text("4")


def test_a_list_says_that_there_is_more(page: Page, agent: Agent) -> None:
    live(page, "/p/acme/threads")
    say(agent, "t-new", "hello")
    expect(page.locator("#fresh")).to_contain_text("1 new or moved", timeout=15_000)


def test_a_paused_page_stands_still_and_counts(page: Page, agent: Agent) -> None:
    page.goto(f"{THREAD}?at_seq=2")
    expect(page.locator("#live")).to_have_text("As of event 2 · 1 newer")
    say(agent, "t-1", "three", "four")
    expect(page.locator("#live")).to_have_text("As of event 2 · 3 newer")
    assert shown(page, "conversation") == 2


@pytest.mark.promise("P28", load="a frozen socket")
def test_stale_is_said_in_5_s(page: Page, wire: Wire) -> None:
    live(page, THREAD)
    wire.frozen = True
    expect(page.locator("#live")).to_have_text(
        re.compile(r"Stale since \d\d:\d\d:\d\d"), timeout=6_500
    )
    expect(page.locator("html")).to_have_attribute("data-stale", "")
    wire.frozen = False
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("html")).not_to_have_attribute("data-stale", "")


def test_hidden_page_gets_nothing(page: Page, wire: Wire, agent: Agent) -> None:
    """At most the push that was on its way; then the newest, once it is seen."""
    live(page, f"{THREAD}?view=events")
    page.evaluate(
        """() => {
          window.seen = "hidden";
          Object.defineProperty(document, "visibilityState", {get: () => window.seen});
        }"""
    )
    receipt = say(agent, "t-1", "unseen")
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    pushes = wire.pushes
    for number in range(5):
        receipt = say(agent, "t-1", f"unseen {number}")
    expect(page.locator("#live")).to_have_text("Behind 5", timeout=15_000)
    assert wire.pushes == pushes
    page.evaluate(
        "() => { window.seen = 'visible';"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    assert wire.pushes == pushes + 1


def test_focus_survives_a_push(page: Page, agent: Agent) -> None:
    live(page, f"{THREAD}?view=events")
    link = page.locator("#event-3 a[data-row]")
    link.focus()
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    expect(link).to_be_focused()


def test_what_was_unfolded_stays_open(page: Page, agent: Agent) -> None:
    content = {"tool_calls": [{"name": "look", "arguments": {"far": "x" * 3000}}]}
    say(agent, "t-1", content)
    live(page, THREAD)
    fold = page.locator("#said-2 details").first
    before = fold.get_attribute("open")
    fold.locator("summary").click()
    say(agent, "t-1", "three")
    expect(page.locator("#said-3")).to_have_count(1)
    after = page.locator("#said-2 details").first.get_attribute("open")
    assert (before is None) != (after is None)


@pytest.mark.promise("P28", load="2,000 events in a burst, in a browser")
def test_burst_loses_nothing(page: Page, agent: Agent) -> None:
    """Every event was shown or named as passed; then the page equals a fresh one."""
    live(page, f"{THREAD}?view=events")
    first = shown(page, "events")
    page.evaluate(
        """() => {
          window.rows = new Set();
          const note = () => document.querySelectorAll("#events li[id]").forEach(
            (row) => window.rows.add(Number(row.id.slice(6))));
          new MutationObserver(note).observe(
            document.getElementById("events-frame"), {childList: true, subtree: true});
          note();
        }"""
    )
    last = first
    for number in range(0, 2000, 20):
        texts = [f"message {each}" for each in range(number, number + 20)]
        last = say(agent, "t-1", *texts).seq
    expect(page.locator("#events")).to_have_attribute("data-seq", str(last))
    seen = set(page.evaluate("() => [...window.rows]"))
    hole = set(range(1, last + 1)) - seen
    passed = page.locator("#events-gap").get_attribute("data-passed")
    assert len(hole) == int(passed or 0)
    rows = page.locator("#events li").all_inner_texts()
    page.reload()
    assert [ageless(row) for row in rows] == [
        ageless(row) for row in page.locator("#events li").all_inner_texts()
    ]


def ageless(row: str) -> str:
    return re.sub(r"\bnow\b|\d+ (s|min) ago", "", row)


def test_a_lost_session_is_said(page: Page, watched: Watched, server: str) -> None:
    live(page, THREAD)
    other = page.context.new_page()
    watched.watch(other)
    other.goto("/p/acme/threads")
    other.locator(".rail details.menu summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect(page.locator("#live")).to_have_text("Signed out", timeout=15_000)


def test_without_a_socket_panels_are_fetched(page: Page, agent: Agent) -> None:
    """Where sockets don't get through, the page goes on by plain requests."""
    page.route_web_socket(re.compile("/ws/live/"), lambda route: route.close(code=1011))
    page.goto(f"{THREAD}?view=events")
    expect(page.locator("#live")).to_have_text("Polling", timeout=15_000)
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    expect(page.locator("#events")).to_have_attribute("data-seq", str(receipt.seq))


def test_a_page_outlives_its_server(chromium: Browser, tmp_path: Path) -> None:
    """Killed and started again, the server finds the page where it left it."""
    with instance(tmp_path / "instance") as made:
        made.managed("create_project", "acme")
        key = made.managed("create_key", "acme").strip()
        with made.serve() as server:
            append(server, key, "one")
            page = chromium.new_context(base_url=server.url).new_page()
            link = made.managed("signin").split()[-1]
            page.goto(urlsplit(link).path)
            page.wait_for_url("**/p/acme/")
            live(page, f"{THREAD}?view=events")
            server.kill()
            expect(page.locator("#live")).to_have_text(re.compile("Stale since"))
        with made.serve(port=server.port) as server:
            last = append(server, key, "two")
            expect(page.locator(f"#event-{last}")).to_have_count(1, timeout=20_000)
            expect(page.locator("#live")).to_have_text("Live", timeout=20_000)
            page.context.close()


def append(server: Server, key: str, content: str) -> int:
    with Client(server.port, key) as client:
        answer = client.append("t-1", content)
    assert answer.status == 201
    seq: int = answer.body["seq"]
    return seq
