"""Projections: the rows that repeat the fold, so that it can be listed and filtered.

Written in the transaction of the events they come from; `verify` makes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import orjson

from memoryhub.journal import statements
from memoryhub.journal.rows import SlotRow, TurnRow
from memoryhub.kernel import events
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import Scope, ThreadState
from memoryhub.models.threads import ThreadLabel

_SCOPE = tuple(level.name for level in fields(Scope))


@dataclass(slots=True, kw_only=True)
class Rows:
    """Rows to insert, by table."""

    slots: list[SlotRow] = field(default_factory=list)
    turns: list[TurnRow] = field(default_factory=list)


def project(rows: Rows, before: ThreadState, recorded: Recorded) -> None:
    """Add the rows that an event leads to, given the state before it."""
    if make := _ROWS.get(type(recorded.event)):
        make(rows, before, recorded)


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
            erased=False,
        )
    )


def _turn(rows: Rows, before: ThreadState, recorded: Recorded) -> None:
    event = recorded.event
    assert isinstance(event, events.TurnBegan)
    rows.turns.append(
        TurnRow(thread_id=before.id, n=event.n, seq=recorded.seq, packed_seq=None)
    )


_ROWS: dict[type[events.Event], Callable[[Rows, ThreadState, Recorded], None]] = {
    events.SlotAppended: _slot,
    events.TurnBegan: _turn,
}


def write(rows: Rows) -> None:
    """Insert them; one call a table."""
    statements.SLOTS.rows(rows.slots)
    statements.TURNS.rows(rows.turns)


def columns(state: ThreadState) -> dict[str, Any]:
    """The thread row's columns that repeat the fold, head and times included."""
    return {
        "subject_id": state.subject,
        "status": state.status,
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
    "last_event_at",
    "last_active_at",
)


def changed_columns(before: ThreadState, after: ThreadState) -> dict[str, Any]:
    """The columns to update when a thread moves from one state to another."""
    new, old = columns(after), columns(before)
    return {name: new[name] for name in new if name in MOVING or new[name] != old[name]}


def settled(before: ThreadState, after: ThreadState) -> bool:
    """Whether only the columns in `MOVING` differ."""
    return _rare(before) == _rare(after)


def _rare(state: ThreadState) -> tuple[object, ...]:
    return (state.status, state.scope, state.labels, state.config, state.nearly_full)


def moving_values(state: ThreadState) -> tuple[object, ...]:
    """The values of the columns in `MOVING`, in that order."""
    return (
        state.seq,
        state.slot_count,
        state.turn_count,
        state.token_count,
        state.byte_count,
        state.at,
        state.active_at,
    )


def label_rows(state: ThreadState) -> list[ThreadLabel]:
    return [
        ThreadLabel(
            thread_id=state.id, name=name, project_id=state.project, value=text(value)
        )
        for name, value in state.labels
    ]


def text(value: events.LabelValue) -> str:
    """A label's value as filters compare it: `abc`, `1`, `0.5`, `true`."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


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
