"""Edits of memory by hand: each names its event, and can be undone while current.

Seqs of the key `seat`: 12A (3), 14C (8), brought back by a restore (15); the head
is 18.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from memoryhub.kernel.memory.tasks import ClearTask
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys, tasks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.inspector.conftest import Browser
from tests.inspector.memory.test_keys import T, get_version, head, row_of
from tests.inspector.paged import text_of
from tests.inspector.remembered import HOSTILE, make_desk, put
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


@pytest.fixture
def editor(browser: Browser) -> Client:
    return browser("editor")


def send_form(
    client: Client, path: str, form: dict[str, Any], status: int = 302
) -> str:
    """Send a form; return the address it leads to, or the page that refuses it."""
    answer: Any = client.post(path, form)
    assert answer.status_code == status, answer.content.decode()
    if status == 302:
        return str(answer.headers["Location"])
    return unescape(answer.content.decode())


def edit_seat(client: Client, desk: Thread, text: str = '"9F"') -> str:
    form = {"version": get_version(desk, "seat"), "value": text, "expiry": "same"}
    return send_form(client, f"{T}/keys/seat/set", form)


def fields_of(page: str) -> dict[str, str]:
    """Return the fields of the task form."""
    found = dict(re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', page))
    found |= dict(
        re.findall(r'<textarea id="(\w+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    )
    chosen = re.search(r"<option selected>(\w+)", page)
    assert chosen
    found.pop("act", None)
    return {**found, "status": chosen[1]}


def test_saved_value_names_its_event_and_can_be_undone(
    editor: Client, desk: Thread
) -> None:
    where = edit_seat(editor, desk)
    assert where == f"{T}/keys/seat?saved=19"
    page = text_of(editor, where)
    assert f'<a href="{T}/events/19">event 19</a>' in page
    assert f'action="{T}/events/19/undo"' in page
    assert send_form(editor, f"{T}/events/19/undo", {}) == f"{T}/keys/seat?saved=20"
    assert keys.get_key(row_of(desk), "seat").value == "12A"
    # An undo is an edit as well.
    assert f'action="{T}/events/20/undo"' in text_of(editor, f"{T}/keys/seat?saved=20")


def test_saved_notice_is_shown_only_to_its_operator(
    browser: Browser, editor: Client, desk: Thread
) -> None:
    where = edit_seat(editor, desk)
    assert "Saved as" not in text_of(browser("owner"), where)
    assert "Saved as" not in text_of(browser("viewer"), where)
    for seq in (3, 99, 0):
        assert "Saved as" not in text_of(editor, f"{T}/keys/seat?saved={seq}")
    text_of(editor, f"{T}/keys/seat?saved=x", 422)


def test_undo_is_refused_when_the_key_was_written_since(
    editor: Client, agent: Agent, desk: Thread
) -> None:
    where = edit_seat(editor, desk)
    put(agent, "seat", "3B")
    page = text_of(editor, where)
    assert "Saved as" in page
    assert "changed again since" in page
    assert f"{T}/events/19/undo" not in page
    before = head(desk)
    refused = send_form(editor, f"{T}/events/19/undo", {}, 409)
    assert "Something newer was written since, so nothing was undone." in refused
    assert "3B" in refused
    assert head(desk) == before


def test_added_key_requires_an_unused_name(editor: Client, desk: Thread) -> None:
    assert f'href="{T}/add-key"' in text_of(editor, f"{T}/keys")
    assert 'value="gate"' in text_of(editor, f"{T}/add-key?key=gate")
    form = {
        "key": "gate",
        "value": '{"no": 7}',
        "expiry": "ttl",
        "count": 2,
        "unit": "h",
    }
    assert send_form(editor, f"{T}/add-key", form) == f"{T}/keys/gate?saved=19"
    line = keys.get_key(row_of(desk), "gate")
    assert line.value == {"no": 7}
    assert line.expires_at is not None
    taken = send_form(editor, f"{T}/add-key", form, 409)
    assert f'<a href="{T}/keys/gate">Open it</a>' in taken
    for name in ("", "a b", "_x", "mh.x"):
        refused = send_form(editor, f"{T}/add-key", {**form, "key": name}, 422)
        assert "A name has 1 to 128" in refused
    broken = send_form(
        editor, f"{T}/add-key", {**form, "key": "new", "value": "{\n7"}, 422
    )
    assert "no JSON: it goes wrong at line 2, character 1" in broken
    assert head(desk) == 19
    # The undo deletes the added key.
    send_form(editor, f"{T}/events/19/undo", {})
    assert "Not there now" in text_of(editor, f"{T}/keys/gate")


def test_cleared_keys_are_restored_from_a_checkpoint(
    editor: Client, desk: Thread
) -> None:
    assert f'href="{T}/clear-keys"' in text_of(editor, f"{T}/keys")
    page = text_of(editor, f"{T}/clear-keys")
    assert page.index(">Cancel</a>") < page.index(">Clear 3 keys</button>")
    where = send_form(editor, f"{T}/clear-keys", {})
    assert where == f"{T}/keys?kept=19"
    page = text_of(editor, where)
    assert "All keys were cleared" in page
    undo = f"{T}/checkpoints/19/restore?part=keys"
    assert f'href="{undo}"' in page
    assert "3 to bring back" in text_of(editor, undo)
    send_form(editor, undo, {"seen": 20, "part": "keys"})
    assert keys.count_keys(row_of(desk)) == 3
    operator_threads.close(row_of(desk), actor="operator:x", reason="completed")
    before = head(desk)
    assert "The thread is closed" in send_form(editor, f"{T}/clear-keys", {}, 409)
    assert head(desk) == before


def test_undo_restores_a_deleted_key(editor: Client, desk: Thread) -> None:
    until = keys.get_key(row_of(desk), "token").expires_at
    form = {"version": get_version(desk, "token")}
    where = send_form(editor, f"{T}/keys/token/delete", form)
    page = text_of(editor, where)
    assert "Not there now" in page
    assert f"{T}/add-key?key=token" in page
    send_form(editor, f"{T}/events/19/undo", {})
    line = keys.get_key(row_of(desk), "token")
    assert (line.value, line.expires_at) == ("t-0", until)


def test_key_history_shows_the_value_after_each_event(
    viewer: Client, desk: Thread
) -> None:
    page = text_of(viewer, f"{T}/keys/seat")
    story = page.partition('class="story"')[2]
    lines = re.findall(r"<(del|ins)><i>.</i>([^<]*)</", story)
    # The restore brought 12A back, the second set had made 14C of it.
    assert lines == [
        ("del", '"14C"'), ("ins", '"12A"'), ("del", '"12A"'), ("ins", '"14C"'),
    ]  # fmt: skip
    assert "brought back to a checkpoint" in story
    assert "added, " in story
    assert "Set back" not in story
    # The first event of a key has no earlier value to compare with.
    early = text_of(viewer, f"{T}/keys/seat?at_seq=3").partition('class="story"')[2]
    assert '"12A"' in early
    assert "<del>" not in early


def test_key_is_set_back_to_an_earlier_value(editor: Client, desk: Thread) -> None:
    page = text_of(editor, f"{T}/keys/seat")
    # 12A is the current value, whichever event wrote it.
    assert re.findall(r'name="from" value="(\d+)"', page) == ["8"]
    form = {"version": get_version(desk, "seat"), "from": 8, "expiry": "same"}
    assert send_form(editor, f"{T}/keys/seat/set", form) == f"{T}/keys/seat?saved=19"
    assert keys.get_key(row_of(desk), "seat").value == "14C"
    # The key changed meanwhile: the form keeps the value to set back to.
    stale = send_form(editor, f"{T}/keys/seat/set", form, 409)
    assert '"14C"</textarea>' in stale
    for then in ("x", "9" * 30, "99"):
        assert send_form(editor, f"{T}/keys/seat/set", {**form, "from": then}, 422)
    assert head(desk) == 19


def test_deleted_key_is_set_back(editor: Client, desk: Thread) -> None:
    page = text_of(editor, f"{T}/keys/quote")
    assert '<input type="hidden" name="version" value="none">' in page
    then = re.findall(r'name="from" value="(\d+)"', page)
    form = {"version": "none", "from": then[0], "expiry": "same"}
    send_form(editor, f"{T}/keys/quote/set", form)
    line = keys.get_key(row_of(desk), "quote")
    assert line.value == 129.9
    assert line.expires_at == keys.get_key(row_of(desk), "quote", seq=9).expires_at


def test_key_values_are_listed_and_inert(viewer: Client, desk: Thread) -> None:
    answer: Any = viewer.get(f"{T}/keys")
    page = answer.content.decode()
    assert "<script>alert" not in page
    assert "12A" in page
    assert "&lt;script&gt;" in page
    # Values beyond one line unfold.
    assert page.count("<details><summary><code>") == 1
    assert "14C" in text_of(viewer, f"{T}/keys?at_seq=9")
    assert "12A" in text_of(viewer, f"{T}/keys?q=seat")


def test_task_is_edited_in_all_its_fields(editor: Client, desk: Thread) -> None:
    before = tasks.get_task(row_of(desk))
    page = text_of(editor, f"{T}/task/edit")
    form = fields_of(page)
    assert form["description"] == f"Rebook ann {HOSTILE}"
    # Saving the form unchanged keeps the task.
    assert send_form(editor, f"{T}/task/edit", form) == f"{T}/task"
    assert head(desk) == 18
    changed = {
        **form,
        "status": "blocked",
        "progress_percent": "",
        "data": '{"step": [1, 2]}',
    }
    assert send_form(editor, f"{T}/task/edit", changed) == f"{T}/task?saved=19"
    now = tasks.get_task(row_of(desk))
    assert (now.status, now.progress_percent) == ("blocked", None)
    assert now.data == {"step": [1, 2]}
    assert (now.description, now.started_at) == (before.description, before.started_at)
    page = text_of(editor, f"{T}/task?saved=19")
    assert f'action="{T}/events/19/undo"' in page
    assert send_form(editor, f"{T}/events/19/undo", {}) == f"{T}/task?saved=20"
    undone = tasks.get_task(row_of(desk))
    assert (undone.status, undone.progress_percent) == ("running", 55.0)


def test_task_is_cleared_and_begun_again(editor: Client, desk: Thread) -> None:
    form = fields_of(text_of(editor, f"{T}/task/edit"))
    clear = {"version": form["version"], "act": "clear"}
    assert send_form(editor, f"{T}/task/edit", clear) == f"{T}/task?saved=19"
    assert "Add a task" in text_of(editor, f"{T}/task/edit")
    begun = fields_of(text_of(editor, f"{T}/task/edit"))
    assert begun["version"] == "none"
    assert send_form(editor, f"{T}/task/edit", begun) == f"{T}/task?saved=20"
    assert tasks.get_task(row_of(desk)).status == "pending"
    # The task that the first form showed has changed by now.
    assert "changed since you looked" in send_form(editor, f"{T}/task/edit", clear, 409)


def test_conflicting_task_edit_shows_both_versions(
    editor: Client, agent: Agent, desk: Thread
) -> None:
    form = fields_of(text_of(editor, f"{T}/task/edit"))
    act(agent, ClearTask(), "desk")
    memory_acts.set_task(agent, "desk", status="failed")
    before = head(desk)
    form["description"] = "Typed by hand."
    page = send_form(editor, f"{T}/task/edit", form, 409)
    assert "The task has changed since you looked" in page
    assert "task-failed" in page
    assert "Typed by hand.</textarea>" in page
    assert head(desk) == before
    refused = send_form(editor, f"{T}/events/4/undo", {}, 409)
    assert "nothing was undone" in refused
    assert head(desk) == before


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("status", "done", "from the list"),
        ("description", "x" * 4_097, "at most 4 KiB"),
        ("current_step", "1.5", "whole number"),
        ("current_step", "-1", "whole number"),
        ("progress_percent", "101", "from 0 to 100"),
        ("progress_percent", "1e1", "from 0 to 100"),
        ("started_at", "yesterday", "in UTC"),
        ("started_at", "9999-12-31T23:59:59-23:00", "in UTC"),
        ("data", "[1]", "JSON object"),
        ("data", '{"a": 1, "a": 2}', "stands twice"),
        ("data", "{", "no JSON"),
    ],
)
def test_invalid_task_field_is_explained(
    editor: Client, desk: Thread, field: str, text: str, words: str
) -> None:
    form = fields_of(text_of(editor, f"{T}/task/edit"))
    page = send_form(editor, f"{T}/task/edit", {**form, field: text}, 422)
    assert words in page.partition('role="alert"')[2].partition("</p>")[0]
    assert head(desk) == 18


def test_closed_thread_offers_no_edit(editor: Client, desk: Thread) -> None:
    operator_threads.close(row_of(desk), actor="operator:x", reason="completed")
    for path in ("keys", "keys/seat", "task", "checkpoints"):
        page = text_of(editor, f"{T}/{path}")
        assert "nothing in it can be edited" in page, path
        assert f'action="{T}/reopen"' in page, path
        for word in ("Edit", "Retime", "Delete", "Add a key", "delete…", "Take a"):
            assert word not in page.partition("<main")[2], (path, word)
    for path in ("keys/seat/set", "add-key", "task/edit", "checkpoints/take"):
        refused = text_of(editor, f"{T}/{path}", 409)
        assert "The thread is closed" in refused, path
        where = {"add-key": "keys"}.get(path, path.partition("/")[0])
        assert f'href="{T}/{where}#reopen">Reopen it…' in refused, path
        assert f'href="{T}/fork">Fork it…' in refused, path
        assert f'<li><a href="{T}" data-up>desk</a></li>' in refused, path
    page = text_of(editor, f"{T}/checkpoints")
    assert "A restore reopens the thread, once you confirm it." in page
    form = {"version": get_version(desk, "seat"), "value": "1", "expiry": "never"}
    assert "The thread is closed" in send_form(editor, f"{T}/keys/seat/set", form, 409)
    assert head(desk) == 19


def test_viewer_and_past_moments_offer_no_edit(
    viewer: Client, editor: Client, desk: Thread
) -> None:
    for client, query in ((viewer, ""), (editor, "?at_seq=9")):
        for path in ("keys", "keys/seat", "task"):
            page = text_of(client, f"{T}/{path}{query}")
            for word in ("Edit", "Add a key", "Set back to this", "/undo"):
                assert word not in page.partition("<main")[2], (path, word)
    for path in ("add-key", "task/edit", "events/3/undo"):
        assert viewer.post(f"{T}/{path}").status_code == 403
    assert head(desk) == 18


def test_keys_page_stays_small_with_large_values(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    for n in range(40):
        put(agent, f"large.{n:02}", {f"field {m}": f"{n} of {m}" for m in range(300)})
    for n in range(20):
        put(agent, "seat", {f"field {m}": f"{n} of {m}" for m in range(100)})
    for path in ("keys", "keys/seat"):
        answer: Any = viewer.get(f"{T}/{path}")
        assert len(answer.content) <= 150_000, path
