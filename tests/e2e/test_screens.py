"""Every screen in both themes: axe has nothing to say, 320 px are enough."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize

from memoryhub.kernel.events import LabelValue
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services import operator_threads
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.e2e.conftest import AXE, picture
from tests.inspector.paged import make_paged
from tests.inspector.remembered import make_busy, make_desk

TAGS = [
    "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice",
]  # fmt: skip
SCREENS = {
    "sign-in": "/sign-in",
    "second-factor": "/second-factor",
    "overview": "/p/acme/",
    "threads": "/p/acme/threads",
    "threads-none": "/p/acme/threads?q=zz",
    "threads-error": "/p/acme/threads?q=stauts:open",
    "timeline": "/p/acme/threads/talk",
    "timeline-as-of": "/p/acme/threads/talk?at_seq=4&open=2",
    "timeline-messages": "/p/acme/threads/talk?at_seq=5&tab=messages",
    "timeline-compared": "/p/acme/threads/talk?at_seq=6&base=3&open=5,6",
    "events": "/p/acme/threads/talk/events?q=noun:slot",
    "events-none": "/p/acme/threads/talk/events?q=noun:run&at_seq=4",
    "events-error": "/p/acme/threads/talk/events?q=nuon:slot",
    "conversation": "/p/acme/threads/talk/slots",
    "conversation-fork": "/p/acme/threads/talk.alt/slots",
    "slot": "/p/acme/threads/talk/slots/2",
    "event": "/p/acme/threads/talk/events/4",
    "tail": "/p/acme/threads/talk/tail",
    "forks": "/p/acme/threads/talk/forks",
    "fork-form": "/p/acme/threads/talk/fork",
    "close-form": "/p/acme/threads/talk/close",
    "retention-form": "/p/acme/threads/talk/retention",
    "threads-assumed": "/p/acme/threads?q=due:30d&retention_idle_days=7",
    "imports": "/p/acme/imports",
    "settings": "/p/acme/settings",
    "settings-preview": "/p/acme/settings?retention_idle_days=7",
    "settings-error": "/p/acme/settings?retention_idle_days=0",
    "api-keys": "/p/acme/api-keys",
    "api-key-new": "/p/acme/api-keys/new",
    "members": "/p/acme/members",
    "member-new": "/p/acme/members/new",
    "audit": "/p/acme/audit",
    "audit-none": "/p/acme/audit?q=tombstone",
    "audit-error": "/p/acme/audit?q=action:hold.opend",
    "audit-entry": "/p/acme/audit/3",
    "health": "/p/acme/health",
    "timeline-working-set": "/p/acme/threads/paged?tab=working-set&at_seq=40",
    "working-set": "/p/acme/threads/paged/working-set",
    "working-set-none": "/p/acme/threads/talk.alt/working-set?at_seq=1",
    "pages": "/p/acme/threads/paged/pages",
    "pages-error": "/p/acme/threads/paged/pages?q=teir:L0",
    "page": "/p/acme/threads/paged/pages/policy",
    "page-evicted": "/p/acme/threads/paged/pages/slot-5",
    "page-unpin": "/p/acme/threads/paged/pages/policy/unpin",
    "page-map": "/p/acme/threads/paged/pages/slot-5/map?level=2",
    "page-evict-refused": "/p/acme/threads/paged/pages/policy/evict",
    "page-delete": "/p/acme/threads/paged/pages/policy/delete",
    "keys": "/p/acme/threads/desk/keys",
    "keys-none": "/p/acme/threads/talk/keys",
    "keys-busy": "/p/acme/threads/busy/keys",
    "keys-search": "/p/acme/threads/desk/keys?q=ttl:never&at_seq=16",
    "keys-error": "/p/acme/threads/desk/keys?q=tpye:object",
    "key": "/p/acme/threads/desk/keys/cart",
    "key-gone": "/p/acme/threads/desk/keys/quote",
    "key-set": "/p/acme/threads/desk/keys/cart/set",
    "key-retime": "/p/acme/threads/desk/keys/token/retime",
    "key-delete": "/p/acme/threads/desk/keys/seat/delete",
    "task": "/p/acme/threads/desk/task",
    "task-none": "/p/acme/threads/talk/task",
    "task-busy": "/p/acme/threads/busy/task",
    "notes": "/p/acme/threads/desk/notes",
    "notes-none": "/p/acme/threads/talk/notes",
    "notes-busy": "/p/acme/threads/busy/notes",
    "notes-paused": "/p/acme/threads/desk/notes?at_seq=11#note-11",
    "notes-search": "/p/acme/threads/desk/notes?q=seq:5..11",
    "checkpoints": "/p/acme/threads/desk/checkpoints?auto=1",
    "checkpoints-none": "/p/acme/threads/talk/checkpoints",
    "checkpoint-take": "/p/acme/threads/desk/checkpoints/take",
    "checkpoint-delete": "/p/acme/threads/desk/checkpoints/7/delete",
    "restore": "/p/acme/threads/desk/checkpoints/12/restore",
    "restore-frames": "/p/acme/threads/desk/checkpoints/12/restore?part=frames",
    "restored": "/p/acme/threads/desk/events/15",
    "compare": "/p/acme/threads/desk/compare?a=7&b=12&values=1",
    "compare-none": "/p/acme/threads/talk/compare",
    "timeline-memory": "/p/acme/threads/desk?tab=working-memory",
    "turns": "/p/acme/threads/paged/turns",
    "turns-none": "/p/acme/threads/talk/turns",
    "turn": "/p/acme/threads/paged/turns/7",
    "turn-faults": "/p/acme/threads/paged/turns/6",
    "turn-diff": "/p/acme/threads/paged/turns/8/diff?base=5",
    "turn-prefix": "/p/acme/threads/paged/turns/8/prefix",
    "prefixes": "/p/acme/threads/paged/prefix",
    "paging": "/p/acme/threads/paged/paging",
    "paging-none": "/p/acme/threads/talk.alt/paging",
    "paging-settings": "/p/acme/threads/paged/paging/settings",
    "not-found": "/p/acme/threads/nobody",
}
EXPECTED = {
    "threads-error": "422",
    "events-error": "422",
    "settings-error": "422",
    "pages-error": "422",
    "keys-error": "422",
    "audit-error": "422",
    "not-found": "404",
}
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 320, "height": 640}
CALL = {
    "role": "assistant",
    "content": "Let me look.",
    "tool_calls": [
        {"id": "c1", "function": {"name": "find", "arguments": '{"number":"PX-7"}'}}
    ],
}
RESULT = {
    "role": "tool",
    "tool_call_id": "c1",
    "content": '{"stops":["Oslo","Bergen"]}',
}


@pytest.fixture
def talk(acme: Project, agent: Agent) -> Thread:
    """A thread with something of everything, a fork of it, and runs of a month ago."""
    with time_machine.travel(timezone.now() - timedelta(days=30), tick=False):
        for n in range(9):
            labels: dict[str, LabelValue] = {"source": f"desk-{n % 2}", "reward": n / 8}
            factories.make_thread(agent, f"desk:{n}:0", labels=labels)
    factories.make_thread(agent, "talk", user_id="ann", labels={"team": "red"})
    factories.append(agent, "talk", "Where is my parcel?", CALL, RESULT, {"any": [1]})
    factories.append(agent, "talk", "\u202eodd\u202c", "x" * 70_000)
    make_paged(agent, "paged", rounds=8)
    make_desk(agent)
    make_busy(agent)
    thread = factories.get_thread(agent, "talk")
    operator_threads.fork(thread, actor="operator:x", name="talk.alt", seq=4)
    return thread


def findings(page: Page) -> list[dict[str, Any]]:
    """What axe has against the page."""
    page.evaluate(AXE.read_text())
    run = "tags => axe.run({runOnly: tags}).then(found => found.violations)"
    found = page.evaluate(run, TAGS)
    return [
        {"id": each["id"], "where": [node["html"][:160] for node in each["nodes"]]}
        for each in found
    ]


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_and_reflow_320(
    talk: Thread, open_page: Callable[..., Page], watched: Any, screen: str
) -> None:
    watched.expected.append(EXPECTED.get(screen, "nothing"))
    page = open_page(viewport=WIDE)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        look(page, screen, theme)
        assert findings(page) == [], theme
    page.set_viewport_size(NARROW)
    look(page, screen, "narrow")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"]


def look(page: Page, screen: str, how: str) -> None:
    page.goto(SCREENS[screen])
    page.wait_for_load_state("networkidle")
    picture(page, f"{screen}-{how}")
