"""Notes: the newest stay, and events tell of trimmed ones."""

from __future__ import annotations

from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.memory.notes import NOTES, ClearNotes
from tests.kernel.remembered import note, restore, take
from tests.oracles.paging import Bench


def clocks(bench: Bench) -> list[int]:
    return [each.clock for each in NOTES.get_current(bench.state).lines]


def test_note_is_one_event_whatever_the_count_of_notes() -> None:
    bench = Bench(max_notes=3)
    told = [note(bench, 7)[0].trimmed for _ in range(10)]
    assert told == [0] * 3 + [1] * 7
    assert clocks(bench) == [9, 10, 11]
    assert NOTES.get_current(bench.state).bytes == 3 * 64


def test_note_limit_of_one_keeps_the_newest_note() -> None:
    bench = Bench(max_notes=1)
    told = note(bench, 1, 2, 3)
    assert [each.trimmed for each in told] == [0, 1, 1]
    assert clocks(bench) == [bench.state.clock]
    assert NOTES.get_current(bench.state).bytes == 64


def test_lowered_limit_trims_with_the_next_note() -> None:
    bench = Bench()
    note(bench, *range(1, 11))
    bench.do(AmendThread(config={"max_notes": 4}))
    assert len(clocks(bench)) == 10
    first, second = note(bench, 5, 5)
    assert (first.trimmed, second.trimmed) == (7, 1)
    assert len(clocks(bench)) == 4
    assert NOTES.get_current(bench.state).bytes == 4 * 64


def test_clear_empties_the_scratchpad_and_counts() -> None:
    bench = Bench()
    note(bench, 1, 1)
    (told,) = bench.do(ClearNotes())
    assert told.count == 2
    assert (clocks(bench), NOTES.get_current(bench.state).bytes) == ([], 0)
    assert bench.do(ClearNotes()) == []


def test_later_note_is_not_in_the_checkpoint() -> None:
    bench = Bench()
    note(bench, 1)
    kept = take(bench)
    held = clocks(bench)
    note(bench, 2)
    then = bench.state.memory.checkpoints[kept].contents
    assert [each.clock for each in NOTES.get(then).lines] == held
    (_, told) = restore(bench, kept)
    assert told.notes == 1
    assert clocks(bench) == held
    assert NOTES.get_current(bench.state).bytes == 64


def test_notes_restored_follow_the_limit_of_now() -> None:
    """The limit applies at the next append, as after a lowered limit."""
    bench = Bench()
    note(bench, 1, 1, 1)
    kept = take(bench)
    bench.do(ClearNotes())
    bench.do(AmendThread(config={"max_notes": 2}))
    restore(bench, kept)
    assert len(clocks(bench)) == 3
    (told,) = note(bench, 1)
    assert told.trimmed == 2
    assert len(clocks(bench)) == 2
