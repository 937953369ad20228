"""Verification of the page table: tampering shows, and `rebuild` mends it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import Model

from memoryhub.journal.log.log import Origins
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.server.ids import uuid7
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import Difference, verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from tests.cast.factories import append, get_thread, make_agent, make_project
from tests.oracles.page_acts import act, levels_of, make_pages, new_page, new_text
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

#: Another value of each column's kind.
OTHER: dict[str, Any] = {
    "created_seq": 77,
    "created_turn": 77,
    "seq": 77,
    "deleted_seq": 77,
    "version": 77,
    "type": "claim",
    "modality": "image",
    "importance": 0.01,
    "role": "tool",
    "slot": 77,
    "home": "L3",
    "full_seq": 77,
    "tokens": 77,
    "cost": 77,
    "hint_seq": 77,
    "page_id": "other",
    "name": "another",
    "level": 1,
    "producer": "another/1",
    "packed_seq": 77,
    "counters": '{"hits":77}',
    "n": 77,
}
#: Columns that name a thread.
THREADS = {"full_thread", "hint_thread", "source"}


def tampered(model: type[Model]) -> list[str]:
    return [
        field.attname
        for field in model._meta.concrete_fields
        if field.attname != "thread_id"
    ]


@pytest.fixture(scope="module")
def agent(standing: None) -> Agent:
    return make_agent(make_project("acme"))


@pytest.fixture(scope="module")
def thread(agent: Agent) -> Thread:
    """A fork with a slot, pages of its own and inherited ones that it has changed."""
    append(agent, "t-1", "hello")
    make_pages(agent, new_page("old", "one", hint="first"))
    fork(agent, "t-1", "child")
    act(agent, BeginTurn(), "child")
    append(agent, "child", "again")
    make_pages(agent, new_page("a", hint="x"), new_page("b"), thread="child")
    act(agent, WriteLevels(made=levels_of("a", {2: "o.", 3: "o"})), "child")
    act(agent, new_text("b", "second text"), "child")
    act(agent, UpdatePage(page_id="old", payload=b"{}", importance=0.9), "child")
    make_pages(agent, new_page("gone"), thread="child")
    act(agent, DeletePage(page_id="gone"), "child")
    return get_thread(agent, "child")


def change(model: type[Model], column: str, **row: Any) -> None:
    value = uuid7() if column in THREADS else OTHER[column]
    rows = model._default_manager.filter(**row)
    assert rows.exclude(**{column: value}).exists() or column in THREADS
    assert rows.update(**{column: value}) == 1


def look(agent: Agent) -> Difference | None:
    return verify(get_thread(agent, "child"))


def mend(agent: Agent) -> None:
    rebuild(get_thread(agent, "child"))
    assert look(agent) is None


@pytest.mark.parametrize("column", tampered(Page))
def test_each_column_of_a_page_is_compared(
    agent: Agent, thread: Thread, column: str
) -> None:
    for page in ("slot-1", "a", "b", "old", "gone"):
        change(Page, column, thread=thread, page_id=page)
        found = look(agent)
        assert found is not None, page
        assert found.what in {"page_rows", "payload"}, page
        mend(agent)


@pytest.mark.parametrize("column", tampered(PageLevel))
def test_each_column_of_a_level_is_compared(
    agent: Agent, thread: Thread, column: str
) -> None:
    for page, level in (("a", 2), ("b", 0)):
        change(PageLevel, column, thread=thread, page_id=page, level=level)
        found = look(agent)
        assert found is not None, page
        assert found.what == "level_rows", page
        mend(agent)


@pytest.mark.parametrize("column", tampered(Turn))
def test_each_column_of_a_turn_is_compared(
    agent: Agent, thread: Thread, column: str
) -> None:
    change(Turn, column, thread=thread)
    found = look(agent)
    assert found is not None
    assert found.what == "turn_rows"
    mend(agent)


@pytest.mark.parametrize("name", ["slot-1", "a", "old", "gone"])
def test_verification_finds_a_missing_page(
    agent: Agent, thread: Thread, name: str
) -> None:
    Page.objects.filter(thread=thread, page_id=name).delete()
    assert look(agent) is not None
    mend(agent)


def test_verification_finds_a_page_row_without_an_event(
    agent: Agent, thread: Thread
) -> None:
    row = Page.objects.get(thread=thread, page_id="a")
    row.page_id, row.seq = "planted", thread.head_seq
    row.save(force_insert=True)
    assert look(agent) == Difference(seq=thread.head_seq, what="page_rows")
    mend(agent)
    level = PageLevel.objects.get(thread=thread, page_id="a", level=2)
    level.page_id = "planted"
    level.save(force_insert=True)
    assert look(agent) == Difference(seq=thread.head_seq, what="level_rows")
    mend(agent)


@pytest.mark.parametrize(
    "column",
    [
        "resident_tokens",
        "capacity_tokens",
        "tlb_hits",
        "tlb_misses",
        "fault_count",
        "eviction_count",
        "refault_count",
        "exchange_count",
        "faulted_exchange_count",
        "faulted_lately_count",
    ],
)
def test_threads_figures_are_compared(
    agent: Agent, thread: Thread, column: str
) -> None:
    Thread.objects.filter(id=thread.id).update(**{column: 77})
    assert look(agent) == Difference(seq=thread.head_seq, what=column)
    mend(agent)


def drop_guard() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_update{on}")


@pytest.mark.no_replay
def test_page_takes_no_text_of_another(agent: Agent, thread: Thread) -> None:
    """A page.deleted erases the texts of its own page alone."""
    drop_guard()
    deleted = Event.objects.get(thread=thread, type="page.deleted")
    for wrong in (
        Event.objects.filter(thread=thread, page="a", type="page.created"),
        Event.objects.filter(thread=thread, type="slot.appended"),
    ):
        seq = wrong.get().seq
        before = wrong.get().payload
        wrong.update(payload=None, erased_by=deleted.seq)
        assert look(agent) == Difference(seq=seq, what="payload_missing")
        Event.objects.filter(thread=thread, seq=seq).update(
            payload=before, erased_by=None
        )
        assert look(agent) is None


@pytest.mark.no_replay
def test_verification_finds_a_text_that_outlived_its_page(
    agent: Agent, thread: Thread
) -> None:
    made = Event.objects.get(thread=thread, page="a", type="page.created")
    kept = {"payload": made.payload, "payload_digest": made.payload_digest}
    act(agent, DeletePage(page_id="a"), "child")
    drop_guard()
    Event.objects.filter(thread=thread, seq=made.seq).update(**kept, erased_by=None)
    found = look(agent)
    assert found is not None
    assert found.what == "payload"
    # A repeat of the erasure is harmless, and puts it right.
    mend(agent)


def test_rebuilt_parent_leaves_its_forks_as_they_are(
    agent: Agent, thread: Thread
) -> None:
    parent = get_thread(agent)
    before = [*Page.objects.order_by("thread", "page_id").values()]
    levels = [*PageLevel.objects.order_by("thread", "page_id", "level").values()]
    origins = Origins()
    for each in (parent, thread):
        rebuild(each, origins=origins)
    assert [*Page.objects.order_by("thread", "page_id").values()] == before
    after = PageLevel.objects.order_by("thread", "page_id", "level")
    assert [*after.values()] == levels
