"""Projections: rows that repeat the folded state, for lists and filters.

Written in the transaction of their events; `verify` builds them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.models import Case, When

from memoryhub.journal.rows import (
    current_rows,
    derivation_rows,
    due_rows,
    erased_rows,
    page_rows,
    statements,
    totals,
)
from memoryhub.journal.rows.current_rows import StandingRows, StateChange
from memoryhub.journal.rows.due_rows import DueRows
from memoryhub.journal.rows.erased_rows import ErasedRecords
from memoryhub.journal.rows.nouns import PROJECTIONS
from memoryhub.journal.rows.page_rows import PageRows
from memoryhub.journal.rows.rows import DerivationRow, SlotRow, TurnTableRow
from memoryhub.journal.rows.totals import TotalsChanges
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state import events, page_events
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.paging import (
    Exchanges,
    compute_resident_rate,
    count_rated_exchanges,
)
from memoryhub.kernel.state.state import ScopeLabels, ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event as StoredEvent
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.slots import SHOWN, Slot, Turn
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.models.working_memory import DueValue

_SCOPE = tuple(level.name for level in fields(ScopeLabels))


class RequestTokens(NamedTuple):
    """Tokens of requests, of prefixes shared with the last request, and of answers."""

    tokens: int = 0
    prefix_tokens: int = 0
    answer_tokens: int = 0

    def add(self, other: RequestTokens) -> RequestTokens:
        return RequestTokens(
            *(one + more for one, more in zip(self, other, strict=True))
        )


@dataclass(slots=True, kw_only=True)
class ProjectedRows:
    """Rows to insert, by table."""

    slots: list[SlotRow] = field(default_factory=list)
    turns: list[TurnTableRow] = field(default_factory=list)
    #: (thread, turn) → seq of the turn's newest turn.packed.
    packed: dict[tuple[UUID, int], int] = field(default_factory=dict)
    #: (thread, index) → seq of the slot's slot.struck.
    struck: dict[tuple[UUID, int], int] = field(default_factory=dict)
    #: Tokens of packed requests and of the model's answers, by thread.
    requests: dict[UUID, RequestTokens] = field(default_factory=dict)
    pages: PageRows = field(default_factory=PageRows)
    current_rows: StandingRows = field(default_factory=dict)
    due: DueRows = field(default_factory=DueRows)
    derivations: list[DerivationRow] = field(default_factory=list)
    #: Records that events erased.
    erased: list[ErasedRecords] = field(default_factory=list)
    #: Difference that these rows make to the totals, once they are written.
    totals: TotalsChanges = field(default_factory=TotalsChanges)


def project(
    rows: ProjectedRows,
    before: ThreadState,
    recorded: RecordedEvent,
    after: ThreadState,
) -> None:
    """Add the rows that an event leads to, given the states before and after it."""
    if make := _ROWS.get(type(recorded.event)):
        make(rows, before, recorded)
    page_rows.project(rows.pages, before, recorded)
    change = StateChange(before, recorded.event, after)
    current_rows.project(rows.current_rows, PROJECTIONS, change)
    due_rows.project(rows.due, change)
    rows.derivations += derivation_rows.build_rows(before.id, recorded)
    if erased := erased_rows.build_erased(before, recorded):
        rows.erased.append(erased)
    # A new fork has its parent's keys before it has rows of its own.
    had = _count_keys(before) if before.seq else 0
    rows.totals.count_rows(before.id, totals.KEYS, _count_keys(after) - had)


def _count_keys(state: ThreadState) -> int:
    """Count the key rows of a thread; 0 once it has ended."""
    return 0 if current_rows.has_ended(state) else len(state.memory.contents.keys)


def _add_slot(
    rows: ProjectedRows, before: ThreadState, recorded: RecordedEvent
) -> None:
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
            struck_seq=None,
        )
    )
    if event.role == "user":
        rows.totals.count_rows(before.id, totals.EPISODES, 1)
    elif event.role == "assistant" and before.turn_count:
        _count_tokens(rows, before, RequestTokens(answer_tokens=event.tokens))


def _add_struck(
    rows: ProjectedRows, before: ThreadState, recorded: RecordedEvent
) -> None:
    event = recorded.event
    assert isinstance(event, page_events.SlotStruck)
    rows.struck[before.id, event.index] = recorded.seq


def _add_turn(
    rows: ProjectedRows, before: ThreadState, recorded: RecordedEvent
) -> None:
    event = recorded.event
    assert isinstance(event, page_events.TurnBegan)
    rows.turns.append(
        TurnTableRow(
            thread_id=before.id,
            n=event.n,
            seq=recorded.seq,
            packed_seq=None,
            counters=_render_json(count_paging(before)),
        )
    )


def _add_packed(
    rows: ProjectedRows, before: ThreadState, recorded: RecordedEvent
) -> None:
    event = recorded.event
    assert isinstance(event, page_events.TurnPacked)
    rows.packed[before.id, event.turn] = recorded.seq
    _count_tokens(rows, before, RequestTokens(event.tokens, event.prefix_tokens or 0))


def _count_tokens(
    rows: ProjectedRows, thread: ThreadState, more: RequestTokens
) -> None:
    earlier = rows.requests.get(thread.id, RequestTokens())
    rows.requests[thread.id] = earlier.add(more)


_ROWS: dict[
    type[EventBody], Callable[[ProjectedRows, ThreadState, RecordedEvent], None]
] = {
    events.SlotAppended: _add_slot,
    page_events.SlotStruck: _add_struck,
    page_events.TurnBegan: _add_turn,
    page_events.TurnPacked: _add_packed,
}


def write(rows: ProjectedRows) -> None:
    """Insert the rows, one call a table, and erase the texts of deleted pages.

    The difference to the totals is in `rows.totals`, which the caller writes.
    """
    statements.SLOTS.write(rows.slots)
    if rows.struck:
        _strike_slots(rows)
    statements.TURNS.write(rows.turns)
    for (thread, n), seq in rows.packed.items():
        Turn.objects.filter(thread_id=thread, n=n).update(packed_seq=seq)
    page_rows.write(rows.pages, rows.totals)
    for (thread, page_id), seq in rows.pages.deleted.items():
        _purge_texts(rows.totals, thread, page_id, by=seq)
    for each in PROJECTIONS:
        each.write(rows.current_rows.get(each.word, {}))
    due_rows.write(rows.due, rows.totals)
    statements.DERIVATIONS.write(rows.derivations)
    # Last: it changes rows that the same events may have made.
    erased_rows.write(rows.erased, rows.totals)


def _strike_slots(rows: ProjectedRows) -> None:
    """Mark struck slots, with two statements for each thread."""
    marks: dict[UUID, dict[int, int]] = {}
    for (thread, index), seq in rows.struck.items():
        marks.setdefault(thread, {})[index] = seq
    for thread, seqs in marks.items():
        slots = Slot.objects.filter(thread_id=thread, index__in=seqs)
        begins = slots.filter(SHOWN, role="user").count()
        rows.totals.count_rows(thread, totals.EPISODES, -begins)
        each = [When(index=index, then=seq) for index, seq in seqs.items()]
        slots.update(struck_seq=Case(*each))


def _purge_texts(
    changes: TotalsChanges, thread: UUID, page_id: str, *, by: int
) -> None:
    """Erase the texts of a page's versions and levels. A repeat erases nothing more.

    Inherited texts belong to the thread's ancestors, and stay.
    """
    texts = StoredEvent.objects.filter(
        thread_id=thread, page=page_id, type__in=page_rows.PURGED, seq__lt=by
    )
    changes.take_payloads(texts.filter(erased_by__isnull=True), thread, by=by)


def build_columns(state: ThreadState) -> dict[str, Any]:
    """Return the thread row's columns that repeat the fold, head and times included."""
    return {
        "subject_id": state.subject,
        "status": state.status,
        "home": state.home,
        **{level: getattr(state.scope, level) for level in _SCOPE},
        "labels": _render_json(dict(state.labels)),
        "config": _render_json(state.config.model_dump(exclude_none=True)),
        "lineage": _render_json(
            [
                [str(part.thread), part.first, part.end, part.up_to_seq]
                for part in state.lineage
            ]
        ),
        "parent_id": state.lineage[-1].thread if state.lineage else None,
        "fork_seq": state.lineage[-1].up_to_seq if state.lineage else None,
        "nearly_full": state.nearly_full,
        "has_requests": len(state.knowledge.requested) > 0 or None,
        "created_at": state.created_at,
        "capacity_tokens": state.paging.settings.usable,
        **dict(zip(APPEND_COLUMNS, build_append_values(state), strict=True)),
    }


#: Columns that an append moves; the others are written only when they changed, since
#: naming an indexed column in an UPDATE churns its index.
APPEND_COLUMNS = (
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


#: Columns to which a write adds the tokens of requests and answers, in their order.
ADDED_COLUMNS = ("request_tokens", "prefix_tokens", "answer_tokens")


def add_request_tokens(row: Thread, rows: ProjectedRows) -> None:
    """Add the tokens of requests and answers in `rows` to a thread's row, unsaved."""
    more = rows.requests.get(row.id, RequestTokens())
    for name, tokens in zip(ADDED_COLUMNS, more, strict=True):
        setattr(row, name, getattr(row, name) + tokens)


def needs_levels(state: ThreadState) -> bool:
    """Return whether a worker should look for missing levels; it clears the mark.

    Every event sets the mark anew, since its pages may need levels too.
    """
    return state.status == "open" and state.paging.is_crowded


def needs_observer(state: ThreadState) -> bool:
    """Return whether an observer should look at the thread; it clears the mark."""
    return formulas.can_be_due(state)


def diff_columns(before: ThreadState, after: ThreadState) -> dict[str, Any]:
    """Return the columns to update when a thread moves from one state to another."""
    new, old = build_columns(after), build_columns(before)
    return {
        name: new[name]
        for name in new
        if name in APPEND_COLUMNS or new[name] != old[name]
    }


def is_plain_append(before: ThreadState, after: ThreadState) -> bool:
    """Return whether only the columns in `APPEND_COLUMNS` differ."""
    return _list_rare_values(before) == _list_rare_values(after)


def _list_rare_values(state: ThreadState) -> tuple[object, ...]:
    usable = state.paging.settings.usable
    set_up = (state.status, state.scope, state.labels, state.config)
    requested = len(state.knowledge.requested) > 0
    return (*set_up, state.nearly_full, usable, requested)


def build_append_values(state: ThreadState) -> tuple[object, ...]:
    """Return the values of the columns in `APPEND_COLUMNS`, in that order."""
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
        paging.count_refaults(state.turn_count),
        paging.exchanges.begun,
        paging.exchanges.faulted,
        paging.exchanges.faulted_lately,
        state.at,
        state.active_at,
    )


def count_paging(state: ThreadState) -> dict[str, int]:
    """Return the counts of paging, by closed words.

    Cumulative, except the count of the last exchanges.
    """
    paging = state.paging
    counts = {**dict(paging.counts.items()), **_count_exchanges(paging.exchanges)}
    counts |= {"hits": paging.tlb.hits, "misses": paging.tlb.misses}
    return dict(sorted(counts.items()))


def _count_exchanges(exchanges: Exchanges) -> dict[str, int]:
    if not exchanges.begun:
        return {}
    return {
        "exchanges": exchanges.begun,
        "exchanges.faulted": exchanges.faulted,
        "exchanges.faulted_lately": exchanges.faulted_lately,
    }


def compute_rate(counters: Mapping[str, int]) -> float | None:
    """Return the resident rate of these counters; None before the first exchange."""
    faulted = counters.get("exchanges.faulted_lately", 0)
    return compute_resident_rate(
        count_rated_exchanges(counters.get("exchanges", 0)), faulted
    )


def build_label_rows(state: ThreadState) -> list[ThreadLabel]:
    return [
        ThreadLabel(
            thread_id=state.id,
            name=name,
            project_id=state.project,
            value=render_label(value),
        )
        for name, value in state.labels
    ]


def render_label(value: events.LabelValue) -> str:
    """Return a label's value as text for filters: `abc`, `1`, `0.5`, `true`."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def clear(thread: UUID) -> None:
    """Delete the rows that a thread's journal led to, before they are rebuilt.

    Labels are replaced as they are written; totals stay, since the rows return.
    """
    for model in (Slot, Turn, Page, PageLevel, EvictedPage, DueValue):
        model._default_manager.filter(thread=thread).delete()
    for each in PROJECTIONS:
        each.filter_thread(thread).delete()
    Derivation.objects.filter(derived_thread=thread).delete()


def write_labels(states: Iterable[ThreadState]) -> None:
    """Replace the label rows of these threads."""
    wanted = list(states)
    if not wanted:
        return
    ThreadLabel.objects.filter(thread__in=[state.id for state in wanted]).delete()
    ThreadLabel.objects.bulk_create(
        [row for state in wanted for row in build_label_rows(state)]
    )


def _render_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
