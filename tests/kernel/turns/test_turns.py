"""Turns: what begins with one, what must be shown in it, and recording it once."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import NotFoundError, ThreadClosedError, ThreadFullError
from memoryhub.kernel.commands import (
    AmendThread,
    AppendSlots,
    CloseThread,
    ImportMessages,
    RunMessage,
)
from memoryhub.kernel.context.contexts import ContextRecord
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    EvictPage,
    MapPage,
    PinPage,
    RecordContext,
)
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageMapped, TurnBegan, TurnPacked
from tests.oracles.paging import (
    BARE,
    Bench,
    build_levels,
    build_page,
    build_slot,
    list_of_kind,
    make,
)

EMPTY = ContextRecord(
    packer="pack/1", mode="strict", budget=2_400, sections=(), bytes=30, tokens=9
)


def append(bench: Bench, *sizes: int, role: str = "assistant") -> list[Any]:
    return bench.do(AppendSlots(slots=tuple(build_slot(size, role) for size in sizes)))


def fill_pins(bench: Bench, explicit: int) -> None:
    """Build a thread whose pins leave no room for an exchange."""
    make(
        bench, build_page("a", explicit // 2), build_page("b", explicit - explicit // 2)
    )
    bench.do(PinPage(page_id="a"))
    bench.do(PinPage(page_id="b"))


def record(turn: int) -> RecordContext:
    return RecordContext(turn=turn, as_of_seq=1, record=EMPTY, sha256="00" * 32)


def test_slots_come_before_the_turn_they_are_sent_with() -> None:
    bench = Bench(**BARE)
    events = bench.do(BeginTurn(slots=(build_slot(10), build_slot(10, "tool"))))
    assert [*map(type, events)] == [SlotAppended, SlotAppended, TurnBegan]
    assert bench.state.turn_count == 1
    assert bench.frame("slot-0").entry.created_turn == 0


@pytest.mark.parametrize(
    ("sent", "continuing", "continues"),
    [
        ([], None, True),
        (["assistant", "tool"], None, True),
        (["user"], None, False),
        (["user", "tool"], None, False),
        ([], False, False),
        (["user"], True, True),
    ],
)
def test_turn_continues_unless_the_user_spoke(
    sent: list[str], continuing: bool | None, continues: bool
) -> None:
    bench = Bench(**BARE)
    append(bench, 10, role="user")
    assert not bench.do(BeginTurn())[-1].continues
    slots = tuple(build_slot(10, role) for role in sent)
    events = bench.do(BeginTurn(slots=slots, continues=continuing))
    assert list_of_kind(events, TurnBegan)[0].continues == continues


def test_thread_without_a_user_begins_every_turn_anew() -> None:
    bench = Bench(**BARE)
    append(bench, 10, role="tool")
    for _ in range(2):
        assert not bench.do(BeginTurn())[-1].continues


def test_turn_has_the_threads_mode_unless_it_says_another() -> None:
    bench = Bench(**BARE, mode="relaxed")
    assert bench.do(BeginTurn())[-1].mode == "relaxed"
    assert bench.do(BeginTurn(mode="passive"))[-1].mode == "passive"


def test_newest_user_slot_is_always_sent() -> None:
    """In the kernel, a turn begins with the slot in the working set."""
    bench = Bench(**BARE)
    fill_pins(bench, 960)
    append(bench, 100, role="user")
    append(bench, 300, 300, 300)
    # Whatever else of the exchange has no room, it stays.
    assert "slot-0" in bench.mapped
    bench.do(EvictPage(page_id="slot-0"))
    (_, event) = bench.do(BeginTurn())
    assert (event.page_id, event.level, event.cause) == ("slot-0", 0, "turn")
    # Nobody named it, so nobody looked it up.
    assert event.lookup is None
    assert bench.mapped[-1] == "slot-0"


def test_user_slot_that_was_lowered_is_shown_whole_again() -> None:
    bench = Bench(**BARE)
    fill_pins(bench, 960)
    append(bench, 300, role="user")
    bench.do(
        MapPage(page_id="slot-0", level=1, made=build_levels("slot-0", 50, 20, 10))
    )
    assert bench.frame("slot-0").level == 1
    (event,) = list_of_kind(bench.do(BeginTurn()), PageMapped)
    assert (event.page_id, event.level) == ("slot-0", 0)
    assert len(bench.do(BeginTurn())) == 1


def test_user_slot_that_is_not_mapped_by_itself_is_shown() -> None:
    bench = Bench(**BARE, map_slots=False)
    append(bench, 100, 900, 100, role="user")
    assert bench.mapped == []
    bench.do(BeginTurn())
    assert bench.mapped == ["slot-2"]
    append(bench, 900, role="user")
    bench.do(BeginTurn())
    # The user's message may be larger than any page of the past.
    assert bench.frame("slot-3").level == 0
    append(bench, 1_700, role="user")
    bench.do(BeginTurn())
    # Too large to be whole: its levels were made when it came.
    assert bench.frame("slot-4").level == 1


def test_user_slot_is_shown_before_its_row_exists() -> None:
    """The slot leaves the hot list and the TLB within one command."""
    bench = Bench(**BARE, tlb_entries=0, l1_pages=1, map_slots=False)
    turn = BeginTurn(
        slots=(build_slot(100), *(build_slot(300, "tool") for _ in range(5))),
    )
    seen = bench.rows.read
    seen.clear()
    events = bench.do(turn)
    assert "slot-0" not in seen
    assert [event.page_id for event in list_of_kind(events, PageMapped)] == ["slot-0"]
    assert bench.frame("slot-0").entry == bench.rows.live["slot-0"]


def test_user_slot_too_large_by_now_is_shown_at_the_level_sent_along() -> None:
    bench = Bench(**{**BARE, "budget_tokens": 4_000})
    append(bench, 1_250, role="user")
    bench.do(AmendThread(config={"budget_tokens": 2_000}))
    assert bench.mapped == []
    bench.do(BeginTurn())
    assert bench.mapped == []
    bench.do(BeginTurn(made=build_levels("slot-0", 300, 100)))
    assert bench.frame("slot-0").level == 1


def test_refused_slot_begins_no_turn() -> None:
    bench = Bench(**BARE, max_slots=1)
    before = bench.state
    with pytest.raises(ThreadFullError):
        bench.do(BeginTurn(slots=(build_slot(10), build_slot(10))))
    assert bench.state is before


def test_closed_thread_begins_no_turn_but_keeps_what_it_sent() -> None:
    bench = Bench(**BARE)
    bench.do(BeginTurn())
    bench.do(CloseThread())
    with pytest.raises(ThreadClosedError):
        bench.do(BeginTurn())
    assert [*map(type, bench.do(record(1)))] == [TurnPacked]


def test_context_is_recorded_once() -> None:
    bench = Bench(**BARE)
    for _ in range(3):
        bench.do(BeginTurn())
    for turn in (2, 1):
        assert len(bench.do(record(turn))) == 1
        assert bench.do(record(turn)) == []
    bench.restart()
    assert bench.do(record(2)) == []
    # The one that nobody recorded in time still can be.
    assert len(bench.do(record(3))) == 1
    for turn in (0, 4):
        with pytest.raises(NotFoundError):
            bench.do(record(turn))


def test_imported_turns_continue_as_lived_ones_do() -> None:
    bench = Bench(**BARE)
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    messages = tuple(
        RunMessage(slot=build_slot(10, role), turn=role == "assistant")
        for role in roles
    )
    events = bench.do(ImportMessages(after=0, messages=messages, digest="00"))
    turns = list_of_kind(events, TurnBegan)
    assert [turn.continues for turn in turns] == [False, True, False]
    assert [turn.n for turn in turns] == [1, 2, 3]
    # A turn stands immediately before the message that it led to.
    kinds = [event.event_type for event in events]
    assert kinds[1] == "turn.began"
