"""Rows of assertions: what of a home thread's claims facts are derived from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.journal.rows.current_rows import CHUNK, Change, Projection
from memoryhub.journal.rows.rows import AssertionRow
from memoryhub.kernel.knowledge.derivation import MULTI
from memoryhub.kernel.knowledge.facts import (
    FactAsserted,
    FactRetracted,
    TimelineConfigured,
)
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.assertions import Assertion
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import blind_index, payloads
from memoryhub.vault.keys import keys as vault
from memoryhub.vault.keys.keys import SubjectKeys


def timeline(keys: SubjectKeys, entity: str, predicate: str) -> bytes:
    """Return the digest of a timeline, however its entity and predicate are spelled."""
    fold = blind_index.fold
    return blind_index.lookup(keys, "timeline", fold(entity), fold(predicate))


def word(keys: SubjectKeys, name: str, text: str) -> bytes:
    """Return the digest of an `entity`, a `predicate` or a `value`."""
    return blind_index.lookup(keys, name, blind_index.fold(text))


def _names(state: ThreadState) -> Iterable[int]:
    return [*state.knowledge.assertions, *state.knowledge.configured]


def _made(state: ThreadState, seq: int) -> AssertionRow | None:
    found = state.knowledge.assertions.get(seq)
    if found is not None:
        return AssertionRow(
            thread_id=state.id,
            seq=seq,
            origin=found.origin,
            retracted_seq=found.retracted_seq,
            wrong=found.wrong,
            cardinality=None,
        )
    if seq not in state.knowledge.configured:
        return None
    return AssertionRow(
        thread_id=state.id,
        seq=seq,
        origin="operator",
        retracted_seq=None,
        wrong=False,
        cardinality=state.knowledge.configured[seq] or "",
    )


def _one(change: Change) -> Iterable[int]:
    return [change.after.seq]


def _retracted(change: Change) -> Iterable[int]:
    event = change.event
    assert isinstance(event, FactRetracted)
    return event.seqs


def _erased(change: Change) -> Iterable[int]:
    return {*_names(change.before)} - {*_names(change.after)}


def _completed(rows: list[AssertionRow]) -> list[AssertionRow]:
    """With what their payloads say; those whose payload is gone are left out.

    A query for the threads, and one for 500 rows.
    """
    threads = {
        thread.id: thread
        for thread in Thread.objects.select_related("subject").filter(
            id__in={row.thread_id for row in rows}
        )
    }
    found: dict[tuple[UUID, int], Mapping[str, Any]] = {}
    for start in range(0, len(rows), CHUNK):
        places = [(row.thread_id, row.seq) for row in rows[start : start + CHUNK]]
        sealed = Event.objects.at_places(places).filter(payload__isnull=False)
        for event in sealed.only("thread_id", "seq", "payload"):
            opened = _opened(threads[event.thread_id], event)
            found[event.thread_id, event.seq] = opened
    return [
        _filled(row, found[place], threads[row.thread_id])
        for row in rows
        if (place := (row.thread_id, row.seq)) in found
    ]


def _opened(thread: Thread, event: Event) -> Mapping[str, Any]:
    place = payloads.PayloadAddress(
        project=thread.project_id,
        subject=thread.subject_id,
        thread=thread.id,
        seq=event.seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
    assert event.payload is not None
    plain = payloads.open_sealed(_keys(thread), place, bytes(event.payload))
    opened: Mapping[str, Any] = strict_json.kept(plain)
    return opened


def _keys(thread: Thread) -> SubjectKeys:
    return vault.subject_keys(thread.subject_id, epoch=thread.subject.epoch)


def _filled(
    row: AssertionRow, payload: Mapping[str, Any], thread: Thread
) -> AssertionRow:
    keys = _keys(thread)
    entity, predicate = payload["entity"], payload["predicate"]
    row = row._replace(
        timeline=timeline(keys, entity, predicate),
        entity=word(keys, "entity", entity),
        predicate=word(keys, "predicate", predicate),
    )
    if row.cardinality is not None:
        return row
    spelled = blind_index.fold(predicate).replace(" ", "_")
    many = payload.get("many", False) or spelled in MULTI
    return row._replace(
        value=word(keys, "value", payload["value"]),
        many=many,
        confidence=payload.get("confidence"),
        valid_from=_instant(payload["valid_from"]),
        valid_until=_instant(payload.get("valid_until")),
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _read(row: AssertionRow) -> AssertionRow:
    """As it was written: an engine may have its own bytes."""
    return row._replace(
        timeline=bytes(row.timeline),
        entity=bytes(row.entity),
        predicate=bytes(row.predicate),
        value=bytes(row.value),
    )


ASSERTIONS = Projection(
    word="assertion_rows",
    model=Assertion,
    row=AssertionRow,
    names=_names,
    made=_made,
    touched={
        FactAsserted: _one,
        TimelineConfigured: _one,
        FactRetracted: _retracted,
        RecordsErased: _erased,
    },
    completed=_completed,
    filled=_read,
)
