"""Every screen in both themes: axe, and reflow at 320 px."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Watched
from tests.e2e.screens.conftest import WIDE, check

WORLD = "make_talk"
SCREENS = {
    "sign-in": "/sign-in",
    "second-factor": "/second-factor",
    "overview": "/p/acme/",
    "overview-month": "/p/acme/?range=30d&chart=calls",
    "refusals": "/p/acme/refusals?range=24h",
    "threads": "/p/acme/threads",
    "threads-none": "/p/acme/threads?q=zz",
    "threads-error": "/p/acme/threads?q=stauts:open",
    "replay": "/p/acme/threads/talk",
    "replay-as-of": "/p/acme/threads/talk?at_seq=4&view=events&open=2",
    "replay-changes": "/p/acme/threads/talk?at_seq=5&tab=changes",
    "replay-compared": "/p/acme/threads/talk?at_seq=6&base=3&view=events&open=5,6",
    "events": "/p/acme/threads/talk/events?q=noun:slot",
    "events-none": "/p/acme/threads/talk/events?q=noun:run&at_seq=4",
    "events-error": "/p/acme/threads/talk/events?q=nuon:slot",
    "conversation": "/p/acme/threads/talk/slots",
    "conversation-fork": "/p/acme/threads/talk.alt/slots",
    "slot": "/p/acme/threads/talk/slots/2",
    "event": "/p/acme/threads/talk/events/4",
    "replay-events": "/p/acme/threads/talk?view=events",
    "forks": "/p/acme/threads/talk/forks",
    "fork-form": "/p/acme/threads/talk/fork",
    "close-form": "/p/acme/threads/talk/close",
    "retention-form": "/p/acme/threads/talk/retention",
    "threads-assumed": "/p/acme/threads?q=due:30d&retention_idle_days=7",
    "imports": "/p/acme/imports",
    "connect": "/p/acme/connect",
    "connect-begun": "/p/acme/connect?since=2001-01-01T00:00:00%2B00:00",
    "search": "/p/acme/search",
    "words": "/p/acme/words",
    "settings": "/p/acme/settings",
    "settings-preview": "/p/acme/settings?retention_idle_days=7",
    "settings-error": "/p/acme/settings?retention_idle_days=0",
    "api-keys": "/p/acme/api-keys",
    "api-key-new": "/p/acme/api-keys/new",
    "project-new": "/projects/new",
    "members": "/p/acme/members",
    "member-new": "/p/acme/members/new",
    "audit": "/p/acme/audit",
    "audit-none": "/p/acme/audit?q=tombstone",
    "audit-error": "/p/acme/audit?q=action:hold.opend",
    "audit-entry": "/p/acme/audit/3",
    "health": "/p/acme/health",
    "replay-working-set": "/p/acme/threads/paged?at_seq=40",
    "paging-by-event": "/p/acme/threads/paged/paging?by=event",
    "replay-none": "/p/acme/threads/talk.alt?at_seq=1",
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
    "keys-error": "/p/acme/threads/desk/keys?q=szie:<9",
    "key": "/p/acme/threads/desk/keys/cart",
    "key-gone": "/p/acme/threads/desk/keys/quote",
    "key-set": "/p/acme/threads/desk/keys/cart/set",
    "key-retime": "/p/acme/threads/desk/keys/voucher/retime",
    "key-delete": "/p/acme/threads/desk/keys/seat/delete",
    "key-add": "/p/acme/threads/desk/add-key",
    "keys-clear": "/p/acme/threads/desk/clear-keys",
    "task-edit": "/p/acme/threads/desk/task/edit",
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
    "replay-memory": "/p/acme/threads/desk?tab=memory",
    "turns": "/p/acme/threads/paged/turns",
    "turns-none": "/p/acme/threads/talk/turns",
    "turn": "/p/acme/threads/paged/turns/7",
    "turn-faults": "/p/acme/threads/paged/turns/6",
    "turn-request": "/p/acme/threads/paged/turns/7/request",
    "turn-diff": "/p/acme/threads/paged/turns/8/diff?base=5",
    "turn-missing": "/p/acme/threads/paged/turns/7/missing",
    "turn-prefix": "/p/acme/threads/paged/turns/8/prefix",
    "prefixes": "/p/acme/threads/paged/prefix",
    "paging": "/p/acme/threads/paged/paging",
    "paging-none": "/p/acme/threads/talk.alt/paging",
    "paging-settings": "/p/acme/threads/paged/paging/settings",
    "not-found": "/p/acme/threads/nobody",
}
#: Screens that `make test` checks; a fault of all screens shows on these.
FEW = {"overview", "threads", "conversation", "page", "turn"}
EXPECTED = {
    "threads-error": "422",
    "events-error": "422",
    "settings-error": "422",
    "pages-error": "422",
    "keys-error": "422",
    "audit-error": "422",
    "not-found": "404",
}


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param(each, marks=() if each in FEW else pytest.mark.slow)
        for each in SCREENS
    ],
)
def test_screens_pass_axe_and_reflow_at_320_px(
    open_page: Callable[..., Page], watched: Watched, screen: str
) -> None:
    watched.expected.append(EXPECTED.get(screen, "nothing"))
    check(open_page(viewport=WIDE), SCREENS[screen], screen)
