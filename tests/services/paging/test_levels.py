from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import journal
from memoryhub.errors import ThreadErasedError
from memoryhub.journal import Order
from memoryhub.journal.writing.writer import writer
from memoryhub.kernel.commands import AppendSlots, CloseThread, RetireThread
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.paging.page_commands import CreatePages
from memoryhub.kernel.state.page_events import PageCompressed, PageLowered
from memoryhub.models.events import Event
from memoryhub.models.pages import PageLevel
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.threads.evicted_pages import EVICTED
from memoryhub.queries.turns import envelopes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import levels
from memoryhub.services.paging.levels import LevelsResult
from tests.cast import factories
from tests.cast.factories import append, get_thread, make_slot, make_thread
from tests.cast.forgetting import forget
from tests.oracles.page_acts import act, new_page, new_text
from tests.oracles.paging import build_prose
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db


#: Messages that are worth lowering, and one that isn't.
LONG, LONGER, SHORT = build_prose(500), build_prose(700), build_prose(200)


#: 8,000 tokens may be mapped.
CONFIG: dict[str, Any] = {
    "budget_tokens": 9_000,
    "reserved_tokens": 1_000,
    "evict_to": 0.3,
    "auto_pin_turns": 0,
}


def crowd(agent: Agent, name: str = "t-1", *, count: int = 10, **config: Any) -> Thread:
    """Make a thread with messages of 300 tokens each."""
    make_thread(agent, name, **{**CONFIG, **config})
    add(agent, name, count=count)
    return get_thread(agent, name)


def add(agent: Agent, name: str = "t-1", *, count: int, role: str = "tool") -> None:
    slots = [make_slot(LONG, type=f"chat.{role}") for _ in range(count)]
    act(agent, AppendSlots(slots=tuple(slots)), name)


def list_mapped(thread: Thread) -> dict[str, int]:
    """Return the level of each mapped page."""
    frames = state_of(thread).paging.frames
    return {page_id: frame.level for page_id, frame in frames.items()}


def with_levels(thread: Thread) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for row in PageLevel.objects.filter(thread=thread):
        found.setdefault(row.page_id, set()).add(row.level)
    return found


def test_mapped_pages_get_levels_in_advance(agent: Agent) -> None:
    thread = crowd(agent)
    made = levels.make_levels(thread)
    assert (made.pages, made.written) == (10, 10)
    events = Event.objects.filter(thread=thread, type="page.compressed")
    assert {row.actor for row in events} == {"worker:levels"}
    assert with_levels(thread) == {f"slot-{n}": {1, 2, 3} for n in range(10)}
    entry = pages.find_current_entry(thread, "slot-3")
    assert entry is not None
    weights = [level.tokens for level in entry.levels if level]
    assert weights == sorted(weights, reverse=True)
    after = get_thread(agent)
    text = envelopes.open_level(after, entry, 2).content
    assert estimate_tokens(text) == entry.require_level(2).tokens
    assert LONG.startswith(text.partition("[…]")[0].strip())


def test_second_run_of_the_level_worker_writes_nothing(agent: Agent) -> None:
    thread = crowd(agent)
    first = levels.make_levels(thread)
    after = get_thread(agent)
    assert after.head_seq == first.seq == thread.head_seq + 10
    assert levels.make_levels(after) == LevelsResult(seq=after.head_seq)
    assert get_thread(agent).head_seq == after.head_seq


@pytest.mark.django_db(transaction=True)
def test_eviction_lowers_pages_to_existing_levels(agent: Agent) -> None:
    thread = crowd(agent, count=20, evict_to=0.6)
    writer.start()
    levels.make_levels(thread)
    made = PageLevel.objects.count()
    add(agent, count=6, role="assistant")
    receipt = act(agent, AppendSlots(slots=(make_slot(LONG),)))
    assert receipt.seq == get_thread(agent).head_seq
    events = Event.objects.filter(thread=thread, seq__gt=thread.head_seq + 20)
    types = [*events.values_list("type", flat=True)]
    assert PageLowered.event_type in types
    # Lowered pages free enough tokens, so that no page has to leave.
    assert not {*EVICTED} & {*types}
    assert PageLevel.objects.count() == made
    assert 1 in list_mapped(get_thread(agent)).values()


@pytest.mark.django_db(transaction=True)
def test_full_set_without_levels_evicts_pages(agent: Agent) -> None:
    thread = crowd(agent, count=20)
    writer.start()
    add(agent, count=7)
    types = {*Event.objects.filter(thread=thread).values_list("type", flat=True)}
    assert {*EVICTED} & types
    assert not types & {PageLowered.event_type, PageCompressed.event_type}


def test_working_set_with_room_gets_no_levels(agent: Agent) -> None:
    thread = crowd(agent, count=5)
    assert levels.make_levels(thread) == LevelsResult(seq=thread.head_seq)


def test_small_pages_media_and_pages_with_levels_are_skipped(agent: Agent) -> None:
    crowd(agent)
    levels.make_levels(get_thread(agent))
    picture = new_page("map", modality="image", type="claim")
    act(agent, CreatePages(pages=(replace(picture, tokens=500, cost=500),)))
    act(agent, CreatePages(pages=(new_page("small", SHORT),)))
    act(agent, CreatePages(pages=(new_page("large", LONG),)))
    made = levels.make_levels(get_thread(agent))
    assert (made.pages, made.written) == (1, 1)
    assert with_levels(get_thread(agent))["large"] == {1, 2, 3}


def test_page_without_possible_levels_writes_nothing(
    agent: Agent, not_run_here: str
) -> None:
    """Use an agent's count by which one letter would weigh more than the page."""
    config = {**CONFIG, "tokenizer": not_run_here, "evict_to": 0.05}
    make_thread(agent, "t-1", **config)
    odd = replace(new_page("odd", "a"), tokens=900, cost=900)
    act(agent, CreatePages(pages=(odd,)))
    thread = get_thread(agent)
    made = levels.make_levels(thread)
    assert made == LevelsResult(pages=1, seq=thread.head_seq)


def test_new_page_version_gets_levels_of_its_own(agent: Agent) -> None:
    thread = crowd(agent)
    act(agent, CreatePages(pages=(new_page("note", LONG),)))
    levels.make_levels(get_thread(agent))
    act(agent, new_text("note", LONGER))
    assert levels.make_levels(get_thread(agent)).written == 1
    rows = PageLevel.objects.filter(thread=thread, page_id="note", level=1)
    assert {*rows.values_list("version", flat=True)} == {1, 2}


def test_levels_read_before_an_update_are_not_written(agent: Agent) -> None:
    crowd(agent)
    act(agent, CreatePages(pages=(new_page("note", LONG),)))
    seen = get_thread(agent)
    act(agent, new_text("note", LONGER))
    made = levels.make_levels(seen)
    assert made.written == 10
    # Only FULL of the old version is stored.
    assert with_levels(seen)["note"] == {0}
    assert made.seq < get_thread(agent).head_seq


def test_levels_read_before_an_erasure_are_not_written(agent: Agent) -> None:
    thread = crowd(agent)
    # An erasure in another thread counts too; the new epoch opens with the same key.
    make_thread(agent, "other")
    receipt = append(agent, "other", "What is forgotten.")
    owner = Subject.objects.get(id=thread.subject_id)
    other = get_thread(agent, "other")
    forget(owner, "record", thread=other, seq=receipt.seq, until="tombstoned")
    made = levels.make_levels(thread)
    assert (made.written, made.void) == (0, True)
    assert get_thread(agent).head_seq == thread.head_seq
    assert levels.make_levels(get_thread(agent)).written == 10


@pytest.mark.parametrize("how", ["closed", "retired"])
def test_closed_and_retired_threads_get_no_levels(agent: Agent, how: str) -> None:
    thread = crowd(agent)
    end = CloseThread() if how == "closed" else RetireThread(policy_days=1, idle_days=2)
    journal.perform(
        Order(address=agent.address("t-1"), command=end, actor="worker:retention")
    )
    ended = get_thread(agent)
    assert levels.make_levels(ended) == LevelsResult(seq=ended.head_seq)
    if how == "retired":
        # The journal itself refuses levels of a row read before the end.
        with pytest.raises(ThreadErasedError):
            levels.make_levels(thread)


def test_fork_gets_levels_of_what_it_inherits(agent: Agent) -> None:
    parent = crowd(agent)
    fork(agent, "t-1", "child", **CONFIG)
    child = get_thread(agent, "child")
    assert levels.make_levels(child).written == 10
    assert with_levels(parent) == {}
    assert levels.make_levels(get_thread(agent)).written == 10
    child = get_thread(agent, "child")
    assert levels.make_levels(child) == LevelsResult(seq=child.head_seq)


def test_level_queries_are_the_same_for_few_and_many_pages(agent: Agent) -> None:
    counts = []
    for name, count in (("few", 2), ("many", 20)):
        thread = crowd(agent, name, count=count, evict_to=0.05)
        made = levels._make_levels  # reading, without what the journal writes
        state = state_of(thread)
        with CaptureQueriesContext(connection) as queries:
            assert len(made(thread, state, levels.list_lacking(state))) == count
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert factories.get_thread(agent, "many").slot_count == 20
