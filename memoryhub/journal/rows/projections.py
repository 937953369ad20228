"""Projections: the rows that repeat the fold, so that it can be listed and filtered.

Written in the transaction of the events they come from; `verify` makes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from memoryhub.journal.rows import (
    current_rows,
    derivation_rows,
    due_rows,
    erased_rows,
    page_rows,
    statements,
    totals,
)
from memoryhub.journal.rows.current_rows import Change, StandingRows
from memoryhub.journal.rows.due_rows import DueRows
from memoryhub.journal.rows.erased_rows import ErasedRecords
from memoryhub.journal.rows.nouns import PROJECTIONS
from memoryhub.journal.rows.page_rows import PageRows
from memoryhub.journal.rows.rows import DerivationRow, SlotRow, TurnRow
from memoryhub.journal.rows.totals import Changes
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import events, page_events
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.paging import Exchanges, lately, resident_rate
from memoryhub.kernel.state.state import Scope, ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event as StoredEvent
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import ThreadLabel
from memoryhub.models.working_memory import DueValue

_SCOPE = tuple(level.name for level in fields(Scope))


class RequestTokens(NamedTuple):
    """Tokens of requests, and those that each had in common with the one before."""

    tokens: int = 0
    prefix_tokens: int = 0

    def plus(self, tokens: int, prefix_tokens: int) -> RequestTokens:
        return RequestTokens(self.tokens + tokens, self.prefix_tokens + prefix_tokens)


@dataclass(slots=True, kw_only=True)
class Rows:
    """Rows to insert, by table."""

    slots: list[SlotRow] = field(default_factory=list)
    turns: list[TurnRow] = field(default_factory=list)
    #: (thread, turn) → seq of the turn.packed that is its newest.
    packed: dict[tuple[UUID, int], int] = field(default_factory=dict)
    #: What the requests came to that were packed, by thread.
    requests: dict[UUID, RequestTokens] = field(default_factory=dict)
    pages: PageRows = field(default_factory=PageRows)
    current_rows: StandingRows = field(default_factory=dict)
    due: DueRows = field(default_factory=DueRows)
    derivations: list[DerivationRow] = field(default_factory=list)
    #: Records that events took out of the journal.
    erased: list[ErasedRecords] = field(default_factory=list)
    #: What these rows add to what there is, once they are written.
    totals: Changes = field(default_factory=Changes)


def project(
    rows: Rows, before: ThreadState, recorded: Recorded, after: ThreadState
) -> None:
    """Add the rows that an event leads to, given the states before and after it."""
    if make := _ROWS.get(type(recorded.event)):
        make(rows, before, recorded)
    page_rows.project(rows.pages, before, recorded)
    change = Change(before, recorded.event, after)
    current_rows.project(rows.current_rows, PROJECTIONS, change)
    due_rows.project(rows.due, change)
    rows.derivations += derivation_rows.made(before.id, recorded)
    if erased := erased_rows.made(before, recorded):
        rows.erased.append(erased)
    # A newborn fork has the keys of its parent before it has rows of its own.
    had = _key_count(before) if before.seq else 0
    rows.totals.rows(before.id, totals.KEYS, _key_count(after) - had)


def _key_count(state: ThreadState) -> int:
    """How many rows its keys have; none once it has ended."""
    return 0 if current_rows.ended(state) else len(state.memory.contents.keys)


def _slot(rows: Rows, before: ThreadState, recorded: Recorded) -> None:
    event = recorded.event
    assert isinstance(event, events.SlotAppended)
    rows.slots.append(
        SlotRow(
            thread_id=before.id,
            index=event.index,
            seq=recorded.seq,
            turn=before.turn_count,
            from_name=event.from_name,
            to_name=event.to_name,
            type=event.type,
            role=event.role,
            tokens=event.tokens,
            bytes=event.bytes,
            at=recorded.at,
            subject_id=before.subject if event.role == "user" else None,
            erased=False,
        )
    )
    if event.role == "user":
        rows.totals.rows(before.id, totals.EPISODES, 1)


def _turn(rows: Rows, before: ThreadState, recorded: Recorded) -> None:
    event = recorded.event
    assert isinstance(event, page_events.TurnBegan)
    rows.turns.append(
        TurnRow(
            thread_id=before.id,
            n=event.n,
            seq=recorded.seq,
            packed_seq=None,
            counters=_json(paging_counters(before)),
        )
    )


def _packed(rows: Rows, before: ThreadState, recorded: Recorded) -> None:
    event = recorded.event
    assert isinstance(event, page_events.TurnPacked)
    rows.packed[before.id, event.turn] = recorded.seq
    earlier = rows.requests.get(before.id, RequestTokens())
    rows.requests[before.id] = earlier.plus(event.tokens, event.prefix_tokens or 0)


_ROWS: dict[type[Event], Callable[[Rows, ThreadState, Recorded], None]] = {
    events.SlotAppended: _slot,
    page_events.TurnBegan: _turn,
    page_events.TurnPacked: _packed,
}


def write(rows: Rows) -> None:
    """Insert them; one call a table. The texts of deleted pages go for good.

    What that adds is in `rows.totals`, for who keeps those.
    """
    statements.SLOTS.rows(rows.slots)
    statements.TURNS.rows(rows.turns)
    for (thread, n), seq in rows.packed.items():
        Turn.objects.filter(thread_id=thread, n=n).update(packed_seq=seq)
    page_rows.write(rows.pages, rows.totals)
    for (thread, page_id), seq in rows.pages.deleted.items():
        _purge(rows.totals, thread, page_id, by=seq)
    for each in PROJECTIONS:
        each.write(rows.current_rows.get(each.word, {}))
    due_rows.write(rows.due, rows.totals)
    statements.DERIVATIONS.rows(rows.derivations)
    # Last: it changes rows that the same events may have made.
    erased_rows.write(rows.erased, rows.totals)


def _purge(changes: Changes, thread: UUID, page_id: str, *, by: int) -> None:
    """Take the texts of a page's versions and levels. A repeat takes nothing more.

    What the thread inherits of them is its ancestor's, and stays.
    """
    texts = StoredEvent.objects.filter(
        thread_id=thread, page=page_id, type__in=page_rows.PURGED, seq__lt=by
    )
    changes.take_payloads(texts.filter(erased_by__isnull=True), thread, by=by)


def columns(state: ThreadState) -> dict[str, Any]:
    """Return the thread row's columns that repeat the fold, head and times included."""
    return {
        "subject_id": state.subject,
        "status": state.status,
        "home": state.home,
        **{level: getattr(state.scope, level) for level in _SCOPE},
        "labels": _json(dict(state.labels)),
        "config": _json(state.config.model_dump(exclude_none=True)),
        "lineage": _json(
            [
                [str(part.thread), part.first, part.end, part.up_to_seq]
                for part in state.lineage
            ]
        ),
        "parent_id": state.lineage[-1].thread if state.lineage else None,
        "fork_seq": state.lineage[-1].up_to_seq if state.lineage else None,
        "nearly_full": state.nearly_full,
        "created_at": state.created_at,
        "capacity_tokens": state.paging.settings.usable,
        **dict(zip(MOVING, moving_values(state), strict=True)),
    }


#: What of `columns` an append moves; the rest is written only when it changed, since
#: naming an indexed column in an UPDATE churns its index.
MOVING = (
    "head_seq",
    "slot_count",
    "turn_count",
    "token_count",
    "byte_count",
    "resident_tokens",
    "tlb_hits",
    "tlb_misses",
    "fault_count",
    "eviction_count",
    "refault_count",
    "exchange_count",
    "faulted_exchange_count",
    "faulted_lately_count",
    "last_event_at",
    "last_active_at",
)


def levels_due(state: ThreadState) -> bool:
    """Return whether levels are to be looked for; a worker takes the mark off again.

    Every event sets it anew: what it brought may need levels too.
    """
    return state.status == "open" and state.paging.crowded


def observer_due(state: ThreadState) -> bool:
    """Return whether an observer is to look at the thread; it takes the mark off."""
    return formulas.may_be_due(state)


def changed_columns(before: ThreadState, after: ThreadState) -> dict[str, Any]:
    """Return the columns to update when a thread moves from one state to another."""
    new, old = columns(after), columns(before)
    return {name: new[name] for name in new if name in MOVING or new[name] != old[name]}


def settled(before: ThreadState, after: ThreadState) -> bool:
    """Return whether only the columns in `MOVING` differ."""
    return _rare(before) == _rare(after)


def _rare(state: ThreadState) -> tuple[object, ...]:
    usable = state.paging.settings.usable
    set_up = (state.status, state.scope, state.labels, state.config)
    return (*set_up, state.nearly_full, usable)


def moving_values(state: ThreadState) -> tuple[object, ...]:
    """Return the values of the columns in `MOVING`, in that order."""
    paging = state.paging
    return (
        state.seq,
        state.slot_count,
        state.turn_count,
        state.token_count,
        state.byte_count,
        paging.used,
        paging.tlb.hits,
        paging.tlb.misses,
        paging.counts.get("faults", 0),
        paging.counts.get("evicted", 0),
        paging.refault_count(state.turn_count),
        paging.exchanges.begun,
        paging.exchanges.faulted,
        paging.exchanges.faulted_lately,
        state.at,
        state.active_at,
    )


def paging_counters(state: ThreadState) -> dict[str, int]:
    """Return the counts of paging, by closed words.

    Cumulative but for the last exchanges.
    """
    paging = state.paging
    counts = {**dict(paging.counts.items()), **_exchange_counters(paging.exchanges)}
    counts |= {"hits": paging.tlb.hits, "misses": paging.tlb.misses}
    return dict(sorted(counts.items()))


def _exchange_counters(exchanges: Exchanges) -> dict[str, int]:
    if not exchanges.begun:
        return {}
    return {
        "exchanges": exchanges.begun,
        "exchanges.faulted": exchanges.faulted,
        "exchanges.faulted_lately": exchanges.faulted_lately,
    }


def rate_of(counters: Mapping[str, int]) -> float | None:
    """Return the resident rate of these counters; None before the first exchange."""
    faulted = counters.get("exchanges.faulted_lately", 0)
    return resident_rate(lately(counters.get("exchanges", 0)), faulted)


def label_rows(state: ThreadState) -> list[ThreadLabel]:
    return [
        ThreadLabel(
            thread_id=state.id, name=name, project_id=state.project, value=text(value)
        )
        for name, value in state.labels
    ]


def text(value: events.LabelValue) -> str:
    """Return a label's value as filters compare it: `abc`, `1`, `0.5`, `true`."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def clear(thread: UUID) -> None:
    """Delete what the journal of a thread led to, before it is made again.

    Labels are replaced as they are written; totals count what will be there again.
    """
    for model in (Slot, Turn, Page, PageLevel, EvictedPage, DueValue):
        model._default_manager.filter(thread=thread).delete()
    for each in PROJECTIONS:
        each.queryset(thread).delete()
    Derivation.objects.filter(derived_thread=thread).delete()


def write_labels(states: Iterable[ThreadState]) -> None:
    """Replace the label rows of these threads."""
    wanted = list(states)
    if not wanted:
        return
    ThreadLabel.objects.filter(thread__in=[state.id for state in wanted]).delete()
    ThreadLabel.objects.bulk_create(
        [row for state in wanted for row in label_rows(state)]
    )


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
