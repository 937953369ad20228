"""Keys of a thread's working memory: one, or a list, now or as of an event.

Never writes. Reads compare each key's expiry with the instant first: an expired key is
absent, swept or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from memoryhub.errors import ContentErasedError, KeyNotFoundError
from memoryhub.journal import texts
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.kernel.text import globs
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import (
    PART_BYTES,
    ListBatch,
    ListScope,
    count_fitting,
)
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.memory import key_search
from memoryhub.queries.memory.value_filters import MemberCondition, is_every_met
from memoryhub.queries.replay.state_files import StateFile, build_record
from memoryhub.queries.replay.states import compute_instant, load_state

Sort = Literal["name", "expiry", "bytes"]
#: Number of keys in a chunk of an export.
CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """A key with its expiry, size and author, and its value if requested."""

    name: str
    #: The number of the event that last set or retimed the key; ≤ 0 if inherited.
    version: int
    set_at: datetime
    set_by: str
    expires_at: datetime | None
    bytes: int
    #: Whether `value` was requested and exists.
    opened: bool
    value: Any
    erased: bool
    #: Whether the value is an ancestor thread's.
    inherited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key of working memory, visible when the bundle was made."""

    thread: UUID
    key: str
    value: Any
    erased: bool
    set_at: datetime
    set_by: str
    expires_at: datetime | None


def get_key(
    thread: Thread, name: str, *, seq: int | None = None, content: bool = True
) -> KeyLine:
    """Return one key. `thread` comes with its subject. At most three queries.

    Raises KeyNotFoundError; with `content` also ContentErasedError for an erased value,
    which only a read as of a past event can meet.
    """
    state = load_state(thread, seq)
    entry = state.memory.contents.find_key(name, now=compute_instant(state, seq))
    if entry is None:
        raise KeyNotFoundError
    (line,) = build_lines(thread, state, {name: entry}, content=content)
    if content and line.erased:
        raise ContentErasedError
    return line


def count_keys(thread: Thread, *, seq: int | None = None) -> int:
    """Count the keys, now or as of an event. `thread` comes with its subject."""
    state = load_state(thread, seq)
    return len(state.memory.contents.list_visible(compute_instant(state, seq)))


def list_keys(
    thread: Thread,
    *,
    glob: str = "*",
    terms: Sequence[SearchTerm] = (),
    where: Sequence[MemberCondition] = (),
    sort: Sort = "name",
    values: bool = False,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[KeyLine]:
    """List keys that match the glob and the terms, in batches.

    All batches show one instant: the cursor of the first batch fixes the seq and the
    instant. A batch reads at most `limit` keys. Those whose values do not meet `where`,
    which needs `values`, are left out. At most three queries. Raises BadCursorError,
    and InvalidError for a glob that is too complex.
    """
    plain = [*(term.to_json() for term in terms), *(each.to_json() for each in where)]
    filters = [thread.id, glob, plain, sort, values, seq]
    listing = ListScope(name="keys", project=thread.project_id, filters=filters)
    state, moment, position = open_position(thread, listing, seq=seq, after=after)
    place = _ORDERS[sort]
    order = sorted(_list_matching(state, glob, terms, now=moment), key=place)
    left = [each for each in order if [*place(each)] > position]
    part = left[: _count_fitting(left[:limit]) if values else limit]
    more = None
    if len(left) > len(part):
        more = listing.seal([state.seq, moment.isoformat(), [*place(part[-1])]])
    lines = build_lines(thread, state, dict(part), content=values)
    met = (each for each in lines if not where or is_every_met(where, each.value))
    return ListBatch(items=tuple(met), next=more)


def _count_fitting(found: list[tuple[str, KeyEntry]]) -> int:
    return count_fitting((entry.bytes for _, entry in found), max_bytes=PART_BYTES)


def open_position(
    thread: Thread, listing: ListScope, *, seq: int | None, after: str | None
) -> tuple[ThreadState, datetime, list[Any]]:
    """Return the state and instant that all batches show, and this batch's start."""
    if after is None:
        state = load_state(thread, seq)
        return state, compute_instant(state, seq), []
    at_seq, moment, position = listing.open(after)
    return load_state(thread, at_seq), datetime.fromisoformat(moment), position


def _list_matching(
    state: ThreadState, glob: str, terms: Sequence[SearchTerm], *, now: datetime
) -> list[tuple[str, KeyEntry]]:
    matches, satisfies = (
        globs.compile_glob(glob),
        key_search.build_predicate(terms, now=now),
    )
    return [
        (name, entry)
        for name, entry in list_items(state.memory.contents.keys)
        if entry.is_visible(now) and matches(name) and satisfies(name, entry)
    ]


def _sort_by_name(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    return (each[0],)


def _sort_by_expiry(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    """Sort by expiry, soonest first; keys that never expire come last."""
    name, entry = each
    until = entry.expires_at.isoformat() if entry.expires_at else "~"
    return (until, name)


def _sort_by_bytes(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    name, entry = each
    return (-entry.bytes, name)


_ORDERS: Mapping[str, Callable[[tuple[str, KeyEntry]], tuple[Any, ...]]] = {
    "name": _sort_by_name,
    "expiry": _sort_by_expiry,
    "bytes": _sort_by_bytes,
}


def build_lines(
    thread: Thread, state: ThreadState, keys: Mapping[str, KeyEntry], *, content: bool
) -> tuple[KeyLine, ...]:
    """Build lines of these keys, in order, with authors and, if requested, values.

    One query, or two with values.
    """
    entries = keys.values()
    written = texts.open_events(
        thread, state, [each.version for each in entries], content=False
    )
    values = {}
    if content:
        values = texts.open_events(thread, state, [each.value for each in entries])
    return tuple(
        _build_line(state, name, entry, written[entry.version], values.get(entry.value))
        for name, entry in keys.items()
    )


def _build_line(
    state: ThreadState,
    name: str,
    entry: KeyEntry,
    written: texts.OpenedEvent,
    value: texts.OpenedEvent | None,
) -> KeyLine:
    content = value.content if value else None
    return KeyLine(
        name=name,
        version=state.to_seq(entry.version),
        set_at=written.at,
        set_by=written.actor,
        expires_at=entry.expires_at,
        bytes=entry.bytes,
        opened=content is not None,
        value=content["value"] if content is not None else None,
        erased=value is not None and value.erased,
        inherited=entry.value <= state.inherited_clock,
    )


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[KeyRecord]:
    left = iter(state.memory.contents.list_visible(now).items())
    while batch := list(islice(left, CHUNK)):
        while batch:
            size = count_fitting(
                (each.bytes for _, each in batch), max_bytes=PART_BYTES
            )
            shown, batch = dict(batch[:size]), batch[size:]
            for line in build_lines(thread, state, shown, content=True):
                yield build_record(KeyRecord, line, thread=thread.id, key=line.name)


STATES = StateFile(
    path="state/keys.jsonl",
    record=KeyRecord,
    lines=_iter_records,
    needs=frozenset({"key.set"}),
)
