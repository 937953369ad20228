"""The page table's rows: what events leave in them, and what writing them costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import PageErasedError
from memoryhub.journal import OrderReceipt
from memoryhub.journal.log import log
from memoryhub.journal.texts import open_texts, texts
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    DeletePage,
    EvictPage,
    MapPage,
    PinPage,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.kernel.state.pages import Location
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread, make_thread
from tests.oracles.page_acts import (
    act,
    find_page_entry,
    forget,
    levels_of,
    make_pages,
    new_page,
    new_text,
    order,
)
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db


def get_row(page_id: str) -> Page:
    return Page.objects.get(page_id=page_id)


def payloads(thread: Thread, page_id: str) -> list[tuple[bool, int | None]]:
    """Return whether each event with a text of the page has it, and its eraser."""
    events = Event.objects.filter(
        thread=thread, page=page_id, payload_digest__isnull=False
    )
    return [
        (event.payload is not None, event.erased_by) for event in events.order_by("seq")
    ]


def test_slot_makes_its_page(agent: Agent) -> None:
    append(agent, "t-1", "one", {"a": [1, 2]})
    first, second = Page.objects.order_by("seq")
    assert (first.page_id, first.slot, first.type) == ("slot-0", 0, "transcript")
    assert (first.seq, first.created_seq, first.full_seq) == (2, 2, 2)
    assert (second.modality, second.role) == ("structured", "user")


def test_page_rows_equal_the_fold(agent: Agent) -> None:
    """The rows agree after any change, for every page that the TLB holds."""
    make_pages(agent, new_page("a", hint="look"), new_page("b"), new_page("c"))
    append(agent, "t-1", "hello")
    act(agent, WriteLevels(made=levels_of("a", {1: "aa", 2: "a"})))
    act(agent, new_text("b", "another text"))
    act(agent, UpdatePage(page_id="slot-0", payload=b"{}", importance=0.9))
    act(agent, WriteLevels(made=levels_of("b", {3: "b"}, version=2)))
    act(agent, DeletePage(page_id="c"))
    thread = get_thread(agent)
    held = state_of(thread).paging.tlb.list_oldest_first()
    assert {each.page_id for each in held} == {"a", "b", "slot-0"}
    assert {each.page_id: find_page_entry(thread, each.page_id) for each in held} == {
        each.page_id: each for each in held
    }
    assert find_page_entry(thread, "c") is None


def test_update_keeps_the_place_in_the_table(agent: Agent) -> None:
    make_pages(agent, new_page("a"), new_page("b"))
    before = get_row("a").seq
    act(agent, new_text("a", "another text"))
    act(agent, UpdatePage(page_id="a", payload=b"{}", importance=0.75))
    after = get_row("a")
    assert (after.seq, after.version, after.importance) == (before, 2, 0.75)
    old = PageLevel.objects.get(page_id="a")
    assert (old.version, old.level, old.seq) == (1, 0, before)


def test_page_is_made_changed_and_deleted_in_one_batch(agent: Agent) -> None:
    journal = BatchCommitter()
    outcomes = journal.commit(
        [
            order(agent, CreatePages(pages=(new_page("a"), new_page("b")))),
            order(agent, WriteLevels(made=levels_of("a", {1: "aa"}))),
            order(agent, new_text("a", "another text")),
            order(agent, WriteLevels(made=levels_of("a", {2: "a"}, version=2))),
            order(agent, DeletePage(page_id="b")),
            order(agent, CreatePages(pages=(new_page("b"),))),
        ]
    )
    assert [type(each) for each in outcomes[:5]] == [OrderReceipt] * 5
    assert isinstance(outcomes[5], PageErasedError)
    made, gone = get_row("a"), get_row("b")
    assert (made.version, made.deleted_seq, made.seq) == (2, None, 2)
    levels = PageLevel.objects.filter(page_id="a").order_by("version", "level")
    assert [*levels.values_list("version", "level")] == [(1, 0), (1, 1), (2, 2)]
    assert gone.deleted_seq == 7
    assert payloads(get_thread(agent), "b") == [(False, 7)]


def test_level_is_written_once_for_each_version(agent: Agent) -> None:
    """A producer makes all levels it can; the slower of two writes nothing."""
    make_pages(agent, new_page("a", "a text that has levels"))
    act(agent, WriteLevels(made=levels_of("a", {2: "a"})))
    for late in (
        levels_of("a", {1: "aa", 2: "b"}),
        levels_of("a", {3: "."}, version=2),
    ):
        assert not act(agent, WriteLevels(made=late)).events
    act(agent, new_text("a", "another text"))
    act(agent, WriteLevels(made=levels_of("a", {2: "b"}, version=2)))
    levels = PageLevel.objects.filter(level=2).order_by("version")
    assert [*levels.values_list("version", "seq")] == [(1, 3), (2, 5)]


def test_deleted_page_takes_its_texts_along(agent: Agent) -> None:
    """Texts of all versions and levels are deleted; those of other pages stay."""
    make_pages(agent, new_page("a"), new_page("b"))
    act(agent, WriteLevels(made=levels_of("a", {1: "aa", 2: "a"})))
    act(agent, new_text("a", "another text"))
    seq = act(agent, DeletePage(page_id="a")).seq
    thread = get_thread(agent)
    assert payloads(thread, "a") == [(False, seq)] * 3
    assert payloads(thread, "b") == [(True, None)]


def test_no_process_serves_a_deleted_text_from_memory(agent: Agent) -> None:
    """The process that deleted the page and one that had opened it both refuse it."""
    make_pages(agent, new_page("a", "one"), new_page("b", "two"))
    thread = get_thread(agent)
    places = [Location(thread.id, seq, 0) for seq in (2, 3)]
    assert [*open_texts(thread, places)] == places
    elsewhere = texts.get((thread.subject_id, 1, places[0]))
    assert elsewhere is not None
    act(agent, DeletePage(page_id="a"))
    assert texts.get((thread.subject_id, 1, places[0])) is None
    # Another process still has this entry.
    texts.put((thread.subject_id, 1, places[0]), elsewhere)
    assert [*open_texts(thread, places)] == [places[1]]
    assert texts.get((thread.subject_id, 1, places[0])) is None


def test_event_keeps_its_page(agent: Agent) -> None:
    make_pages(agent, new_page("a"))
    act(agent, PinPage(page_id="a"))
    append(agent, "t-1", "hello")
    found = Event.objects.filter(page="a").order_by("seq")
    assert [*found.values_list("type", flat=True)] == ["page.created", "page.pinned"]
    assert all(log.to_recorded(each).event.page_id == "a" for each in found)  # type: ignore[attr-defined]  # theirs


def statements(agent: Agent, command: Any) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        act(agent, command)
    return [each["sql"] for each in captured]


def of_pages(statements: list[str]) -> list[str]:
    return [sql for sql in statements if "memoryhub_page" in sql]


@pytest.mark.parametrize("size", [3, 150])
def test_tlb_hit_reads_no_row(agent: Agent, size: int) -> None:
    make_pages(agent, *(new_page(f"p-{n}") for n in range(size)))
    for command in (PinPage(page_id="p-1"), UnpinPage(page_id="p-1")):
        assert of_pages(statements(agent, command)) == []
    assert get_thread(agent).tlb_hits == 2


@pytest.mark.parametrize("size", [3, 150])
def test_tlb_miss_reads_a_constant_number_of_rows(agent: Agent, size: int) -> None:
    make_pages(agent, *(new_page(f"p-{n}") for n in range(size)))
    act(agent, WriteLevels(made=levels_of("p-1", {1: "aa", 2: "a"})))
    forget(agent)
    assert len(of_pages(statements(agent, PinPage(page_id="p-1")))) == 2
    assert len(of_pages(statements(agent, UnpinPage(page_id="p-1")))) == 0
    assert (get_thread(agent).tlb_hits, get_thread(agent).tlb_misses) == (1, 1)


@pytest.mark.parametrize("size", [1, 60])
def test_making_pages_costs_two_reads_each_and_one_insert(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    make_pages(agent, new_page("first"))
    pages = [new_page(f"p-{n}") for n in range(size)]
    # Whether it is there, and was. Savepoint, heads, fence, head update, events, pages,
    # totals, release.
    with django_assert_num_queries(8 + 2 * size):
        make_pages(agent, *pages)


def test_residency_changes_write_no_row(agent: Agent) -> None:
    make_thread(agent, auto_pin_turns=0)
    make_pages(agent, new_page("a"))
    moves = EvictPage(page_id="a"), MapPage(page_id="a"), PinPage(page_id="a")
    for command in moves:
        assert not of_pages(statements(agent, command))


def test_thread_row_has_the_working_set_figures(agent: Agent) -> None:
    make_thread(agent, auto_pin_turns=0)
    make_pages(agent, new_page("a"), new_page("b"))
    act(agent, EvictPage(page_id="a"))
    act(agent, PinPage(page_id="b"))
    thread, paging = get_thread(agent), state_of(get_thread(agent)).paging
    assert thread.resident_tokens == paging.used == paging.frames["b"].tokens
    assert thread.capacity_tokens == paging.settings.usable
    assert (thread.eviction_count, thread.tlb_hits) == (1, 2)


def test_slots_of_one_append_make_their_pages_in_one_statement(agent: Agent) -> None:
    append(agent, "t-1", "one")
    with CaptureQueriesContext(connection) as captured:
        append(agent, "t-1", *map(str, range(60)))
    sent = of_pages([each["sql"] for each in captured])
    assert len(sent) == 1
    assert sent[0].partition(" ")[0] in {"INSERT", "60"}
    assert Page.objects.count() == 61
