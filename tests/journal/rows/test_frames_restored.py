"""A working set that comes back from a checkpoint, by what the tables say of now."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    FaultPage,
    PinPage,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import get_thread, make_slot, make_thread
from tests.oracles.memory_acts import restore, take
from tests.oracles.page_acts import (
    act,
    find_page_entry,
    forget,
    levels_of,
    make_pages,
    new_page,
    new_text,
    table,
)
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db

PAGES = ("a", "b", "c")


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """Make a slot, pages of one and two versions, levels of one, and a checkpoint."""
    make_thread(agent, auto_pin_turns=0)
    slot = make_slot("hello", from_name="assistant", role="assistant")
    act(agent, AppendSlots(slots=(slot,)))
    make_pages(agent, *(new_page(name, f"text of {name}", hint="h") for name in PAGES))
    act(agent, new_text("b", "second text"))
    act(agent, WriteLevels(made=levels_of("a", {1: "o.", 2: "o"})))
    act(agent, PinPage(page_id="c"))
    take(agent, "here")
    return get_thread(agent)


def list_mapped(thread: Thread) -> set[str]:
    return {*state_of(thread).paging.frames}


def empty(agent: Agent, thread: str = "t-1") -> None:
    """Empty working set and TLB, so that the tables are asked for everything."""
    row = get_thread(agent, thread)
    for page_id in sorted(state_of(row).paging.pins):
        act(agent, UnpinPage(page_id=page_id), thread)
    for page_id in sorted(list_mapped(row)):
        act(agent, EvictPage(page_id=page_id), thread)
    for page_id in sorted({*state_of(row).paging.hot}):
        act(agent, EvictPage(page_id=page_id), thread)
    forget(agent, thread)
    paging = state_of(row).paging
    assert not ({*paging.frames} | {*paging.hot} | {*paging.pins})


def restore_frames(agent: Agent, thread: str = "t-1") -> CheckpointRestored:
    receipt = restore(agent, "here", ("frames",), thread)
    assert verify(get_thread(agent, thread)) is None
    return restored_event(receipt)


def restored_event(receipt: OrderReceipt) -> CheckpointRestored:
    return receipt.get_event(CheckpointRestored)


def test_restore_brings_back_frames_and_pins_when_asked(
    agent: Agent, thread: Thread
) -> None:
    """The rows of a page equal its state before, to the last field."""
    before = state_of(thread).paging
    empty(agent)
    event = restore_frames(agent)
    assert (event.left_out, event.refreshed) == ([], [])
    after = state_of(thread).paging
    assert (after.used, after.pins) == (before.used, before.pins)
    for page_id, frame in before.frames.items():
        assert after.frames[page_id]._replace(cause_seq=frame.cause_seq) == frame


def test_restoring_frames_flushes_the_tlb(agent: Agent, thread: Thread) -> None:
    """The restored pages were not looked up through the TLB."""
    empty(agent)
    act(agent, FaultPage(page_id="a"))
    assert len(state_of(thread).paging.tlb.held) > 0
    restore_frames(agent)
    assert len(state_of(thread).paging.tlb.held) == 0
    # The twin: another part leaves it alone.
    act(agent, EvictPage(page_id="a"))
    act(agent, FaultPage(page_id="a"))
    restore(agent, "here", ("keys",))
    assert len(state_of(thread).paging.tlb.held) > 0


def test_gone_updated_and_lowered_pages_come_as_they_are_now(
    agent: Agent, thread: Thread
) -> None:
    act(agent, DeletePage(page_id="a"))
    act(agent, new_text("b", "a third and much longer text of the page"))
    act(agent, UpdatePage(page_id="slot-0", payload=b"{}", importance=0.9))
    act(agent, WriteLevels(made=levels_of("c", {3: "o"})))
    empty(agent)
    event = restore_frames(agent)
    assert event.left_out == ["a"]
    changed = [each.page_id for each in event.refreshed]
    assert changed == ["b", "c", "slot-0"]
    frames = state_of(thread).paging.frames
    assert {*frames} == {"b", "c", "slot-0"}
    for page_id in changed:
        assert frames[page_id].entry == find_page_entry(thread, page_id)
    assert frames["b"].entry.version == 3
    assert state_of(thread).paging.used == sum(f.tokens for f in frames.values())


def test_restore_asks_the_tables_once(agent: Agent, thread: Thread) -> None:
    """Pages and their levels take one query each, however many are restored."""
    found = []
    for more in (0, 20):
        make_pages(agent, *(new_page(f"p{more}-{n}") for n in range(more)))
        kept = take(agent).seq
        empty(agent)
        with CaptureQueriesContext(
            connection,
        ) as caught:
            restore(agent, kept, ("frames",))
        selects = [q["sql"] for q in caught if q["sql"].startswith("SELECT")]
        found.append(sum("memoryhub_page" in sql for sql in selects))
    assert found == [2, 2]


# In forks


@pytest.fixture
def child(agent: Agent, thread: Thread) -> Thread:
    """Make a fork that changed one inherited page, deleted one and made one."""
    fork(agent, "t-1", "child", auto_pin_turns=0)
    act(agent, new_text("b", "of the child"), "child")
    act(agent, DeletePage(page_id="a"), "child")
    make_pages(agent, new_page("own"), thread="child")
    return get_thread(agent, "child")


def test_fork_s_working_set_comes_back_from_an_inherited_checkpoint(
    agent: Agent, thread: Thread, child: Thread
) -> None:
    act(agent, new_text("c", "of the parent, later"))
    empty(agent, "child")
    event = restore_frames(agent, "child")
    assert event.left_out == ["a"]
    assert [each.page_id for each in event.refreshed] == ["b"]
    frames = state_of(child).paging.frames
    assert {*frames} == {"b", "c", "slot-0"}
    assert {p: f.entry for p, f in frames.items()} == {
        page_id: find_page_entry(child, page_id) for page_id in frames
    }
    assert {*state_of(child).paging.pins} == {"c"}


def test_entries_of_many_are_those_of_each(
    agent: Agent, thread: Thread, child: Thread
) -> None:
    """The pages are own, inherited, changed, deleted and unknown."""
    act(agent, WriteLevels(made=levels_of("own", {3: "o"})), "child")
    names = ["a", "b", "c", "own", "slot-0", "slot-1", "never"]
    for row in (thread, child):
        each = {name: find_page_entry(row, name) for name in names}
        held: dict[str, Any] = {n: found for n, found in each.items() if found}
        assert table(row).list_entries(names) == held
    assert {*table(child).list_entries(names)} == {"b", "c", "own", "slot-0"}
    assert {*table(thread).list_entries(names)} == {"a", "b", "c", "slot-0"}
