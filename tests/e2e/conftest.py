"""A real browser before a real server, which runs in a thread of the test process."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from channels.layers import channel_layers
from django.conf import settings
from django.db import connections
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from inspector.access import sign_in
from memoryhub import journal
from memoryhub.journal import Order, OrderReceipt
from memoryhub.kernel.commands import AppendSlots
from memoryhub.management.serving import server as serving
from memoryhub.models.projects import Project
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent.parent / "vendor/axe-core-4.14.1/axe.min.js"
#: Script that logs a page's silent errors to the console.
WATCH = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI));
document.addEventListener("htmx:oobErrorNoTarget", () => console.error("no target"));
"""
#: Message of htmx on a failed request; `Watched` gets the cause from the browser.
DROPPED = ("htmx:afterRequest", "htmx:sendError", "htmx:sendAbort")
WAIT_SECONDS = 20
#: Timeout in milliseconds of any browser act, on two shared cores.
PATIENCE = 30_000
expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        item.add_marker(pytest.mark.browser)
        if item.path.is_relative_to(here / "screens"):
            continue  # of an instance of theirs
        item.add_marker(pytest.mark.django_db(transaction=True), append=False)


@dataclass(kw_only=True)  # Playwright hangs its wrappers on the instance
class Watched:
    """Recorder of browser errors, and of the addresses that the browser asked for."""

    problems: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    #: Parts of messages that a test provokes on purpose.
    expected: list[str] = field(default_factory=list)
    #: Addresses that the browser may ask, beside the server's first.
    others: list[str] = field(default_factory=list)

    def unexpected(self) -> list[str]:
        return [
            problem
            for problem in self.problems
            if not any(part in problem for part in self.expected)
        ]

    def watch(self, page: Page) -> None:
        page.add_init_script(WATCH)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", lambda request: self.urls.append(request.url))
        page.on("requestfailed", self._note_failure)
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(DROPPED):
            url = message.location.get("url", "")
            self.problems.append(f"console: {message.text} {url}")

    def _note_failure(self, request: Request) -> None:
        # A page that the browser leaves aborts its requests.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url} {request.failure}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        missing = "no chromium on PATH: the browser tests do not run"
        if os.environ.get("MEMORYHUB_TEST_ALL") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser
        browser.close()
        # Connections made under Playwright's loop, which ends here.
        connections.close_all()


@pytest.fixture
def server(servers: tuple[str, str]) -> str:
    """Serve the whole application; return its address."""
    return servers[0]


@pytest.fixture
def servers(transactional_db: None) -> Iterator[tuple[str, str]]:
    """Serve the whole application on two free ports; return the addresses.

    Name fixtures that write to the left, so that they run before the server starts.
    """
    sign_in.link_limit.forget()
    # The in-memory channel layer belongs to the loop that first used it.
    channel_layers.backends.clear()
    bound, listening = [serving.bind("127.0.0.1", 0) for _ in "ab"], threading.Event()
    running = serving.build_server(listening=listening.set)
    thread = threading.Thread(
        target=running.run, kwargs={"sockets": bound}, name="server", daemon=True
    )
    thread.start()
    assert listening.wait(WAIT_SECONDS)
    yield serving.build_url(bound[0]), serving.build_url(bound[1])
    running.stop()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    channel_layers.backends.clear()


@pytest.fixture
def watched(server: str) -> Iterator[Watched]:
    """Fail the test on any complaint of the browser."""
    watching = Watched()
    yield watching
    assert watching.unexpected() == []
    servers = (server, *watching.others)
    sockets = (each.replace("http", "ws", 1) for each in servers)
    own = (*servers, *sockets, "data:", "about:", "blob:")
    assert [url for url in watching.urls if not url.startswith(own)] == []


@pytest.fixture
def open_page(
    chromium: Browser, server: str, watched: Watched, acme: Project
) -> Iterator[Callable[..., Page]]:
    """Return a function that opens signed-in pages with browser context options."""
    contexts = []

    def open_page(role: str = "owner", **options: Any) -> Page:
        context = chromium.new_context(base_url=server, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        watched.watch(page)
        operator = operators.find(role) or operators.add(role)
        operators.set_role(acme, operator, role)
        page.goto(f"/sign-in/{operators.make_link(operator)}")
        if options.get("java_script_enabled") is False:
            page.click("main button")
        page.wait_for_url("**/p/acme/")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


def say(agent: Agent, thread: str, *contents: Any, **fields: Any) -> OrderReceipt:
    """Append messages through the writer of the running server."""
    made = tuple(factories.make_slot(content, **fields) for content in contents)
    address = agent.address(thread, birth=agent.build_birth())
    command = AppendSlots(slots=made)
    return journal.perform(Order(address=address, command=command, actor=agent.actor))


def save_picture(page: Page, name: str) -> None:
    """Save a screenshot to the artefacts folder."""
    where = os.environ.get("MEMORYHUB_ARTEFACTS", settings.BASE_DIR / "var/artefacts")
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
