"""The canonical form of working memory: plain JSON values, all sorted.

Each checkpoint is stored as its difference from another checkpoint, so the size of a
snapshot depends on the changes between checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from rpds import HashTrieMap, HashTrieSet

from memoryhub.kernel import paging_json
from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.state.working_memory import (
    Contents,
    KeyEntry,
    Resident,
    SavedCheckpoint,
    Touched,
    WorkingMemory,
)

Value = TypeVar("Value")

#: JSON of empty slices, for nouns that are newer than a snapshot.
_EMPTY: dict[str, Any] = {
    name: value
    for part in SLICES.values()
    for name, value in part.to_json(part.empty, part.empty).items()
}


def to_json(memory: WorkingMemory, *, thread: UUID) -> dict[str, Any]:
    """Convert working memory to JSON; {} when nothing was ever written."""
    if memory == WorkingMemory():
        return {}
    rows, last = [], None
    for clock, checkpoint in sorted(memory.checkpoints.items()):
        rows.append(_checkpoint_to_json(memory, checkpoint, last, thread))
        last = last if checkpoint.joint else clock
    ref = _find_live_above(memory, memory.base)
    return {
        "checkpoints": rows,
        "base": memory.base,
        "touched": _touched_to_json(memory.touched),
        "ref": ref,
        "contents": _contents_to_json(memory, None, ref),
    }


def _checkpoint_to_json(
    memory: WorkingMemory, checkpoint: SavedCheckpoint, last: int | None, thread: UUID
) -> dict[str, Any]:
    plain = {
        "clock": checkpoint.clock,
        "name": checkpoint.name,
        "auto": checkpoint.auto,
        "parent": checkpoint.parent,
        "touched": _touched_to_json(checkpoint.touched),
        "joint": checkpoint.joint,
    }
    if checkpoint.joint:
        return plain
    # If all checkpoints above were deleted, use the checkpoint written just before.
    ref = _find_live_above(memory, checkpoint.parent)
    ref = last if ref is None else ref
    return {
        **plain,
        "ref": ref,
        "contents": _contents_to_json(memory, checkpoint.clock, ref),
        "resident": _resident_to_json(memory, checkpoint, ref, thread),
    }


def _find_live_above(memory: WorkingMemory, clock: int | None) -> int | None:
    """Find the nearest checkpoint, from `clock` upwards, that was not deleted."""
    while clock is not None and memory.checkpoints[clock].joint:
        clock = memory.checkpoints[clock].parent
    return clock


def _touched_to_json(touched: Touched) -> list[str] | None:
    return None if touched is None else sorted(touched)


def _contents_to_json(
    memory: WorkingMemory, point: int | None, ref: int | None
) -> dict[str, Any]:
    """Convert the contents of a point to their difference from those of `ref`."""
    after = checkpoint_tree.get_contents(memory, point)
    if ref is None:
        before, names = Contents(), sorted(after.keys)
    else:
        before = checkpoint_tree.get_contents(memory, ref)
        names = checkpoint_tree.list_names_between(memory, point, ref)
    return {
        "keys": [
            [name, *_key_to_json(after.keys.get(name))]
            for name in names
            if after.keys.get(name) != before.keys.get(name)
        ],
        "key_bytes": after.key_bytes,
    } | {
        name: value
        for part in SLICES.values()
        for name, value in part.to_json(part.get(after), part.get(before)).items()
    }


def _key_to_json(entry: KeyEntry | None) -> list[Any]:
    if entry is None:
        return []
    until = entry.expires_at.isoformat() if entry.expires_at else None
    return [entry.value, entry.version, until, entry.bytes]


def _resident_to_json(
    memory: WorkingMemory, checkpoint: SavedCheckpoint, ref: int | None, thread: UUID
) -> dict[str, Any]:
    after = checkpoint.resident
    before = Resident() if ref is None else memory.checkpoints[ref].resident
    return {
        name: _build_differences(old, new, thread)
        for name, old, new in zip(Resident._fields[:2], before, after, strict=False)
    } | {"pins": sorted(after.pins)}


def _build_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], thread: UUID
) -> list[Any]:
    """Build [rows of pages that came or changed, ids of pages that left]."""
    changed = [
        paging_json.build_page_row(page, thread)
        for name, page in sorted(after.items())
        if before.get(name) != page
    ]
    return [changed, sorted(name for name in before if name not in after)]


def from_json(plain: dict[str, Any], *, thread: UUID) -> WorkingMemory:
    """Build working memory from the result of `to_json`."""
    if not plain:
        return WorkingMemory()
    kept: dict[int, SavedCheckpoint] = {}
    for row in plain["checkpoints"]:
        kept[row["clock"]] = _read_checkpoint(row, kept, thread)
    live = [each for each in kept.values() if not each.joint]
    ref = plain["ref"]
    return WorkingMemory(
        contents=_read_contents(
            plain["contents"], Contents() if ref is None else kept[ref].contents
        ),
        base=plain["base"],
        touched=_read_touched(plain["touched"]),
        checkpoints=HashTrieMap(kept),
        names=HashTrieMap({e.name: e.clock for e in live if e.name is not None}),
        automatic=tuple(each.clock for each in live if each.auto),
        joints=len(kept) - len(live),
        weight=sum(map(checkpoint_tree.compute_weight, kept.values())),
    )


def _read_checkpoint(
    row: dict[str, Any], kept: dict[int, SavedCheckpoint], thread: UUID
) -> SavedCheckpoint:
    contents, held = Contents(), Resident()
    if not row["joint"]:
        ref = kept.get(row["ref"])
        contents = _read_contents(row["contents"], ref.contents if ref else contents)
        held = _read_resident(row["resident"], ref.resident if ref else held, thread)
    return SavedCheckpoint(
        clock=row["clock"],
        name=row["name"],
        auto=row["auto"],
        parent=row["parent"],
        touched=_read_touched(row["touched"]),
        contents=contents,
        resident=held,
        joint=row["joint"],
    )


def _read_touched(names: list[str] | None) -> Touched:
    return None if names is None else HashTrieSet(names)


def _read_contents(plain: dict[str, Any], before: Contents) -> Contents:
    keys = before.keys
    for name, *entry in plain["keys"]:
        keys = keys.insert(name, _read_key(entry)) if entry else keys.remove(name)
    contents = Contents(keys=keys, key_bytes=plain["key_bytes"])
    plain = _EMPTY | plain
    for part in SLICES.values():
        contents = part.put(contents, part.from_json(plain, part.get(before)))
    return contents


def _read_key(row: list[Any]) -> KeyEntry:
    value, version, until, size = row
    expires_at = datetime.fromisoformat(until) if until else None
    return KeyEntry(value, version, expires_at, size)


def _read_resident(plain: dict[str, Any], before: Resident, thread: UUID) -> Resident:
    frames = _patch_pages(
        before.frames, plain["frames"], thread, paging_json.build_frame
    )
    hot = _patch_pages(before.hot, plain["hot"], thread, paging_json.build_hot_page)
    pins = HashTrieMap(dict.fromkeys(plain["pins"], True))
    return Resident(frames, hot, pins)


def _patch_pages(
    before: HashTrieMap[str, Value],
    plain: list[Any],
    thread: UUID,
    read: Callable[[list[Any], UUID], Value],
) -> HashTrieMap[str, Value]:
    changed, gone = plain
    for row in changed:
        before = before.insert(row[0][0], read(row, thread))
    for name in gone:
        before = before.remove(name)
    return before
