"""Keys of a thread's working memory: one, or a list, now or as of an event.

Never writes. Whatever is read is compared with the instant first: an expired key is
not there, swept or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from memoryhub.errors import ContentErasedError, KeyNotFoundError
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.kernel.text import globs
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, Batch, Listing, fitting
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.memory import key_search
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.state_files import StateFile, record_of
from memoryhub.queries.replay.states import now_of, state_of

Sort = Literal["name", "expiry", "bytes"]
#: Keys of a chunk of an export.
CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """A key as it is shown."""

    name: str
    #: The number of the event that last set or retimed it; ≤ 0 if inherited.
    version: int
    set_at: datetime
    set_by: str
    expires_at: datetime | None
    bytes: int
    #: Whether `value` was asked for and is there.
    opened: bool
    value: Any
    erased: bool
    #: The value is an ancestor's.
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
    """One key. `thread` comes with its subject. At most three queries.

    Raises KeyNotFoundError; with `content` ContentErasedError for a value that is gone,
    as only a look into the past can find one.
    """
    state = state_of(thread, seq)
    entry = state.memory.contents.find(name, now=now_of(state, seq))
    if entry is None:
        raise KeyNotFoundError
    (line,) = lines(thread, state, {name: entry}, content=content)
    if content and line.erased:
        raise ContentErasedError
    return line


def count_keys(thread: Thread) -> int:
    """Count the keys that are there now. `thread` comes with its subject."""
    state = state_of(thread)
    return len(state.memory.contents.visible(now_of(state)))


def list_keys(
    thread: Thread,
    *,
    glob: str = "*",
    terms: Sequence[SearchTerm] = (),
    sort: Sort = "name",
    values: bool = False,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[KeyLine]:
    """Keys whose name matches and that are what was asked for, in batches.

    All show one instant: the first fixes the seq and the instant, in its cursor. At
    most three queries. Raises BadCursorError, InvalidError for a glob that is too
    complex.
    """
    plain = [term.plain() for term in terms]
    filters = [thread.id, glob, plain, sort, values, seq]
    listing = Listing(name="keys", project=thread.project_id, filters=filters)
    state, moment, position = _instant(thread, listing, seq=seq, after=after)
    place = _ORDERS[sort]
    order = sorted(_matching(state, glob, terms, now=moment), key=place)
    left = [each for each in order if [*place(each)] > position]
    part = left[: _fitting(left[:limit]) if values else limit]
    more = None
    if len(left) > len(part):
        more = listing.seal([state.seq, moment.isoformat(), [*place(part[-1])]])
    return Batch(items=lines(thread, state, dict(part), content=values), next=more)


def _fitting(found: list[tuple[str, KeyEntry]]) -> int:
    return fitting((entry.bytes for _, entry in found), max_bytes=PART_BYTES)


def _instant(
    thread: Thread, listing: Listing, *, seq: int | None, after: str | None
) -> tuple[ThreadState, datetime, list[Any]]:
    """The state and the instant that all parts show, and where this one begins."""
    if after is None:
        state = state_of(thread, seq)
        return state, now_of(state, seq), []
    at_seq, moment, position = listing.open(after)
    return state_of(thread, at_seq), datetime.fromisoformat(moment), position


def _matching(
    state: ThreadState, glob: str, terms: Sequence[SearchTerm], *, now: datetime
) -> list[tuple[str, KeyEntry]]:
    matches, satisfies = globs.compiled(glob), key_search.matching(terms, now=now)
    return [
        (name, entry)
        for name, entry in listed(state.memory.contents.keys)
        if entry.visible(now) and matches(name) and satisfies(name, entry)
    ]


def _by_name(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    return (each[0],)


def _by_expiry(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    """Soonest first; those that never expire at the end."""
    name, entry = each
    until = entry.expires_at.isoformat() if entry.expires_at else "~"
    return (until, name)


def _by_bytes(each: tuple[str, KeyEntry]) -> tuple[Any, ...]:
    name, entry = each
    return (-entry.bytes, name)


_ORDERS: Mapping[str, Callable[[tuple[str, KeyEntry]], tuple[Any, ...]]] = {
    "name": _by_name,
    "expiry": _by_expiry,
    "bytes": _by_bytes,
}


def lines(
    thread: Thread, state: ThreadState, keys: Mapping[str, KeyEntry], *, content: bool
) -> tuple[KeyLine, ...]:
    """These keys in their order: who set them and, if asked, their values.

    One query, or two with values.
    """
    entries = keys.values()
    written = payloads.opened(
        thread, state, [each.version for each in entries], content=False
    )
    values = {}
    if content:
        values = payloads.opened(thread, state, [each.value for each in entries])
    return tuple(
        _line(state, name, entry, written[entry.version], values.get(entry.value))
        for name, entry in keys.items()
    )


def _line(
    state: ThreadState,
    name: str,
    entry: KeyEntry,
    written: payloads.Opened,
    value: payloads.Opened | None,
) -> KeyLine:
    content = value.content if value else None
    return KeyLine(
        name=name,
        version=state.seq_of(entry.version),
        set_at=written.at,
        set_by=written.actor,
        expires_at=entry.expires_at,
        bytes=entry.bytes,
        opened=content is not None,
        value=content["value"] if content is not None else None,
        erased=value is not None and value.erased,
        inherited=entry.value <= state.inherited_clock,
    )


def _records(thread: Thread, state: ThreadState, now: datetime) -> Iterator[KeyRecord]:
    left = iter(state.memory.contents.visible(now).items())
    while batch := list(islice(left, CHUNK)):
        while batch:
            size = fitting((each.bytes for _, each in batch), max_bytes=PART_BYTES)
            shown, batch = dict(batch[:size]), batch[size:]
            for line in lines(thread, state, shown, content=True):
                yield record_of(KeyRecord, line, thread=thread.id, key=line.name)


STATES = StateFile(
    path="state/keys.jsonl",
    record=KeyRecord,
    lines=_records,
    needs=frozenset({"key.set"}),
)
