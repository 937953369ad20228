from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from channels.layers import InMemoryChannelLayer
from playwright.sync_api import Browser, Page, WebSocketRoute, expect
from pytest_django import Settings

from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.e2e.conftest import Watched, say
from tests.harness.instances import Server, instance
from tests.promises.journal.clients import Client

THREAD = "/p/acme/threads/t-1"
#: What is on screen is that old at most, or says that it is.
FRESH_SECONDS = 5.0
BURST = 2_000
#: Of the notices; which ones is the seed's choice.
LOST, CHANCE = 0.3, random.Random(28)
OpenPage = Callable[..., Page]


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> Thread:
    factories.append(agent, "t-1", "one", "two")
    return factories.get_thread(agent)


class Wire:
    """Socket of a page that a test can freeze, so that no message passes."""

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


def open_live_page(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("#live")).to_have_text("Live")


def get_shown_seq(page: Page, panel: str) -> int:
    return int(page.locator(f"#{panel}").get_attribute("data-seq") or 0)


def test_append_appears_without_a_reload(page: Page, agent: Agent) -> None:
    open_live_page(page, f"{THREAD}?view=events")
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_contain_text("three")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_thread_list_updates_rows_in_place(page: Page, agent: Agent) -> None:
    open_live_page(page, "/p/acme/threads")
    row = page.locator("[data-live=row]")
    say(agent, "t-1", "three", "four")
    expect(row.locator("[data-label=slots]")).to_contain_text("4")


def test_thread_list_announces_new_threads(page: Page, agent: Agent) -> None:
    open_live_page(page, "/p/acme/threads")
    say(agent, "t-new", "hello")
    expect(page.locator("#fresh")).to_contain_text("1 new or updated", timeout=15_000)


def test_paused_page_stays_unchanged_and_counts_new_events(
    page: Page, agent: Agent
) -> None:
    page.goto(f"{THREAD}?at_seq=2")
    expect(page.locator("#live")).to_have_text("As of event 2 · 1 newer")
    say(agent, "t-1", "three", "four")
    expect(page.locator("#live")).to_have_text("As of event 2 · 3 newer")
    assert get_shown_seq(page, "conversation") == 2


@pytest.mark.promise("P28", load="a frozen socket")
def test_stale_page_says_so_within_5_s(page: Page, wire: Wire) -> None:
    open_live_page(page, THREAD)
    wire.frozen = True
    expect(page.locator("#live")).to_have_text(
        re.compile(r"Stale since \d\d:\d\d:\d\d"), timeout=6_500
    )
    expect(page.locator("html")).to_have_attribute("data-stale", "")
    wire.frozen = False
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("html")).not_to_have_attribute("data-stale", "")


def test_hidden_page_gets_no_push(page: Page, wire: Wire, agent: Agent) -> None:
    """A hidden page gets at most the push under way, and the newest when shown."""
    open_live_page(page, f"{THREAD}?view=events")
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
    open_live_page(page, f"{THREAD}?view=events")
    link = page.locator("#event-3 a[data-row]")
    link.focus()
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    expect(link).to_be_focused()


def test_unfolded_details_stay_open_after_a_push(page: Page, agent: Agent) -> None:
    content = {"tool_calls": [{"name": "look", "arguments": {"far": "x" * 3000}}]}
    say(agent, "t-1", content)
    open_live_page(page, THREAD)
    fold = page.locator("#said-2 details").first
    before = fold.get_attribute("open")
    fold.locator("summary").click()
    say(agent, "t-1", "three")
    expect(page.locator("#said-3")).to_have_count(1)
    after = page.locator("#said-2 details").first.get_attribute("open")
    assert (before is None) != (after is None)


class LossyLayer(InMemoryChannelLayer):
    """Channel layer that loses some of its messages, the last ones of a burst too."""

    #: Of this process, whose server has one layer.
    sent, lost = 0, 0

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        LossyLayer.sent += 1
        if message["seq"] > BURST - 10 or CHANCE.random() < LOST:
            LossyLayer.lost += 1
        else:
            await super().group_send(group, message)


@pytest.fixture
def lossy(settings: Settings) -> Iterator[None]:
    backend = f"{LossyLayer.__module__}.{LossyLayer.__name__}"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend}}
    LossyLayer.sent = LossyLayer.lost = 0
    yield
    # Three of ten, or what few notices make of it.
    assert LossyLayer.sent > 100
    assert 0.15 < LossyLayer.lost / LossyLayer.sent < 0.45


@pytest.mark.promise("P28", load="2,000 events in a burst, in a browser")
def test_burst_of_events_loses_no_event(page: Page, agent: Agent) -> None:
    watch_burst(page, agent)


@pytest.mark.promise("P28", load="2,000 events, 30 % of notices lost, in a browser")
def test_lost_notices_lose_no_event(lossy: None, page: Page, agent: Agent) -> None:
    """No notice tells of the last events, so the server must look by itself."""
    watch_burst(page, agent)


def watch_burst(page: Page, agent: Agent) -> None:
    """Each event is shown or named as passed, in time; then the page is as fresh."""
    open_live_page(page, f"{THREAD}?view=events")
    first = get_shown_seq(page, "events")
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
    for number in range(0, BURST, 20):
        texts = [f"message {each}" for each in range(number, number + 20)]
        last = say(agent, "t-1", *texts).seq
    until = time.monotonic() + FRESH_SECONDS
    while get_shown_seq(page, "events") < last and time.monotonic() < until:
        page.wait_for_timeout(50)
    assert get_shown_seq(page, "events") == last
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


def test_lost_session_is_shown_on_the_open_page(
    page: Page, watched: Watched, server: str
) -> None:
    open_live_page(page, THREAD)
    other = page.context.new_page()
    watched.watch(other)
    other.goto("/p/acme/threads")
    other.locator(".rail details.menu summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect(page.locator("#live")).to_have_text("Signed out", timeout=15_000)


def test_panels_are_polled_when_sockets_fail(page: Page, agent: Agent) -> None:
    """A page whose sockets are blocked polls by plain requests."""
    page.route_web_socket(re.compile("/ws/live/"), lambda route: route.close(code=1011))
    page.goto(f"{THREAD}?view=events")
    expect(page.locator("#live")).to_have_text("Polling", timeout=15_000)
    receipt = say(agent, "t-1", "three")
    expect(page.locator(f"#event-{receipt.seq}")).to_have_count(1)
    expect(page.locator("#events")).to_have_attribute("data-seq", str(receipt.seq))


def test_open_page_survives_a_server_restart(chromium: Browser, tmp_path: Path) -> None:
    """Kill the server and start it again; the open page continues."""
    with instance(tmp_path / "instance") as made:
        made.managed("create_project", "acme")
        key = made.managed("create_key", "acme").strip()
        with made.serve() as server:
            append(server, key, "one")
            page = chromium.new_context(base_url=server.url).new_page()
            link = made.managed("signin").split()[-1]
            page.goto(urlsplit(link).path)
            page.wait_for_url("**/p/acme/")
            open_live_page(page, f"{THREAD}?view=events")
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
