"""Checkpoints: taken, restored, undone, deleted."""

from __future__ import annotations

import pytest

from memoryhub.errors import (
    CheckpointsFullError,
    CheckpointUnknownError,
    NameTakenError,
    ThreadClosedError,
)
from memoryhub.kernel.commands import CloseThread, ReopenThread
from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.checkpoint_events import (
    CheckpointRestored,
    CheckpointTaken,
)
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    ReopenAndRestore,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.keys import ChangeKeys, ClearKeys, EraseValues, ExpireKeys
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.nouns import RESTORED, SLICES
from memoryhub.kernel.memory.tasks import TASK, SetTask
from memoryhub.kernel.state.events import ThreadReopened
from memoryhub.kernel.state.working_memory import (
    AUTOMATIC_KEPT,
    MAX_CHECKPOINTS,
    Contents,
)
from tests.kernel.remembered import (
    delete,
    list_clocks,
    list_names,
    note,
    put,
    restore,
    setting,
    take,
    wait,
)
from tests.oracles.paging import Bench


def get_contents(bench: Bench) -> Contents:
    return bench.state.memory.contents


def forget(bench: Bench, target: int | str) -> list[object]:
    return bench.do(DeleteCheckpoint(target=target))


def test_changes_and_the_checkpoint_of_their_result_are_made_together() -> None:
    bench = Bench()
    both = TakeCheckpoint(name="now", changes=ChangeKeys(changes=(setting("a"),)))
    taken = bench.do(both)[-1]
    assert isinstance(taken, CheckpointTaken)
    assert (taken.name, taken.counts["keys"], list_names(bench)) == ("now", 1, ["a"])
    before = bench.state
    changes = ChangeKeys(changes=(setting("b"),))
    with pytest.raises(NameTakenError):
        bench.do(TakeCheckpoint(name="now", changes=changes))
    assert bench.state is before


def test_restore_brings_back_the_contents_of_the_checkpoint() -> None:
    """restore(take(S)) = S, in the parts restored."""
    bench = Bench()
    put(bench, "a")
    put(bench, "b", [1])
    note(bench, 4, 5)
    bench.do(SetTask(fields={"data": b"{}"}))
    kept, then = take(bench, "before"), get_contents(bench)
    put(bench, "a", 2)
    delete(bench, "b")
    put(bench, "c")
    note(bench, 6)
    bench.do(SetTask())
    taken, told = restore(bench, "before")
    assert get_contents(bench) == then
    assert isinstance(taken, CheckpointTaken)
    assert taken.auto
    assert isinstance(told, CheckpointRestored)
    assert (told.target, told.before) == (kept, bench.state.clock - 1)
    assert (told.set, told.removed, told.expired, told.moved) == (2, 1, 0, {"notes": 1})


def test_taking_and_listing_change_no_key_task_or_note() -> None:
    bench = Bench()
    put(bench, "a", seconds=60)
    note(bench, 3)
    before = get_contents(bench)
    take(bench, "one")
    take(bench)
    forget(bench, "one")
    assert get_contents(bench) is before


@pytest.mark.parametrize("part", RESTORED)
def test_restore_of_one_part_leaves_the_others(part: str) -> None:
    bench = Bench()
    kept = take(bench)
    put(bench, "a")
    note(bench, 3)
    bench.do(SetTask())
    before = get_contents(bench)
    restore(bench, kept, (part,))
    after = get_contents(bench)
    assert (dict(after.keys) == {}) is (part == "keys")
    assert (TASK.get(after) is None) is (part == "task")
    assert bool(NOTES.get(after)) is not (part == "notes")
    assert part == "keys" or after.keys == before.keys
    for name in SLICES.keys() - {part}:
        assert SLICES[name].get(after) == SLICES[name].get(before)


def test_restore_keeps_other_checkpoints() -> None:
    """A, B, C, delete A, restore B: B, C and the automatic one; and undo works."""
    bench = Bench()
    taken = {}
    for name in "ABC":
        put(bench, "k", name)
        taken[name] = take(bench, name)
    put(bench, "k", "now")
    now = get_contents(bench)
    forget(bench, "A")
    restore(bench, "B")
    automatic = bench.state.clock - 1
    assert list_clocks(bench) == [taken["B"], taken["C"], automatic]
    assert get_contents(bench) == bench.state.memory.checkpoints[taken["B"]].contents
    restore(bench, automatic)
    assert get_contents(bench) == now
    assert list_clocks(bench) == [taken["B"], taken["C"], automatic]
    with pytest.raises(CheckpointUnknownError):
        restore(bench, "A")


@pytest.mark.parametrize("swept", [False, True])
def test_restore_counts_expired_keys_swept_or_not(swept: bool) -> None:
    bench = Bench()
    put(bench, "short", seconds=60)
    put(bench, "other")
    kept, version = take(bench), get_contents(bench).keys["short"].version
    wait(bench, 90)
    if swept:
        bench.do(ExpireKeys(keys=(("short", version),)))
    put(bench, "other")
    _, told = restore(bench, kept)
    assert told.expired == 1


def test_restore_keeps_deadlines() -> None:
    bench = Bench()
    put(bench, "short", seconds=60)
    put(bench, "long", seconds=3_600)
    until = get_contents(bench).keys["long"].expires_at
    kept = take(bench)
    bench.do(ClearKeys())
    wait(bench, 90)
    _, told = restore(bench, kept)
    assert (told.set, told.expired) == (1, 1)
    assert list_names(bench) == ["long"]
    assert get_contents(bench).keys["long"].expires_at == until
    assert dict(get_contents(bench).keys).keys() == {"long"}


def test_null_and_rewritten_values_come_back() -> None:
    bench = Bench()
    put(bench, "n", None)
    entry = get_contents(bench).keys["n"]
    kept = take(bench)
    put(bench, "n", None)
    _, told = restore(bench, kept)
    assert told.set == 1
    assert get_contents(bench).keys["n"] == entry


def test_restore_writes_nothing_when_nothing_differs() -> None:
    bench = Bench()
    put(bench, "k")
    kept = take(bench)
    assert restore(bench, kept) == []
    take(bench)
    assert restore(bench, kept) == []
    put(bench, "gone", seconds=5)
    wait(bench, 5)
    assert restore(bench, kept) == []


def test_closed_thread_is_reopened_by_a_restore_that_says_so() -> None:
    bench = Bench()
    put(bench, "a")
    here = take(bench)
    bench.do(CloseThread(reason="completed"))
    again = ReopenAndRestore(target=here, parts=RESTORED)
    assert not bench.do(again)
    bench.do(ReopenThread())
    put(bench, "a", 2)
    bench.do(CloseThread(reason="completed"))
    with pytest.raises(ThreadClosedError):
        restore(bench, here)
    types = [type(event) for event in bench.do(again)]
    assert types == [ThreadReopened, CheckpointTaken, CheckpointRestored]
    assert bench.state.status == "open"


def test_unchanged_state_is_not_checkpointed_again() -> None:
    bench = Bench()
    kept = take(bench)
    put(bench, "k")
    here = take(bench)
    (told,) = restore(bench, kept)
    assert told.before == here
    (back,) = restore(bench, here)
    assert back.before == kept
    assert bench.state.memory.automatic == ()


def test_state_that_differs_in_one_part_is_checkpointed() -> None:
    bench = Bench()
    empty = take(bench)
    bench.do(SetTask())
    base = take(bench)
    restore(bench, empty, ("task",))
    note(bench, 1)
    taken, told = restore(bench, base)
    assert taken.auto
    assert told.before == bench.state.clock - 1


def test_automatic_checkpoints_are_limited_to_the_newest_twenty() -> None:
    bench = Bench()
    kept = take(bench, "base")
    gone = []
    for n in range(AUTOMATIC_KEPT + 5):
        put(bench, "k", n)
        gone += restore(bench, kept)[-1].pruned
    automatic = bench.state.memory.automatic
    assert len(automatic) == AUTOMATIC_KEPT
    assert len(gone) == 5
    assert max(gone) < min(automatic)
    assert list_clocks(bench) == [kept, *automatic]


def test_restore_may_outdate_its_own_target() -> None:
    bench = Bench()
    kept = take(bench)
    for n in range(AUTOMATIC_KEPT):
        put(bench, "k", n)
        restore(bench, kept)
    oldest = bench.state.memory.automatic[0]
    put(bench, "k", "more")
    _, told = restore(bench, oldest)
    assert told.pruned == [oldest]
    assert oldest not in list_clocks(bench)
    bench.restart()


def test_checkpoint_names_are_unique_until_deleted() -> None:
    bench = Bench()
    first = take(bench, "one")
    with pytest.raises(NameTakenError):
        take(bench, "one")
    forget(bench, first)
    assert take(bench, "one") > first


def test_thread_holds_a_thousand_requested_checkpoints() -> None:
    """Automatic checkpoints do not count."""
    bench = Bench()
    for _ in range(MAX_CHECKPOINTS):
        bench.do(TakeCheckpoint())
    with pytest.raises(CheckpointsFullError) as refused:
        take(bench)
    assert refused.value.detail == {"max_checkpoints": MAX_CHECKPOINTS}
    put(bench, "k")
    restore(bench, list_clocks(bench)[0])
    assert len(list_clocks(bench)) == MAX_CHECKPOINTS + 1
    forget(bench, list_clocks(bench)[0])
    take(bench)


def test_deleting_checkpoint_frees_no_value() -> None:
    bench = Bench()
    put(bench, "k")
    seq = bench.state.seq
    kept = take(bench)
    before = get_contents(bench)
    assert len(forget(bench, kept)) == 1
    assert forget(bench, kept) == []
    assert forget(bench, "never") == []
    assert get_contents(bench) is before
    wait(bench, 10**6)
    grace = bench.at - bench.at
    assert bench.do(EraseValues(seqs=(seq,), grace=grace)) == []


def test_preview_equals_the_event_of_the_restore() -> None:
    bench = Bench()
    put(bench, "a", seconds=9)
    put(bench, "b")
    kept = take(bench)
    put(bench, "c")
    put(bench, "b", 2)
    delete(bench, "a")
    wait(bench, 9)
    target = checkpoints.require_checkpoint(bench.state.memory, kept)
    seen = checkpoints.compute_changes(bench.state, target, RESTORED, at=bench.at)
    state = bench.state
    _, told = restore(bench, kept)
    assert seen[:3] == (told.set, told.removed, told.expired) == (1, 1, 1)
    assert not any(seen.slices["notes"])
    assert told.notes == 0
    assert state.memory.contents.keys["b"] != get_contents(bench).keys["b"]


def test_fork_goes_on_from_inherited_checkpoints() -> None:
    parent = Bench()
    put(parent, "k")
    kept = take(parent, "base")
    put(parent, "k", 2)
    child = parent.fork(thread=9)
    child.at = parent.at
    assert list_clocks(child) == [kept]
    restore(child, "base")
    assert get_contents(child).keys["k"].value < kept
    assert len(list_clocks(child)) == 2
    assert list_clocks(parent) == [kept]
    restore(child, child.state.memory.automatic[0])
    assert get_contents(child) == get_contents(parent)


def test_sweep_makes_no_automatic_checkpoint_necessary() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    version = bench.state.clock
    kept = take(bench)
    wait(bench, 9)
    bench.do(ExpireKeys(keys=(("k", version),)))
    assert restore(bench, kept) == []
