"""Keys of working memory, as operators see and change them."""

from __future__ import annotations

import json
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from memoryhub.kernel.memory.keys import EraseValues
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import key_views, keys
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.paged import text_of
from tests.inspector.remembered import CART, make_desk, put
from tests.oracles import memory_acts
from tests.oracles.memory_acts import MINUTE
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/desk"


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


def fetch_raw(client: Client, path: str, status: int = 200) -> str:
    """Return a page as it comes, nothing unescaped."""
    answer: Any = client.get(path)
    assert answer.status_code == status, path
    return str(answer.content.decode())


def row_of(desk: Thread) -> Thread:
    return Thread.objects.select_related("subject").get(id=desk.id)


def get_version(desk: Thread, key: str) -> int:
    return keys.get_key(row_of(desk), key, content=False).version


def head(desk: Thread) -> int:
    return Thread.objects.get(id=desk.id).head_seq


def fetch_export(client: Client, path: str) -> str:
    answer: Any = client.get(path)
    assert answer.status_code == 200, path
    return b"".join(answer.streaming_content).decode()


def test_key_list_shows_every_key(viewer: Client, desk: Thread) -> None:
    page = text_of(viewer, f"{T}/keys")
    for name in ("cart", "seat", "token"):
        assert f'href="{T}/keys/{name}"' in page
    # The restore removed the key.
    assert "/keys/quote" not in page
    assert 'data-live="keys"' in page
    assert page.count("data-until") == 1
    assert "agent_type%3Asupport" in page
    assert "session%3Amonday" in page
    as_of = text_of(viewer, f"{T}/keys?at_seq=10")
    assert "/keys/quote?at_seq=10" in as_of
    assert "data-until" not in as_of


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name:s*", ["seat"]),
        ("t", ["token"]),
        ("ttl:<2m", ["token"]),
        ("ttl:never", ["cart", "seat"]),
        ("ttl:>2m", ["cart", "seat"]),
        ("-ttl:never size:<1k", ["token"]),
        ("size:<100", ["seat", "token"]),
        ("size:>1k", []),
    ],
)
def test_key_search_finds_keys(
    viewer: Client, desk: Thread, query: str, found: list[str]
) -> None:
    listed = fetch_export(viewer, f"{T}/keys.ndjson?q={query}").splitlines()
    assert [json.loads(line)["key"] for line in listed] == found
    page = text_of(viewer, f"{T}/keys?q={query}")
    shown = [n for n in ("cart", "quote", "seat", "token") if f"/keys/{n}" in page]
    assert shown == found
    assert 'data-live="keys"' not in page


def test_key_search_matches_names_by_glob(viewer: Client, desk: Thread) -> None:
    def list_found_keys(query: str) -> list[str]:
        lines = fetch_export(viewer, f"{T}/keys.ndjson?{query}").splitlines()
        return [json.loads(line)["key"] for line in lines]

    assert list_found_keys("glob=?o*") == ["token"]
    assert list_found_keys("glob=[c-s]*") == ["cart", "seat"]
    assert list_found_keys("glob=[c-s]*&q=size:<100") == ["seat"]
    assert list_found_keys("glob=sea") == []
    page = text_of(viewer, f"{T}/keys?glob=[c-s]*")
    assert "/keys/seat" in page
    assert "/keys/token" not in page
    assert 'value="[c-s]*"' in page
    assert "keys.csv?q=&" not in page
    assert "at most 128 characters" in text_of(viewer, f"{T}/keys?glob={'?' * 9}", 422)
    assert viewer.get(f"{T}/keys.json?glob={'?' * 9}").status_code == 422


def test_unreadable_key_search_suggests_a_correction(
    viewer: Client, desk: Thread
) -> None:
    page = text_of(viewer, f"{T}/keys?q=szie:<9", 422)
    assert "Did you mean" in page
    assert "/keys/cart" not in page
    assert viewer.get(f"{T}/keys?q=ttl:soon").status_code == 422


def test_key_pages_hold_all_keys_in_every_order(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    sizes = [
        json.loads(n)["key"]
        for n in fetch_export(viewer, f"{T}/keys.ndjson?sort=size").splitlines()
    ]
    assert sizes == ["cart", "seat", "token"]
    for n in range(60):
        put(agent, f"k{n:02}", n)
    page = text_of(viewer, f"{T}/keys")
    assert "The first 50 by name" in page
    first = viewer.get(f"{T}/keys?all=1&limit=40")
    following = unescape(first.content.decode()).split('rel="next"')[0]
    query = following.rsplit('href="?', 1)[1].split('"')[0]
    rest = text_of(viewer, f"{T}/keys?{query}&limit=40")
    names = ["cart", "seat", "token", *(f"k{n:02}" for n in range(60))]
    both = unescape(first.content.decode()) + rest
    assert all(both.count(f'/keys/{name}"') == 1 for name in names)


def test_key_exports_hold_values_only_on_request(viewer: Client, desk: Thread) -> None:
    plain = fetch_export(viewer, f"{T}/keys.csv").splitlines()
    assert plain[0].startswith("thread,key,bytes,version,expires_at")
    assert "12A" not in "".join(plain)
    whole = [
        json.loads(line)
        for line in fetch_export(viewer, f"{T}/keys.ndjson?content=1").splitlines()
    ]
    assert {each["key"]: each["value"] for each in whole} == {
        "cart": CART,
        "seat": "12A",
        "token": "t-0",
    }
    batch = json.loads(viewer.get(f"{T}/keys.json?q=seat").content)
    assert [each["key"] for each in batch["items"]] == ["seat"]
    assert batch["next"] is None


def test_key_page_shows_the_whole_value_inert(viewer: Client, desk: Thread) -> None:
    page = fetch_raw(viewer, f"{T}/keys/cart")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert ">RLO<" in page
    told = unescape(page)
    # Set, deleted, brought back: newest first.
    assert told.index("checkpoint.restored") < told.index("key.deleted")
    assert told.index("key.deleted") < told.index("key.set")
    seat = text_of(viewer, f"{T}/keys/seat")
    assert "12A" in seat
    assert "14C" in text_of(viewer, f"{T}/keys/seat?at_seq=9")


def test_deleted_key_keeps_its_history(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    gone = text_of(viewer, f"{T}/keys/quote")
    assert "Not there now" in gone
    assert "checkpoint.restored" in gone
    assert "129.9" in text_of(viewer, f"{T}/keys/quote?at_seq=10")
    with time_machine.travel(timezone.now() + timedelta(minutes=2), tick=False):
        passed = text_of(viewer, f"{T}/keys/token")
        assert "It expired" in passed
        assert "/keys/token" not in text_of(viewer, f"{T}/keys")
    text_of(viewer, f"{T}/keys/never-was", 404)
    # A key that is set later has a page, unlike one that never was.
    early = text_of(viewer, f"{T}/keys/token?at_seq=3")
    assert "Not there as of this event" in early
    # The history omits a key whose name differs in case only.
    put(agent, "SEAT", 1)
    steps = key_views.get_view(factories.get_thread(agent, "desk"), "SEAT").history
    assert [each.step.type for each in steps] == ["key.set"]


def test_erased_key_value_is_said_to_be_gone(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    seq = put(agent, "brief", "soon gone", ttl=MINUTE)
    with time_machine.travel(timezone.now() + 2 * MINUTE, tick=False):
        due = EraseValues(seqs=(seq,), grace=timedelta())
        assert act(agent, due, "desk").events
    page = text_of(viewer, f"{T}/keys/brief?at_seq={seq}", 410)
    assert "has left the journal" in page
    assert "soon gone" not in page


def test_key_history_includes_restores_and_clears(agent: Agent, desk: Thread) -> None:
    """A restore or a clear is in the history of the keys that it changed only."""
    memory_acts.clear(agent, "desk")
    put(agent, "late", 1)
    row = factories.get_thread(agent, "desk")
    told = {
        name: [each.step.type for each in key_views.get_view(row, name).history]
        for name in ("late", "seat", "quote")
    }
    assert told == {
        "late": ["key.set"],
        "seat": ["keys.cleared", "checkpoint.restored", "key.set", "key.set"],
        "quote": ["checkpoint.restored", "key.set"],
    }
    memory_acts.restore(agent, "after", thread="desk")
    row = factories.get_thread(agent, "desk")
    for name in ("quote", "late"):
        newest = key_views.get_view(row, name).history[0]
        assert newest.step.type == "checkpoint.restored"


def test_editor_sets_retimes_and_deletes_a_key(browser: Browser, desk: Thread) -> None:
    editor = browser("editor")
    page = text_of(editor, f"{T}/keys/seat/set")
    assert f'name="version" value="{get_version(desk, "seat")}"' in page
    form = {
        "version": get_version(desk, "seat"),
        "value": '{"row": 3}',
        "expiry": "same",
    }
    answer: Any = editor.post(f"{T}/keys/seat/set", form)
    where = f"{T}/keys/seat?saved=19"
    assert (answer.status_code, answer.headers["Location"]) == (302, where)
    row = row_of(desk)
    assert keys.get_key(row, "seat").value == {"row": 3}
    assert keys.get_key(row, "seat").set_by.startswith("operator:")
    form = {
        "version": get_version(desk, "seat"),
        "expiry": "ttl",
        "count": 2,
        "unit": "h",
    }
    assert editor.post(f"{T}/keys/seat/retime", form).status_code == 302
    until = keys.get_key(row_of(desk), "seat").expires_at
    assert until is not None
    # A key saved with the expiry "same" keeps its instant.
    form = {"version": get_version(desk, "seat"), "value": "null", "expiry": "same"}
    assert editor.post(f"{T}/keys/seat/set", form).status_code == 302
    assert keys.get_key(row_of(desk), "seat").expires_at == until
    form = {"version": get_version(desk, "seat"), "expiry": "never"}
    assert editor.post(f"{T}/keys/seat/retime", form).status_code == 302
    assert keys.get_key(row_of(desk), "seat").expires_at is None
    form = {"version": get_version(desk, "seat")}
    answer = editor.post(f"{T}/keys/seat/delete", form)
    assert answer.headers["Location"] == f"{T}/keys/seat?saved=23"
    text_of(editor, f"{T}/keys/seat/set", 404)
    text_of(editor, f"{T}/keys/cart/praise", 404)


def test_value_form_escapes_hidden_characters(browser: Browser, desk: Thread) -> None:
    """Saving the form unchanged keeps the value."""
    page = text_of(browser("editor"), f"{T}/keys/cart/set")
    text = page.split("<textarea", 1)[1].split(">", 1)[1].split("</textarea>")[0]
    assert r"\u202eodd\u202c" in text
    assert "\u202e" not in text
    form = {"version": get_version(desk, "cart"), "value": text, "expiry": "same"}
    assert browser("editor").post(f"{T}/keys/cart/set", form).status_code == 302
    assert keys.get_key(row_of(desk), "cart").value == CART


@pytest.mark.parametrize("verb", ["set", "retime", "delete"])
def test_conflicting_key_edit_is_409_and_shown_anew(
    browser: Browser, agent: Agent, desk: Thread, verb: str
) -> None:
    editor, seen = browser("editor"), get_version(desk, "seat")
    put(agent, "seat", "9F")
    before = head(desk)
    form = {"version": seen, "value": '"1A"', "expiry": "never"}
    answer: Any = editor.post(f"{T}/keys/seat/{verb}", form)
    assert answer.status_code == 409
    page = unescape(answer.content.decode())
    assert "has changed since you looked" in page
    assert f'name="version" value="{get_version(desk, "seat")}"' in page
    if verb == "set":
        # The typed value stays, beside the current one.
        assert '"1A"</textarea>' in page
        assert '"9F"' in page
    assert editor.post(f"{T}/keys/seat/{verb}", {"expiry": "never"}).status_code == 409
    assert head(desk) == before


@pytest.mark.parametrize("verb", ["set", "retime", "delete"])
def test_edit_of_a_key_deleted_meanwhile_names_the_deletion(
    browser: Browser, agent: Agent, desk: Thread, verb: str
) -> None:
    editor, seen = browser("editor"), get_version(desk, "seat")
    memory_acts.delete_key(agent, "seat", thread="desk")
    form = {"version": seen, "value": '"1A"', "expiry": "never"}
    pages = [text_of(editor, f"{T}/keys/seat/{verb}", 404)]
    if verb != "set":
        answer: Any = editor.post(f"{T}/keys/seat/{verb}", form)
        assert answer.status_code == 404
        pages.append(unescape(answer.content.decode()))
    for page in pages:
        assert "There is nothing to change" in page
        took = f'<a href="{T}/events/{head(desk)}">event {head(desk)}</a>'
        assert f"removed it at {took}: deleted" in page
        assert f'href="{T}/keys">All keys of this thread' in page
        assert 'aria-label="Views of this thread"' in page


@pytest.mark.parametrize(
    ("verb", "form", "status"),
    [
        ("set", {"value": "{", "expiry": "never"}, 422),
        ("set", {"value": "NaN", "expiry": "never"}, 422),
        ("set", {"value": "", "expiry": "never"}, 422),
        ("set", {"value": '{"a":1,"a":2}', "expiry": "never"}, 422),
        ("set", {"value": "1", "expiry": "ttl", "count": "0", "unit": "s"}, 422),
        ("set", {"value": "1", "expiry": "ttl", "count": "366", "unit": "d"}, 422),
        ("set", {"value": "1", "expiry": "soon"}, 422),
        ("set", {"value": f'"{"x" * 262_144}"', "expiry": "never"}, 413),
        ("retime", {"expiry": "ttl", "count": "-1", "unit": "h"}, 422),
        ("retime", {"expiry": "ttl", "count": "1", "unit": "y"}, 422),
    ],
)
def test_invalid_key_value_is_explained_in_the_form(
    browser: Browser, desk: Thread, verb: str, form: dict[str, str], status: int
) -> None:
    before = head(desk)
    sent = {"version": get_version(desk, "seat"), **form}
    answer: Any = browser("editor").post(f"{T}/keys/seat/{verb}", sent)
    assert answer.status_code == status
    assert 'role="alert"' in answer.content.decode()
    assert head(desk) == before


def test_viewer_sees_no_key_form_and_changes_nothing(
    viewer: Client, desk: Thread
) -> None:
    assert f"{T}/keys/seat/set" not in text_of(viewer, f"{T}/keys/seat")
    for verb in ("set", "retime", "delete"):
        assert viewer.get(f"{T}/keys/seat/{verb}").status_code == 403
        answer = viewer.post(f"{T}/keys/seat/{verb}", {"version": "1"})
        assert answer.status_code == 403
    assert head(desk) == desk.head_seq


def test_inherited_key_is_retimed_in_the_fork_only(
    browser: Browser, desk: Thread
) -> None:
    """The fork writes the value anew, since the ancestor's may be erased later."""
    operator_threads.fork(row_of(desk), actor="operator:x", name="alt", seq=3)
    alt, editor = "/p/acme/threads/alt", browser("editor")
    fork = Thread.objects.get(name="alt")
    page = text_of(editor, f"{alt}/keys/seat")
    assert "value inherited" in page
    assert "No events in this thread" in page
    assert get_version(fork, "seat") == 0
    form = {"version": "0", "expiry": "ttl", "count": "1", "unit": "d"}
    assert editor.post(f"{alt}/keys/seat/retime", form).status_code == 302
    line = keys.get_key(row_of(fork), "seat")
    assert (line.value, line.inherited) == ("12A", False)
    assert keys.get_key(row_of(desk), "seat").expires_at is None
    text_of(editor, f"{alt}/keys")


@pytest.mark.parametrize("count", [3, 40])
def test_key_list_and_key_page_cost_the_same_at_any_size(
    agent: Agent, count: int, django_assert_num_queries: Any
) -> None:
    factories.make_thread(agent, "big")
    for n in range(count):
        put(agent, f"k{n}", n, thread="big")
    row = factories.get_thread(agent, "big")
    keys.list_keys(row)
    with django_assert_num_queries(1):
        keys.list_keys(row, limit=200)
    with django_assert_num_queries(2):
        keys.list_keys(row, values=True, limit=200)
    with django_assert_num_queries(4):
        key_views.get_view(row, "k1")
