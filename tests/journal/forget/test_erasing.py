"""Erasing in journals: what is named goes at once, and everything else stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import Refusal, ThreadErasedError
from memoryhub.journal import texts
from memoryhub.journal.forget import erasing
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    EvictPage,
    MapPage,
    PinPage,
    WriteLevels,
)
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.paging.pages import find_entry, list_pages
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast.erasings import end, erase, erase_ranges, sound
from tests.cast.factories import append, get_thread, run
from tests.oracles.memory_acts import (
    DAY,
    add_notes,
    dues,
    key_rows,
    list_names,
    restore,
    retime,
    set_key,
    set_task,
    take,
)
from tests.oracles.page_acts import (
    act,
    find_page_entry,
    levels_of,
    make_pages,
    new_page,
    new_text,
)
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db


def seqs(thread: Thread, *types: str) -> list[int]:
    rows = Event.objects.filter(thread=thread, type__in=types).order_by("seq")
    return [*rows.values_list("seq", flat=True)]


def list_sealed_seqs(thread: Thread) -> set[int]:
    rows = Event.objects.filter(thread=thread, payload__isnull=False)
    return {*rows.values_list("seq", flat=True)}


def make_filled_thread(agent: Agent, name: str = "t-1") -> Thread:
    append(agent, name, "one", "two", "three")
    make_pages(agent, new_page("a", "aaa", hint="h"), new_page("b", "bbb"), thread=name)
    act(agent, WriteLevels(made=levels_of("a", {1: "short"})), name)
    make_pages(agent, new_page("c", "ccc", provenance=("a", "slot-1")), thread=name)
    set_key(agent, "k", "v", ttl=DAY, thread=name)
    set_key(agent, "l", "w", ttl=DAY, thread=name)
    add_notes(agent, "n-1", "n-2", thread=name)
    set_task(agent, name, fields={"description": b'"d"', "data": b"{}"})
    take(agent, "c-1", thread=name)
    return get_thread(agent, name)


def test_records_go_with_the_event_that_orders_it(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    before = list_sealed_seqs(thread)
    slot, value = seqs(thread, "slot.appended")[1], seqs(thread, "key.set")[0]
    told = erase(thread, (slot, slot), (value, value))
    assert told == {thread.id: thread.head_seq + 1}
    assert before - list_sealed_seqs(thread) == {slot, value}
    gone = Event.objects.filter(thread=thread, erased_by=thread.head_seq + 1)
    assert {*gone.values_list("seq", flat=True)} == {slot, value}
    assert [*Slot.objects.filter(erased=True).values_list("index", flat=True)] == [1]
    assert Page.objects.get(page_id="slot-1").deleted_seq == thread.head_seq + 1
    assert list_names(thread) == ["l"]
    assert [*dues(thread)] == seqs(thread, "key.set")[1:]
    sound(thread)


def test_erasure_of_erased_records_does_nothing(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    assert erase(thread, (2, 4))
    assert erase(thread, (2, 4)) == {}
    assert erase(thread, (thread.head_seq + 1, thread.head_seq + 9)) == {}


def test_levels_go_without_their_page(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    (made,) = seqs(thread, "page.compressed")
    erase(thread, (made, made))
    assert not PageLevel.objects.filter(thread=thread).exists()
    kept = find_page_entry(thread, "a")
    assert kept is not None
    assert kept.levels[1:] == (None, None, None)
    assert state_of(thread).paging.frames["a"].entry == kept
    sound(thread)


def test_hint_goes_without_its_page(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    make_pages(agent, new_page("d", "ddd"))
    act(agent, new_text("d", "new"))
    thread = get_thread(agent)
    first = seqs(thread, "page.created")[0]
    act(agent, new_text("a", "another"))
    # The hint of the first version still stands.
    assert find_page_entry(thread, "a").hint.seq == first  # type: ignore[union-attr]  # it is there
    erase(thread, (first, first))
    kept = find_page_entry(thread, "a")
    assert kept is not None
    assert kept.hint is None
    sound(thread)


def test_snapshot_with_erased_records_is_deleted_and_made_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.journal.log.snapshots.INTERVAL", 5)
    for n in range(30):
        append(agent, "t-1", f"text {n}")
    thread = get_thread(agent)
    before = {*Snapshot.objects.values_list("seq", flat=True)}
    erase(thread, (15, 16))
    kept = {*Snapshot.objects.values_list("seq", flat=True)}
    assert kept == {seq for seq in before if seq < 15}
    assert kept
    assert erasing.reseal(get_thread(agent)) == len(before) - len(kept)
    assert erasing.reseal(get_thread(agent)) == 0
    sound(thread)


def test_erasure_drops_opened_texts_from_memory(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    row = Thread.objects.select_related("subject").get(id=thread.id)
    frames = state_of(thread).paging.frames
    places = [frames[name].entry.full.location for name in ("a", "b")]
    assert len(texts.open_texts(row, places)) == 2
    erase(thread, (places[0].seq, places[0].seq))
    held = {key[2] for key, _ in texts.texts.list_items()}
    assert places[0] not in held
    assert places[1] in held


def test_fork_learns_of_the_erasure_and_keeps_its_own_records(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    child = fork(agent, "t-1", "child")
    act(agent, new_text("a", "of the child"), "child")
    append(agent, "child", "four")
    grandchild = fork(agent, "child", "grandchild")
    early = fork(agent, "t-1", "early", seq=2)
    twin = make_filled_thread(agent, "twin")
    own = list_sealed_seqs(child), list_sealed_seqs(grandchild), list_sealed_seqs(twin)
    first = seqs(thread, "page.created")[0]
    told = erase(thread, (first, first + 1), (3, 3))
    assert told.keys() == {thread.id, child.id, grandchild.id}
    assert early.head_seq == get_thread(agent, "early").head_seq
    assert (
        list_sealed_seqs(child),
        list_sealed_seqs(grandchild),
        list_sealed_seqs(twin),
    ) == own
    for each in (child, grandchild):
        state = state_of(each)
        assert "a" in state.paging.frames
        assert "b" not in state.paging.frames
        assert find_page_entry(each, "b") is None
        with pytest.raises(Refusal) as refused:
            find_entry(state, "b")
        assert refused.value.code == "page_erased"
    listed = [line.entry.page_id for line in list_pages(child, state_of(child)).items]
    assert listed == ["slot-0", "slot-2", "a", "c", "slot-3"]
    sound(thread, child, grandchild, early, twin)


def test_fork_of_an_earlier_seq_drops_erased_records(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    first = seqs(thread, "page.created")[0]
    erase(thread, (first, first), (2, 2))
    child = fork(agent, "t-1", "child", seq=thread.head_seq)
    state = state_of(child)
    assert "a" not in state.paging.frames
    assert "b" in state.paging.frames
    (let_go,) = seqs(child, "records.erased")
    later = fork(agent, "t-1", "later")
    assert seqs(later, "records.erased") == []
    assert find_page_entry(later, "a") is None
    sound(thread, child, later)
    assert let_go == 2


def test_no_fork_is_made_of_a_thread_that_was_erased_meanwhile(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    row = Thread.objects.select_related("subject").get(id=thread.id)
    command = threads.build_fork(
        row, 5, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    end(thread)
    with pytest.raises(ThreadErasedError):
        run(threads.fork(agent=agent, name="child", command=command))


def test_restricted_subject_is_erased_without_a_key(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = make_filled_thread(agent)
    Subject.objects.filter(id=thread.subject_id).update(state="erasing")

    def no_key(*args: Any, **named: Any) -> None:
        raise AssertionError("a key was asked for")

    monkeypatch.setattr("memoryhub.vault.keys.keys.get_subject_keys", no_key)
    with CaptureQueriesContext(connection) as asked:
        end(thread)
    assert not any('"memoryhub_snapshot"' in each["sql"][:40] for each in asked)
    row = get_thread(agent)
    assert row.status == "erased"
    assert row.last_event_type == "thread.erased"
    assert (row.slot_count, row.agent_type, row.labels) == (3, None, "{}")


@pytest.mark.no_replay
def test_erased_thread_refuses_and_is_not_folded(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    end(thread)
    Event.objects.filter(thread=thread, seq__lte=3).update(
        payload=None, erased_by=thread.head_seq + 1, body="{}"
    )
    for _ in range(2):
        with pytest.raises(ThreadErasedError):
            set_key(agent, "k")


def test_copied_value_is_erased_with_its_source(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    child = fork(agent, "t-1", "child")
    retime(agent, "k", 2 * DAY, "child")
    row = Derivation.objects.get(derived_thread=child.id)
    assert (row.thread_id, row.source_seq) == (thread.id, seqs(thread, "key.set")[0])
    ranges = [(thread.id, row.source_seq, row.source_seq)]
    ranges += [(child.id, row.derived_seq, row.derived_seq)]
    erase_ranges(thread, ranges)
    assert [each["key"] for each in key_rows(child)] == ["l"]
    sound(thread, child)


def test_derivation_rows_name_sources_and_derived_records(agent: Agent) -> None:
    thread = make_filled_thread(agent)
    slot = seqs(thread, "slot.appended")[1]
    a, _, c = seqs(thread, "page.created")
    (made,) = seqs(thread, "page.compressed")
    rows = Derivation.objects.values_list("source_seq", "derived_seq")
    assert {*rows} == {(a, made), (a, c), (slot, c)}
    erase(thread, (a, a))
    assert {*rows.all()} == {(slot, c)}
    sound(thread)


ACTS: list[Callable[[Agent, str, random.Random], Any]] = [
    lambda a, t, d: append(a, t, f"text {d.random()}"),
    lambda a, t, d: append(a, t, f"text {d.random()}"),
    lambda a, t, d: make_pages(a, new_page(f"p-{d.randrange(9)}"), thread=t),
    lambda a, t, d: make_pages(
        a,
        new_page(f"q-{d.randrange(9)}", hint="h", provenance=(f"p-{d.randrange(9)}",)),
        thread=t,
    ),
    lambda a, t, d: act(a, new_text(f"p-{d.randrange(9)}", f"new {d.random()}"), t),
    lambda a, t, d: act(
        a, WriteLevels(made=levels_of(f"p-{d.randrange(9)}", {1: "x", 3: "y"})), t
    ),
    lambda a, t, d: act(a, MapPage(page_id=f"p-{d.randrange(9)}", level=1), t),
    lambda a, t, d: act(a, PinPage(page_id=f"p-{d.randrange(9)}"), t),
    lambda a, t, d: act(a, EvictPage(page_id=f"p-{d.randrange(9)}"), t),
    lambda a, t, d: act(a, DeletePage(page_id=f"p-{d.randrange(9)}"), t),
    lambda a, t, d: act(a, BeginTurn(), t),
    lambda a, t, d: set_key(a, f"k-{d.randrange(4)}", ttl=DAY, thread=t),
    lambda a, t, d: set_key(a, f"k-{d.randrange(4)}", thread=t),
    lambda a, t, d: retime(a, f"k-{d.randrange(4)}", DAY * d.randrange(1, 4), t),
    lambda a, t, d: add_notes(a, "a note", thread=t),
    lambda a, t, d: set_task(a, t, fields={"data": b"{}"}),
    lambda a, t, d: take(a, thread=t),
    lambda a, t, d: restore(
        a, d.choice(seqs(get_thread(a, t), "checkpoint.taken")), thread=t
    ),
]


@pytest.mark.parametrize("seed", range(6))
def test_random_lives_with_erasures_verify(agent: Agent, seed: int) -> None:
    dice, known = random.Random(seed), ["t-1"]
    append(agent, "t-1", "hello")
    for step in range(150):
        name = dice.choice(known)
        try:
            if step % 40 == 39:
                row = get_thread(agent, name)
                fork(agent, name, f"f-{step}", seq=dice.randrange(1, row.head_seq + 1))
                known.append(f"f-{step}")
            elif step % 15 == 14:
                row = get_thread(agent, name)
                first = dice.randrange(1, row.head_seq + 1)
                erase(row, (first, first + dice.choice([0, 2, 9])))
            else:
                dice.choice(ACTS)(agent, name, dice)
        except (Refusal, IndexError):
            continue
    rows = [get_thread(agent, name) for name in known]
    assert any(seqs(row, "records.erased") for row in rows)
    sound(*rows)
    assert all(list_sealed_seqs(row) for row in rows[:1])
