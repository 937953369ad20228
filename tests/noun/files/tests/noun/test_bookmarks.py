"""Behaviour that a noun gets by its declarations; run in a copy that has bookmarks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps

from inspector.replay.moments import PUSHED
from memoryhub.api import api
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.bookmarks import BOOKMARKS, AddBookmark, ClearBookmarks
from memoryhub.kernel.memory.checkpoint_events import CheckpointTaken
from memoryhub.kernel.memory.nouns import RESTORABLE
from memoryhub.kernel.registry import EVOLVE
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Checkpoint
from memoryhub.queries.memory import bookmarks, checkpoints
from memoryhub.queries.replay import states
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.rebuild import rebuild
from tests.api.client import Client
from tests.cast import bundled, erasings, factories, forgetting
from tests.inspector.conftest import make_member, signed_in
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = "Where the fare of 12A was agreed."
T = "/threads/t-1"


def add(agent: Agent, words: str = WORDS, slot: int = 0) -> int:
    text = json.dumps(words).encode()
    return act(agent, AddBookmark(slot=slot, text=text)).seq


@pytest.fixture
def thread(agent: Agent) -> Thread:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "hello")
    return factories.get_thread(agent)


@pytest.fixture
def ann(thread: Thread, acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def list_texts(thread: Thread, seq: int | None = None) -> list[str | None]:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    return [line.text for line in bookmarks.list_bookmarks(row, seq=seq).items]


def in_the_clear(text: str) -> list[str]:
    """Return columns of any table that hold the text."""
    return [
        f"{model.__name__}.{name}"
        for model in apps.get_models()
        for row in model._default_manager.values()
        for name, value in row.items()
        if text in str(bytes(value) if isinstance(value, memoryview) else value)
    ]


def test_bookmark_is_journaled_listed_and_read_as_of_any_event(
    agent: Agent, thread: Thread
) -> None:
    first = add(agent)
    last = add(agent, "two")
    assert list_texts(thread) == [WORDS, "two"]
    assert (list_texts(thread, first), list_texts(thread, first - 1)) == ([WORDS], [])
    act(agent, ClearBookmarks())
    assert (list_texts(thread), list_texts(thread, last)) == ([], [WORDS, "two"])
    erasings.sound(thread)


def test_bookmark_text_is_sealed(agent: Agent, thread: Thread) -> None:
    add(agent)
    assert in_the_clear(WORDS) == []


def test_bookmark_is_held_by_snapshots(agent: Agent, thread: Thread) -> None:
    add(agent)
    state = states.load_state(factories.get_thread(agent))
    again = state_json.from_json(state_json.to_json(state))
    assert BOOKMARKS.get_current(again) == BOOKMARKS.get_current(state) != ()


def test_bookmark_is_restored_from_a_checkpoint(agent: Agent, thread: Thread) -> None:
    add(agent)
    memory_acts.take(agent, "here")
    act(agent, ClearBookmarks())
    memory_acts.restore(agent, "here", ("bookmarks",))
    assert list_texts(thread) == [WORDS]
    erasings.sound(thread)


def test_old_checkpoint_event_counts_no_bookmarks() -> None:
    old = {"auto": False, "keys": 2, "notes": 1, "has_task": True}
    event = CheckpointTaken.model_validate_json(json.dumps(old))
    assert event.counts["bookmarks"] == 0
    assert event.model_dump(exclude_none=True) == old


def test_old_checkpoint_row_without_bookmarks_is_listed_and_verifies(
    agent: Agent, thread: Thread
) -> None:
    memory_acts.take(agent, "here")
    rows = Checkpoint.objects.filter(thread=thread)
    written = json.loads(rows.get().counts)
    assert written.pop("bookmarks") == 0
    rows.update(counts=json.dumps(written))
    now = factories.get_thread(agent)
    (line,) = checkpoints.list_checkpoints(now).items
    assert line.counts == {**written, "bookmarks": 0}
    assert verify(now) is None
    # Once it holds some, a row that says nothing of them is no older one.
    add(agent)
    memory_acts.take(agent, "there")
    rows.filter(name="there").update(counts=json.dumps(written))
    now = factories.get_thread(agent)
    assert verify(now) is not None
    rebuild(now)
    assert verify(now) is None


def test_bookmark_is_exported_and_imported(
    agent: Agent, thread: Thread, ann: Subject, zeta: Project
) -> None:
    add(agent)
    data = bundled.export(ann)
    (record,) = bundled.list_records(bundled.open_bundle(data), "state/bookmarks.jsonl")
    assert (record["slot"], record["text"]) == (0, WORDS)
    bundled.take(data, zeta)
    taken = Thread.objects.get(project=zeta)
    assert list_texts(taken) == [WORDS]
    erasings.sound(taken)


def test_bookmark_is_erased_alone(agent: Agent, thread: Thread) -> None:
    one = add(agent)
    add(agent, "two")
    erasings.erase(thread, (one, one))
    assert list_texts(thread) == ["two"]
    erasings.sound(thread)


def test_bookmark_is_erased_with_its_subject(
    agent: Agent, thread: Thread, ann: Subject
) -> None:
    """The receipt follows a scan of every kept byte."""
    add(agent)
    row = forgetting.forget(ann)
    assert row.state == forgetting.State.COMPLETE
    assert in_the_clear(WORDS) == []


def test_bookmark_is_erased_with_its_thread(
    agent: Agent, thread: Thread, ann: Subject
) -> None:
    add(agent)
    row = forgetting.forget(ann, "thread", thread=thread)
    assert row.state == forgetting.State.COMPLETE
    assert in_the_clear(WORDS) == []


def test_bookmark_is_written_and_read_by_agents(acme: Project) -> None:
    async def talk() -> None:
        client = Client(key=key)
        added = await client.post(f"{T}/bookmarks", {"slot": 0, "text": WORDS})
        assert added.status == 201, added.body
        (line,) = (await client.get(f"{T}/bookmarks")).json["items"]
        assert (line["seq"], line["text"]) == (added.json["seq"], WORDS)
        before = await client.get(f"{T}/bookmarks?at_seq={added.json['seq'] - 1}")
        assert before.json["items"] == []
        whole = (await client.get(f"{T}/working-memory?bookmarks=1")).json
        assert whole["bookmarks"] == [line]
        wrong = await client.post(f"{T}/bookmarks", {"slot": 9, "text": WORDS})
        assert wrong.status == 422

    agent, key = factories.make_key(acme)
    factories.append(agent, "t-1", "hello")
    async_to_sync(talk)()


def test_bookmark_is_shown_to_operators(
    acme: Project, agent: Agent, thread: Thread
) -> None:
    seq = add(agent, "<b>12A")
    browser = signed_in(make_member(acme, "owner"))
    page = "/p/acme/threads/t-1/bookmarks"
    shown: Any = browser.get(page).content.decode()
    assert "&lt;b&gt;12A" in shown
    panel: Any = browser.get("/p/acme/threads/t-1/panels/bookmarks").content.decode()
    assert "&lt;b&gt;12A" in panel
    tab = "/p/acme/threads/t-1?tab=working-memory"
    whole: Any = browser.get(tab).content.decode()
    assert "&lt;b&gt;12A" in whole.split("Notes</a>")[1]
    before: Any = browser.get(f"{page}?at_seq={seq - 1}").content.decode()
    assert "12A" not in before
    assert "bookmarks" in PUSHED


def test_bookmark_declarations_register_part_event_and_route() -> None:
    assert "bookmarks" in RESTORABLE
    assert "bookmark.added" in {event.event_type for event in EVOLVE}
    paths = api.get_openapi_schema()["paths"]
    assert "/api/v1/threads/{thread}/bookmarks" in paths
