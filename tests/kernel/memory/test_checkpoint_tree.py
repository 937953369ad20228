"""Tree of checkpoints: differences along a path, at the cost of what changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest
from rpds import HashTrieMap

from memoryhub.errors import CheckpointUnknownError
from memoryhub.kernel.memory import checkpoint_tree, checkpoints
from memoryhub.kernel.memory.checkpoints import DeleteCheckpoint, TakeCheckpoint
from memoryhub.kernel.memory.keys import ChangeKeys, ClearKeys, ExpireKeys
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.state import working_memory
from memoryhub.kernel.state.working_memory import Contents, KeyEntry
from tests.kernel.remembered import (
    delete,
    list_clocks,
    put,
    restore,
    setting,
    take,
    wait,
)
from tests.kernel.state.test_working_memory import assert_sound
from tests.oracles.paging import Bench


def list_between(bench: Bench, one: int | None, other: int | None) -> list[str]:
    return checkpoint_tree.list_names_between(bench.state.memory, one, other)


def fill(bench: Bench, count: int) -> None:
    """Give the bench so many keys, as if by a fork; quicker than setting them."""
    entry = KeyEntry(0, 0, None, 64)
    keys = HashTrieMap({f"k{number:05}": entry for number in range(count)})
    contents = Contents(keys=keys, key_bytes=count)
    memory = bench.state.memory._replace(contents=contents)
    bench.state = bench.state._replace(memory=memory)


def forget(bench: Bench, target: int) -> None:
    bench.do(DeleteCheckpoint(target=target))


LIFE: list[tuple[int, Callable[[Bench, random.Random], Any]]] = [
    (30, lambda it, dice: put(it, _pick_key(dice), dice.randrange(3), **_until(dice))),
    (10, lambda it, dice: delete(it, _pick_key(dice))),
    (3, lambda it, dice: it.do(ClearKeys())),
    (6, lambda it, dice: _sweep(it)),
    (12, lambda it, dice: take(it)),
    (10, lambda it, dice: restore(it, dice.choice([0, *list_clocks(it)]))),
    (4, lambda it, dice: restore(it, dice.choice([0, *list_clocks(it)]), ("task",))),
    (10, lambda it, dice: forget(it, dice.choice([0, *list_clocks(it)]))),
    (5, lambda it, dice: wait(it, 20)),
    (1, lambda it, dice: it.restart()),
]


def _pick_key(dice: random.Random) -> str:
    return f"k{dice.randrange(8)}"


def _until(dice: random.Random) -> dict[str, Any]:
    return {"seconds": dice.choice([3, 30, 300])} if dice.random() < 0.4 else {}


def _sweep(bench: Bench) -> None:
    keys = bench.state.memory.contents.keys
    bench.do(ExpireKeys(keys=tuple((n, e.version) for n, e in keys.items())))


def live_steps(seed: int, *, steps: int) -> None:
    dice, bench = random.Random(seed), Bench()
    for _ in range(steps):
        _, act = dice.choices(LIFE, [weight for weight, _ in LIFE])[0]
        # One of the existing checkpoints, or none.
        with suppress(CheckpointUnknownError):
            act(bench, dice)
        assert_sound(bench.state.memory)
    bench.restart()
    assert bench.refolded() == bench.state


@pytest.mark.parametrize("seed", range(4))
def test_path_diff_equals_full_diff(seed: int) -> None:
    """Both are equal whatever was set, swept, taken, restored and deleted."""
    live_steps(seed, steps=100)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_path_diff_equals_full_diff_at_length(seed: int) -> None:
    live_steps(seed, steps=300)


def test_path_goes_through_the_lowest_common_ancestor() -> None:
    bench = Bench()
    fill(bench, 50)
    root = take(bench)
    put(bench, "left")
    left = take(bench)
    restore(bench, root)
    put(bench, "right")
    right = take(bench)
    put(bench, "now")
    assert list_between(bench, left, right) == ["left", "right"]
    assert list_between(bench, None, left) == ["left", "now", "right"]
    assert list_between(bench, root, root) == []


def test_checkpoint_without_a_predecessor_has_unknown_touched_keys() -> None:
    bench = Bench()
    put(bench, "a")
    first = take(bench)
    assert bench.state.memory.checkpoints[first].touched is None
    forget(bench, first)
    put(bench, "b")
    second = take(bench)
    assert bench.state.memory.checkpoints[second].touched is None


def test_deleted_checkpoint_hands_touched_keys_to_its_only_child() -> None:
    bench = Bench()
    root = take(bench)
    put(bench, "a")
    middle = take(bench)
    put(bench, "b")
    leaf = take(bench)
    forget(bench, middle)
    memory = bench.state.memory
    assert memory.joints == 0
    assert memory.checkpoints[leaf].parent == root
    assert list_between(bench, root, leaf) == ["a", "b"]
    forget(bench, leaf)
    assert (bench.state.memory.base, list_between(bench, None, root)) == (
        root,
        ["a", "b"],
    )


def test_deleted_checkpoint_stays_a_joint_while_branches_part_at_it() -> None:
    bench = Bench()
    root = take(bench)
    put(bench, "a")
    middle = take(bench)
    put(bench, "left")
    left = take(bench)
    restore(bench, middle)
    put(bench, "right")
    forget(bench, middle)
    memory = bench.state.memory
    assert memory.joints == 1
    assert memory.find_live(middle) is None
    assert memory.checkpoints[middle].contents.keys.get("a") is None
    assert list_between(bench, None, left) == ["left", "right"]
    assert list_between(bench, root, left) == ["a", "left"]
    # Once one branch is left it goes, and the path still tells all.
    forget(bench, left)
    assert bench.state.memory.joints == 0
    assert list_between(bench, None, root) == ["a", "right"]


def test_touched_keys_become_unknown_beyond_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working_memory, "MAX_TOUCHED", 3)
    bench = Bench()
    first = take(bench)
    for key in "abc":
        put(bench, key)
    touched = bench.state.memory.touched
    assert touched is not None
    assert len(touched) == 3
    put(bench, "d")
    assert bench.state.memory.touched is None
    assert list_between(bench, None, first) == ["a", "b", "c", "d"]


def watch_paths(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Collection[str]]:
    """Return the list of names that paths give from now on."""
    seen: list[Collection[str]] = []
    asked_for = checkpoint_tree.list_names_between

    def note_names(*points: Any) -> list[str]:
        names = asked_for(*points)
        seen.append(names)
        return names

    monkeypatch.setattr(checkpoint_tree, "list_names_between", note_names)
    return seen


@pytest.mark.parametrize("size", [100, 10_000])
def test_checkpoint_cost_follows_change(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten changed keys: taking visits no key, comparing and restoring visit ten."""
    bench = Bench()
    fill(bench, size)
    kept = take(bench)
    seen = watch_paths(bench, monkeypatch)
    changes = tuple(setting(f"k{number:05}", 2) for number in range(10))
    bench.do(ChangeKeys(changes=changes))
    (told,) = bench.do(TakeCheckpoint())
    assert (told.keys, told.touched, seen) == (size, 10, [])
    target = checkpoints.require_checkpoint(bench.state.memory, kept)
    checkpoints.compute_changes(bench.state, target, RESTORED, at=bench.at)
    assert [len(names) for names in seen] == [10]
    # Once to decide, and once each time the event is folded.
    (told,) = restore(bench, kept)
    assert {len(names) for names in seen} == {10}
    assert (told.set, len(seen)) == (10, 3)
