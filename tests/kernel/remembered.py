"""Short commands to a thread for tests of working memory."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from memoryhub.kernel.memory.checkpoints import RestoreCheckpoint, TakeCheckpoint
from memoryhub.kernel.memory.keys import ChangeKeys, DeleteKey, Expiry, SetKey
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.nouns import RESTORED
from tests.oracles.paging import Bench


def setting(
    key: str, value: Any = 1, *, seconds: float | None = None, **given: Any
) -> SetKey:
    """Build a set of a key, with a lifetime in seconds if one is given."""
    text = json.dumps(value).encode()
    chosen = {} if seconds is None else {"expiry": lasting(seconds)}
    return SetKey(
        key=key,
        value=text,
        bytes=len(text),
        **{**chosen, **given},
    )


def lasting(seconds: float | None) -> Expiry:
    """Build an expiry after this lifetime; None means never."""
    ttl = None if seconds is None else timedelta(seconds=seconds)
    return Expiry(given=True, ttl=ttl)


def put(bench: Bench, key: str, value: Any = 1, **given: Any) -> list[Any]:
    return bench.do(ChangeKeys(changes=(setting(key, value, **given),)))


def delete(bench: Bench, key: str, expected: Expected | None = None) -> list[Any]:
    change = DeleteKey(key=key, expected=expected or Expected())
    return bench.do(ChangeKeys(changes=(change,)))


def note(bench: Bench, *sizes: int) -> list[Any]:
    notes = tuple(
        NewNote(text=json.dumps("n" * size).encode(), bytes=size) for size in sizes
    )
    return bench.do(AddNotes(notes=notes))


def take(bench: Bench, name: str | None = None) -> int:
    """Take a checkpoint and return its clock."""
    bench.do(TakeCheckpoint(name=name))
    return bench.state.clock


def restore(
    bench: Bench, target: int | str, parts: tuple[str, ...] = RESTORED
) -> list[Any]:
    return bench.do(RestoreCheckpoint(target=target, parts=parts))


def wait(bench: Bench, seconds: float) -> None:
    bench.at += timedelta(seconds=seconds)


def list_names(bench: Bench) -> list[str]:
    """Return the keys that are visible at the instant of the next command."""
    return list(bench.state.memory.contents.list_visible(bench.at))


def list_clocks(bench: Bench) -> list[int]:
    return [each.clock for each in bench.state.memory.list_live()]
