"""Keys: conditions, deadlines, limits, sweeps and the erasure of values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.errors import (
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    KeysFullError,
    StaleError,
)
from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.memory.key_events import (
    KeyDeleted,
    KeyRetimed,
    KeySet,
    KeysExpired,
)
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    DeleteKey,
    EraseValues,
    ExpireKeys,
    Expiry,
    RetimeKey,
)
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.state.working_memory import KeyEntry
from tests.kernel.remembered import (
    delete,
    lasting,
    list_clocks,
    list_names,
    note,
    put,
    restore,
    setting,
    take,
    wait,
)
from tests.oracles.paging import BEGAN, Bench

ABSENT = Expected(absent=True)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


def get_entry(bench: Bench, key: str) -> KeyEntry:
    return bench.state.memory.contents.keys[key]


def retime(bench: Bench, key: str, seconds: float | None, **given: Any) -> list[Any]:
    return bench.do(RetimeKey(key=key, expiry=lasting(seconds), **given))


def sweep(bench: Bench, *keys: tuple[str, int]) -> list[Any]:
    return bench.do(ExpireKeys(keys=keys))


def erase(bench: Bench, *seqs: int, grace: float = 0) -> list[Any]:
    return bench.do(EraseValues(seqs=seqs, grace=timedelta(seconds=grace)))


def test_key_expires_at_its_instant_not_before() -> None:
    bench = Bench()
    put(bench, "k", seconds=60)
    until = get_entry(bench, "k").expires_at
    assert until == BEGAN + timedelta(seconds=61)
    find = bench.state.memory.contents.find_key
    assert find("k", now=until - MICROSECOND) == get_entry(bench, "k")
    assert find("k", now=until) is None


def test_expired_key_is_absent_to_every_condition() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    version = bench.state.seq
    wait(bench, 5)
    with pytest.raises(StaleError) as refused:
        put(bench, "k", expected=Expected(version=version))
    assert refused.value.detail["version"] is None
    (told,) = put(bench, "k", expected=ABSENT)
    assert told.created


def test_null_is_a_value() -> None:
    bench = Bench()
    put(bench, "k", None)
    assert get_entry(bench, "k").bytes == 64
    assert list_names(bench) == ["k"]
    with pytest.raises(KeyExistsError):
        put(bench, "k", expected=ABSENT)


def test_version_is_the_seq_of_the_last_set_or_retiming() -> None:
    bench = Bench()
    put(bench, "k")
    first = bench.state.seq
    retime(bench, "k", 60, expected=Expected(version=first))
    assert get_entry(bench, "k").version == bench.state.clock == first + 1
    assert get_entry(bench, "k").value == first
    with pytest.raises(StaleError):
        delete(bench, "k", Expected(version=first))
    delete(bench, "k", Expected(version=first + 1))
    assert list_names(bench) == []


def test_create_only_set_requires_an_absent_key() -> None:
    bench = Bench()
    assert put(bench, "k", expected=ABSENT)[0].created
    state = bench.state
    with pytest.raises(KeyExistsError):
        put(bench, "k", 2, expected=ABSENT)
    assert bench.state is state


def test_batch_is_all_or_nothing_and_names_the_change() -> None:
    bench = Bench()
    put(bench, "k")
    state = bench.state
    stale = setting("k", 2, expected=Expected(version=99))
    with pytest.raises(StaleError) as refused:
        bench.do(ChangeKeys(changes=(setting("a"), stale)))
    assert refused.value.detail["index"] == 1
    assert bench.state is state


def test_batch_skips_a_delete_of_nothing() -> None:
    bench = Bench()
    put(bench, "b")
    changes = (DeleteKey(key="a"), DeleteKey(key="b"), setting("c"))
    told = bench.do(ChangeKeys(changes=changes))
    assert [type(each) for each in told] == [KeyDeleted, KeySet]
    assert list_names(bench) == ["c"]


@pytest.mark.parametrize(
    ("thread", "project", "seconds"), [(None, None, None), (None, 9, 9), (5, 9, 5)]
)
def test_key_without_an_expiry_takes_the_nearest_default_ttl(
    thread: int | None, project: int | None, seconds: int | None
) -> None:
    bench = Bench(default_ttl_seconds=thread)
    default = None if project is None else timedelta(seconds=project)
    at = bench.at
    bench.do(ChangeKeys(changes=(setting("k"),), default_ttl=default))
    wanted = None if seconds is None else at + timedelta(seconds=seconds)
    assert get_entry(bench, "k").expires_at == wanted


def test_key_can_be_set_to_never_expire() -> None:
    bench = Bench(default_ttl_seconds=5)
    change = setting("k", expiry=lasting(None))
    bench.do(ChangeKeys(changes=(change,), default_ttl=9 * SECOND))
    assert get_entry(bench, "k").expires_at is None


def test_set_always_resets_the_expiry() -> None:
    bench = Bench()
    put(bench, "k", seconds=60)
    put(bench, "k")
    assert get_entry(bench, "k").expires_at is None


def test_expiry_instant_must_be_in_the_future() -> None:
    bench = Bench()
    with pytest.raises(InvalidError) as refused:
        put(bench, "k", expiry=Expiry(given=True, at=bench.at))
    assert refused.value.invalid_code == "expiry_in_past"
    put(bench, "k", expiry=Expiry(given=True, at=bench.at + MICROSECOND))


def test_expired_key_cannot_be_retimed() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    wait(bench, 5)
    with pytest.raises(KeyNotFoundError):
        retime(bench, "k", 60)


def test_clearing_keys_leaves_notes_and_checkpoints() -> None:
    bench = Bench()
    put(bench, "old", seconds=5)
    put(bench, "a")
    put(bench, "b")
    note(bench, 3)
    kept = take(bench)
    wait(bench, 5)
    before = bench.state.memory
    (told,) = bench.do(ClearKeys())
    after = bench.state.memory
    assert told.count == 2
    assert (dict(after.contents.keys), after.contents.key_bytes) == ({}, 0)
    assert NOTES.get(after.contents).lines == NOTES.get(before.contents).lines
    assert after.checkpoints == before.checkpoints
    assert list_clocks(bench) == [kept]
    assert bench.do(ClearKeys()) == []


def test_expired_key_leaves_only_by_a_sweep_that_checks_its_version() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    stale = bench.state.clock
    put(bench, "k", seconds=5)
    version = bench.state.clock
    assert sweep(bench, ("k", version)) == []
    wait(bench, 5)
    assert sweep(bench, ("k", stale), ("nothing", 3)) == []
    (told,) = sweep(bench, ("k", version), ("k", version))
    assert [(each.key, each.version) for each in told.keys] == [("k", version)]
    assert dict(bench.state.memory.contents.keys) == {}
    assert sweep(bench, ("k", version)) == []


def test_sweep_tells_of_200_keys_at_once() -> None:
    bench = Bench()
    for start in (0, 150, 300):
        changes = (setting(f"k{start + n}", seconds=9) for n in range(150))
        bench.do(ChangeKeys(changes=tuple(changes)))
    versions = {k: each.version for k, each in bench.state.memory.contents.keys.items()}
    wait(bench, 60)
    told = sweep(bench, *versions.items())
    assert [len(event.keys) for event in told] == [200, 200, 50]


def test_limits_count_no_expired_keys() -> None:
    """A set beyond the limit sweeps first, in the same command."""
    bench = Bench(max_keys=2)
    put(bench, "old", seconds=5)
    put(bench, "a")
    with pytest.raises(KeysFullError) as refused:
        put(bench, "b")
    assert refused.value.detail["max_keys"] == 2
    assert refused.value.detail["index"] == 0
    wait(bench, 5)
    swept, told = put(bench, "b")
    assert isinstance(swept, KeysExpired)
    assert told.created
    assert list_names(bench) == ["a", "b"]


def test_key_limits_hold_for_bytes() -> None:
    bench = Bench(max_key_bytes=128)
    put(bench, "a", "x" * 63)  # 65 with its quotes: two steps
    with pytest.raises(KeysFullError):
        put(bench, "b", 1)
    put(bench, "a", "x" * 62)
    put(bench, "b", 1234)
    assert bench.state.memory.contents.key_bytes == 128


def test_key_change_that_adds_no_excess_is_accepted_over_the_limits() -> None:
    """The limits were lowered below the present contents."""
    bench = Bench()
    for key in "abc":
        put(bench, key, "x" * 100)
    bench.do(AmendThread(config={"max_keys": 1, "max_key_bytes": 200}))
    put(bench, "a", "x" * 40)
    with pytest.raises(KeysFullError):
        put(bench, "a", "x" * 100)
    bench.do(AmendThread(config={"max_key_bytes": 1_000}))
    put(bench, "a", "x" * 300)
    delete(bench, "b")
    with pytest.raises(KeysFullError):
        put(bench, "b", 1)


def test_expired_key_has_no_place_to_keep() -> None:
    """Beyond a lowered limit an expired key cannot be set again, swept or not."""
    bench = Bench()
    put(bench, "old", "long enough", seconds=5)
    put(bench, "a")
    bench.do(AmendThread(config={"max_keys": 1}))
    wait(bench, 5)
    with pytest.raises(KeysFullError):
        put(bench, "old", 1)


def test_value_is_due_after_the_latest_expiry_it_was_ever_given() -> None:
    bench = Bench()
    put(bench, "k", seconds=60)
    seq = bench.state.seq
    retime(bench, "k", 100)
    retime(bench, "k", 5)
    due = bench.rows.list_dues([seq])[seq]
    wait(bench, (due - bench.at).total_seconds() - 1)
    assert erase(bench, seq) == []
    assert erase(bench, seq, grace=10) == []
    wait(bench, 9)
    (told,) = erase(bench, seq, seq + 99, grace=10)
    assert told.seqs == [seq]


def test_permanent_value_survives_old_deadline() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    seq = bench.state.seq
    retime(bench, "k", None)
    retime(bench, "k", 5)
    put(bench, "never")
    wait(bench, 1_000)
    assert erase(bench, seq, bench.state.seq) == []


def test_overwritten_value_is_erased_after_its_expiry() -> None:
    bench = Bench()
    put(bench, "k", seconds=5)
    first = bench.state.seq
    put(bench, "k")
    wait(bench, 60)
    (told,) = erase(bench, first, bench.state.seq)
    assert told.seqs == [first]
    assert list_names(bench) == ["k"]


def test_fork_keeps_value_it_retimed() -> None:
    """The fork sets the value anew; the inherited one may be erased by the parent."""
    parent = Bench()
    put(parent, "k", "precious", seconds=5)
    seq = parent.state.seq
    child = parent.fork(thread=9)
    child.at = parent.at
    seen = child.state.to_seq(get_entry(child, "k").version)
    assert seen <= 0
    with pytest.raises(StaleError):
        retime(child, "k", 600)
    condition = Expected(version=seen)
    (told,) = retime(child, "k", 600, value=b'"precious"', expected=condition)
    assert (told.event_type, told.created) == ("key.set", False)
    wait(parent, 60)
    assert erase(parent, seq)[0].seqs == [seq]
    wait(child, 60)
    assert child.state.locate_event(get_entry(child, "k").value) == (child.state.id, 2)
    assert list_names(child) == ["k"]
    (again,) = retime(child, "k", 60)
    assert isinstance(again, KeyRetimed)


def test_restored_key_has_its_old_version() -> None:
    bench = Bench()
    put(bench, "k")
    old = get_entry(bench, "k")
    kept = take(bench)
    put(bench, "k", 2)
    restore(bench, kept)
    assert get_entry(bench, "k") == old
    put(bench, "k", 3, expected=Expected(version=old.version))
