"""Checkpoints, as operators see, compare, restore, fork and delete them.

Seqs of the thread `desk`: 7 `before`, 12 `after`, 14 automatic, 15 restored 7; the
head is 18.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from memoryhub.kernel.memory.checkpoints import DeleteCheckpoint
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import (
    checkpoint_trees,
    comparison_views,
    keys,
    restorations,
)
from memoryhub.queries.replay import states
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.paged import make_paged, state_now, text_of
from tests.inspector.remembered import HOSTILE, make_desk, put
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/desk"


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


def row_of(desk: Thread) -> Thread:
    return Thread.objects.select_related("subject").get(id=desk.id)


def form_of(client: Client, path: str, status: int = 200) -> dict[str, list[str]]:
    """Return the fields of the form under a preview."""
    page = text_of(client, path, status).split('<form method="post"')[-1]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="(seen|part|reopens)" value="(\w+)"', page):
        fields.setdefault(name, []).append(value)
    return fields


def tree(row: Thread, **asked: Any) -> list[tuple[int, int | None, bool]]:
    found = checkpoint_trees.get_tree(row, **asked).branches
    return [(b.level, b.line.seq if b.line else None, b.base) for b in found]


def test_checkpoint_tree_shows_abandoned_branches(viewer: Client, desk: Thread) -> None:
    whole = tree(desk, automatic=True)
    assert whole == [(0, 7, True), (1, 12, False), (1, 14, False), (0, None, False)]
    assert tree(desk, automatic=False) == [
        (0, 7, True),
        (1, 12, False),
        (0, None, False),
    ]
    assert tree(desk, seq=12) == [(0, 7, False), (0, 12, True), (0, None, False)]
    assert tree(desk, seq=1) == [(0, None, False)]
    page = text_of(viewer, f"{T}/checkpoints")
    assert re.search(r"2 checkpoints and 1\s+automatic one, hidden", page)
    assert "2 keys written" in page
    assert "restore" not in page.split('class="tree"')[1]
    assert ">automatic<" in text_of(viewer, f"{T}/checkpoints?auto=1")
    assert "No checkpoint as of" in text_of(viewer, f"{T}/checkpoints?at_seq=2")


def test_checkpoint_tree_stays_whole_when_one_is_deleted(
    agent: Agent, desk: Thread
) -> None:
    act(agent, DeleteCheckpoint(target="before"), "desk")
    row = row_of(desk)
    assert tree(row) == [(0, 12, False), (0, 14, False), (0, None, False)]


@pytest.mark.parametrize("count", [2, 25])
def test_checkpoint_tree_costs_the_same_at_any_size(
    agent: Agent,
    count: int,
    django_assert_num_queries: Any,
    django_assert_max_num_queries: Any,
) -> None:
    factories.make_thread(agent, "many")
    for n in range(count):
        put(agent, "k", n, thread="many")
        memory_acts.take(agent, thread="many")
    row = factories.get_thread(agent, "many")
    states.load_state(row)
    with django_assert_num_queries(1):
        found = checkpoint_trees.get_tree(row)
    assert len(found.branches) == count + 1
    assert {branch.level for branch in found.branches} == {0}
    with django_assert_max_num_queries(4):
        comparison_views.get_comparison(row, 3, "head")


def test_checkpoint_exports_hold_all_checkpoints(viewer: Client, desk: Thread) -> None:
    answer: Any = viewer.get(f"{T}/checkpoints.ndjson")
    told = [json.loads(line) for line in b"".join(answer.streaming_content).split()]
    assert [(each["seq"], each["name"], each["auto"]) for each in told] == [
        (7, "before", False),
        (12, "after", False),
        (14, None, True),
    ]
    batch = json.loads(viewer.get(f"{T}/checkpoints.json?at_seq=7").content)
    assert [each["seq"] for each in batch["items"]] == [7]


def test_checkpoints_are_compared(viewer: Client, desk: Thread) -> None:
    page = text_of(viewer, f"{T}/compare?a=7&b=12&values=1")
    for word in ('"12A"', '"14C"', ">added<", ">changed<", "It was a mistake."):
        assert word in page, word
    assert "/keys/cart" not in page
    found = comparison_views.get_comparison(desk, 7, 12)
    assert found.counts == {
        "added": 1, "removed": 0, "changed": 1, "rewritten": 0, "retimed": 0,
    }  # fmt: skip
    assert {each.name for each in found.texts["task"]} == {
        "progress_percent",
        "current_step",
    }
    by_name = text_of(viewer, f"{T}/compare?a=before&b=after")
    assert '"14C"' not in by_name
    now = text_of(viewer, f"{T}/compare?a=7")
    assert "/keys/token" in now
    assert "No difference" in text_of(viewer, f"{T}/compare?a=7&b=7")
    assert "Nothing to compare" in text_of(viewer, f"{T}/compare?at_seq=3")
    text_of(viewer, f"{T}/compare?a=8&b=head", 404)
    text_of(viewer, f"{T}/compare?a=nobody", 404)
    text_of(viewer, f"{T}/compare?a=%3Cscript%3E", 404)
    text_of(viewer, f"{T}/compare?a={'9' * 30}", 422)


def test_hostile_text_is_inert_on_every_checkpoint_screen(
    viewer: Client, desk: Thread
) -> None:
    assert "<script>" in HOSTILE
    for path in (
        "notes",
        "task",
        "keys/cart",
        "compare?a=7&b=12&values=1",
        "compare?a=head&b=7&values=1",
        "checkpoints",
        "events/2",
        "?tab=working-memory",
    ):
        answer: Any = viewer.get(f"{T}/{path}" if path[0] != "?" else T + path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.content.decode(), path


def test_editor_takes_and_deletes_checkpoints(browser: Browser, desk: Thread) -> None:
    editor = browser("editor")
    text_of(editor, f"{T}/checkpoints/take")
    answer: Any = editor.post(f"{T}/checkpoints/take", {"name": "mine"})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{T}/checkpoints")
    assert editor.post(f"{T}/checkpoints/take", {}).status_code == 302
    assert editor.post(f"{T}/checkpoints/take", {"name": "mine"}).status_code == 409
    for name in ("412", "head", "_x", "a b"):
        answer = editor.post(f"{T}/checkpoints/take", {"name": name})
        assert answer.status_code == 422, name
        assert "not only digits" in answer.content.decode()
    assert [
        line.name for line in checkpoint_trees.list_newest(row_of(desk), limit=9)
    ] == [
        "before",
        "after",
        None,
        "mine",
        None,
    ]
    assert "Delete checkpoint before" in text_of(editor, f"{T}/checkpoints/7/delete")
    assert editor.post(f"{T}/checkpoints/7/delete").status_code == 302
    assert editor.post(f"{T}/checkpoints/7/delete").status_code == 302
    text_of(editor, f"{T}/checkpoints/7/delete", 404)
    text_of(editor, f"{T}/checkpoints/7/restore", 404)


def test_restore_keeps_history_and_can_be_undone(
    browser: Browser, desk: Thread
) -> None:
    """Restore after a preview, then undo; each step is told."""
    editor = browser("editor")
    page = text_of(editor, f"{T}/checkpoints/12/restore")
    # Now: cart, seat 12A, token. Then: cart, seat 14C, quote.
    assert "1 to change, 1 to remove, 1 to bring back" in page
    assert state_now(desk).seq == 18
    held = state_now(desk).memory.contents
    answer: Any = editor.post(
        f"{T}/checkpoints/12/restore", form_of(editor, f"{T}/checkpoints/12/restore")
    )
    where = f"{T}?saved=20&seen=18"
    assert (answer.status_code, answer.headers["Location"]) == (302, where)
    landing = text_of(editor, where)
    assert f'href="{T}/events/20?seen=18"' in landing
    assert re.search(r"restored from\s+checkpoint after:", landing)
    assert "Nothing differed from the preview" in landing
    for part in ("keys", "notes", "task"):
        assert f'href="{T}/{part}">{part}</a' in landing
    assert f'href="{T}/checkpoints/19/restore?part=keys' in landing
    assert 'class="saved"' not in text_of(browser("viewer"), where)
    assert keys.get_key(row_of(desk), "seat").value == "14C"
    for page in ("keys", "notes", "task"):
        shown = " ".join(text_of(browser("viewer"), f"{T}/{page}").split())
        assert "Restored to" in shown
        assert f'href="{T}/events/20">event 20</a>' in shown
    assert "event 20</a>" not in text_of(editor, f"{T}/keys?at_seq=19")
    told = text_of(editor, f"{T}/events/20")
    assert f'href="{T}?at_seq=12">checkpoint after</a>' in told
    undo = re.search(r'href="([^"]+restore\?[^"]+)"', told)
    assert undo is not None
    assert "/checkpoints/19/restore?part=keys" in undo[1]
    assert editor.post(undo[1], form_of(editor, undo[1])).status_code == 302
    assert state_now(desk).memory.contents.keys == held.keys
    assert NOTES.get_current(state_now(desk)).lines == NOTES.get(held).lines
    assert TASK.get_current(state_now(desk)) == TASK.get(held)
    types = [*row_of(desk).events.order_by("seq").values_list("type", flat=True)]
    # The undo takes no checkpoint: the restored one already has that state.
    assert types[18:] == ["checkpoint.taken", *["checkpoint.restored"] * 2]
    assert tree(row_of(desk))[-1] == (0, None, False)
    viewer_page = text_of(browser("viewer"), f"{T}/events/20")
    assert "Undo" not in viewer_page


def test_restore_reports_events_newer_than_its_preview(
    browser: Browser, agent: Agent, desk: Thread
) -> None:
    editor = browser("editor")
    form = form_of(editor, f"{T}/checkpoints/12/restore")
    assert form["seen"] == ["18"]
    put(agent, "more", 1)
    put(agent, "seat", "9F")
    memory_acts.delete_key(agent, "token", thread="desk")
    memory_acts.add_notes(agent, "Not in the preview.", thread="desk")
    answer: Any = editor.post(f"{T}/checkpoints/12/restore", form)
    assert answer.headers["Location"] == f"{T}?saved=24&seen=18"
    landing = text_of(editor, f"{T}?saved=24&seen=18")
    assert "Nothing differed" not in landing
    page = text_of(editor, f"{T}/events/24?seen=18")
    listed = page.partition('id="differed"')[2].partition("</section>")[0]
    assert listed in landing
    assert "4 events came after the preview" in page
    assert f"{T}?at_seq=22&base=18" in page
    told = page.partition('id="differed"')[2].partition("</section>")[0]
    rows = re.findall(r"/keys/([a-z]+)\".*?>([a-z]+)</span>.*?>([a-z, ]+)</span>", told)
    assert rows == [
        ("more", "nothing", "goes"),
        ("seat", "changes", "changes, from a later value"),
        ("token", "goes", "nothing"),
    ]
    assert "1 added, 0 removed" in told
    assert len(NOTES.get_current(state_now(desk)).lines) == 3
    # A link with no preview or an invalid one shows the plain event.
    for query in ("", "?seen=x", "?seen=24", f"?seen={'9' * 30}", "?seen=0"):
        assert 'id="differed"' not in text_of(editor, f"{T}/events/24{query}")
    assert 'id="differed"' not in text_of(editor, f"{T}/events/22?seen=18")


def test_restore_says_that_its_preview_still_holds(
    browser: Browser, desk: Thread
) -> None:
    editor = browser("editor")
    path = f"{T}/checkpoints/12/restore"
    answer: Any = editor.post(path, form_of(editor, path))
    assert answer.headers["Location"] == f"{T}?saved=20&seen=18"
    told = text_of(editor, f"{T}/events/20?seen=18")
    assert "no event happened in between" in told
    for sent in ({}, {"seen": "x"}, {"seen": "9" * 30}):
        assert editor.post(path, sent).status_code == 302


def test_closed_thread_is_reopened_by_the_restore_alone(
    browser: Browser, desk: Thread
) -> None:
    editor, path = browser("editor"), f"{T}/checkpoints/12/restore"
    unaware = form_of(editor, path)
    operator_threads.close(desk, actor="operator:x", reason="completed")
    assert f'href="{path}">restore…' in text_of(editor, f"{T}/checkpoints")
    page = text_of(editor, path)
    assert "The restore reopens it" in page
    assert "Reopen and restore</button>" in page
    # Seeing the form changes nothing, nor does a form that said nothing of it.
    refused: Any = editor.post(path, unaware)
    assert refused.status_code == 409
    assert "The restore reopens it" in refused.content.decode()
    assert (row_of(desk).status, row_of(desk).head_seq) == ("closed", 19)
    answer: Any = editor.post(path, form_of(editor, path))
    where = f"{T}?saved=22&seen=19&reopened=20"
    assert answer.headers["Location"] == where
    assert row_of(desk).status == "open"
    landing = text_of(editor, where)
    said = f'which was closed, is reopened: <a href="{T}/events/20">event 20</a>. Noth'
    assert said in " ".join(landing.split())
    assert "Nothing differed from the preview" in landing
    assert "no event happened in between" in text_of(editor, f"{T}/events/22?seen=19")
    for other in ("", "21", "999"):
        assert "is reopened" not in text_of(editor, f"{T}?saved=22&reopened={other}")


def test_restore_covers_only_the_chosen_parts(browser: Browser, desk: Thread) -> None:
    editor = browser("editor")
    path = f"{T}/checkpoints/12/restore?part=notes"
    page = text_of(editor, path)
    assert 'value="notes" checked' in page
    assert 'value="keys" checked' not in page
    assert form_of(editor, path) == {"seen": ["18"], "part": ["notes"]}
    assert editor.post(path, form_of(editor, path)).status_code == 302
    assert keys.get_key(row_of(desk), "seat").value == "12A"
    assert len(NOTES.get_current(state_now(desk)).lines) == 3
    assert editor.get(f"{T}/checkpoints/12/restore?part=all").status_code == 422
    same = text_of(editor, f"{T}/checkpoints/12/restore?part=notes")
    assert "Nothing differs" in same
    assert 'name="seen"' not in same


def test_restore_of_frames_previews_the_moved_pages(
    browser: Browser, agent: Agent
) -> None:
    paged = make_paged(agent)
    memory_acts.take(agent, "then", thread="paged")
    factories.append(agent, "paged", "One more. " * 400)
    editor = browser("editor")
    seq = checkpoint_trees.list_newest(row_of(paged), limit=1)[0].seq
    path = f"/p/acme/threads/paged/checkpoints/{seq}/restore?part=frames"
    page = text_of(editor, path)
    assert "Resident tokens" in page
    assert "checkpoint.restored" in page
    before = {*state_now(paged).paging.frames}
    assert editor.post(path, form_of(editor, path)).status_code == 302
    assert {*state_now(paged).paging.frames} != before


def test_previewed_difference_equals_the_restore(agent: Agent, desk: Thread) -> None:
    memory_acts.clear(agent, "desk")
    put(agent, "other", 1)
    row = row_of(desk)
    found = restorations.get_restoration(row, 12, ("keys", "notes"))
    assert (found.change, found.go, found.come) == (0, 1, 3)
    memory_acts.restore(agent, "after", ("keys", "notes"), thread="desk")
    again = restorations.get_restoration(row_of(desk), 12, ("keys", "notes", "task"))
    assert (again.change, again.go, again.come) == (0, 0, 0)
    assert [name for name, moved in again.slices.items() if any(moved)] == ["task"]


def test_fork_starts_from_a_checkpoint(browser: Browser, desk: Thread) -> None:
    editor = browser("editor")
    answer: Any = editor.get(f"{T}/fork?checkpoint=7")
    assert answer.headers["Location"] == f"{T}/fork?at_seq=7"
    operator_threads.fork(row_of(desk), actor="operator:x", name="alt", seq=13)
    alt = "/p/acme/threads/alt"
    page = text_of(editor, f"{alt}/checkpoints")
    assert f"{alt}/checkpoints/-6/restore" in page
    # An inherited checkpoint is shown and forked in the thread that took it.
    assert re.search(rf'href="{T}\?at_seq=7"\s+data-row>before<', page)
    assert f"{alt}?at_seq=-6" not in page
    answer = editor.get(f"{alt}/fork?checkpoint=-6")
    assert answer.headers["Location"] == f"{T}/fork?at_seq=7&heir=alt"
    assert "alt inherited it" in text_of(editor, answer.headers["Location"])
    assert editor.get(f"{alt}/fork?checkpoint=nobody").status_code == 404
    path = f"{alt}/checkpoints/-6/restore"
    assert editor.post(path, form_of(editor, path)).status_code == 302
    assert keys.get_key(row_of(Thread.objects.get(name="alt")), "seat").value == "12A"
    text_of(editor, f"{alt}/compare?a=-6&b=head")
    text_of(editor, f"{alt}/notes")
    text_of(editor, f"{alt}/task")


def test_viewer_cannot_change_checkpoints(viewer: Client, desk: Thread) -> None:
    assert f"{T}/checkpoints/7/restore" not in text_of(viewer, f"{T}/checkpoints")
    for path in ("take", "7/restore", "7/delete"):
        assert viewer.get(f"{T}/checkpoints/{path}").status_code == 403
        assert viewer.post(f"{T}/checkpoints/{path}").status_code == 403
    assert state_now(desk).seq == 18
