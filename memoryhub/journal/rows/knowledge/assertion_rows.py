"""Rows of assertions: a home thread's claims, from which facts are derived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.journal.rows.current_rows import CHUNK, Projection, StateChange
from memoryhub.journal.rows.rows import AssertionRow
from memoryhub.kernel.knowledge.derivation import MULTI
from memoryhub.kernel.knowledge.facts import (
    FactAsserted,
    FactRetracted,
    TimelineConfigured,
)
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.knowledge import AssertionState
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.assertions import Assertion
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import blind_index, payloads
from memoryhub.vault.keys import keys as vault
from memoryhub.vault.keys.keys import SubjectKeys


def digest_timeline(keys: SubjectKeys, entity: str, predicate: str) -> bytes:
    """Return the digest of a timeline, however its entity and predicate are spelled."""
    texts = blind_index.fold(entity), blind_index.fold_predicate(predicate)
    return blind_index.digest_lookup(keys, "timeline", *texts)


def digest_word(keys: SubjectKeys, name: str, text: str) -> bytes:
    """Return the digest of an `entity`, a `predicate` or a `value`."""
    is_predicate = name == "predicate"
    fold = blind_index.fold_predicate if is_predicate else blind_index.fold
    return blind_index.digest_lookup(keys, name, fold(text))


def refresh_rows(thread: UUID, *, after: int) -> int | None:
    """Complete a home thread's next 500 rows anew; rewrite the rows that change.

    For rows whose predicates an older version folded. Returns the last seq looked at;
    None after the last row. Call it in the transaction that has locked the thread.
    """
    found = ASSERTIONS.filter_thread(thread).filter(seq__gt=after).order_by("seq")
    rows = ASSERTIONS.read(found[:CHUNK])
    changed = {*_complete_rows(rows)} - {*rows}
    ASSERTIONS.write({(thread, row.seq): row for row in changed})
    return rows[-1].seq if len(rows) == CHUNK else None


def _list_seqs(state: ThreadState) -> Iterable[int]:
    return [*state.knowledge.assertions, *state.knowledge.configured]


def _build_row(state: ThreadState, seq: int) -> AssertionRow | None:
    assertions, configured = state.knowledge.assertions, state.knowledge.configured
    if seq in assertions:
        return AssertionRow(state.id, seq, *assertions[seq], cardinality=None)
    if seq in configured:
        setting = AssertionState("operator")
        return AssertionRow(state.id, seq, *setting, cardinality=configured[seq] or "")
    return None


def _list_own(change: StateChange) -> Iterable[int]:
    return [change.after.seq]


def _list_retracted(change: StateChange) -> Iterable[int]:
    event = change.event
    assert isinstance(event, FactRetracted)
    return event.seqs


def _list_erased(change: StateChange) -> Iterable[int]:
    return {*_list_seqs(change.before)} - {*_list_seqs(change.after)}


def _complete_rows(rows: list[AssertionRow]) -> list[AssertionRow]:
    """Add columns from the payloads; drop rows whose payload is erased.

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
        sealed = Event.objects.filter_places(places).filter(payload__isnull=False)
        for event in sealed.only("thread_id", "seq", "payload"):
            opened = _open_payload(threads[event.thread_id], event)
            found[event.thread_id, event.seq] = opened
    return [
        _fill_row(row, found[place], threads[row.thread_id])
        for row in rows
        if (place := (row.thread_id, row.seq)) in found
    ]


def _open_payload(thread: Thread, event: Event) -> Mapping[str, Any]:
    # `journal.texts` opens payloads for most modules; rows are below that module.
    place = payloads.PayloadAddress(
        project=thread.project_id,
        subject=thread.subject_id,
        thread=thread.id,
        seq=event.seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
    assert event.payload is not None
    plain = payloads.open_sealed(_get_keys(thread), place, bytes(event.payload))
    opened: Mapping[str, Any] = strict_json.parse_stored(plain)
    return opened


def _get_keys(thread: Thread) -> SubjectKeys:
    return vault.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)


def _fill_row(
    row: AssertionRow, payload: Mapping[str, Any], thread: Thread
) -> AssertionRow:
    keys = _get_keys(thread)
    entity, predicate = payload["entity"], payload["predicate"]
    row = row._replace(
        timeline=digest_timeline(keys, entity, predicate),
        entity=digest_word(keys, "entity", entity),
        predicate=digest_word(keys, "predicate", predicate),
    )
    if row.cardinality is not None:
        return row
    is_multi = blind_index.fold_predicate(predicate) in MULTI
    many = payload.get("many", False) or is_multi
    return row._replace(
        value=digest_word(keys, "value", payload["value"]),
        many=many,
        confidence=payload.get("confidence"),
        valid_from=_parse_instant(payload["valid_from"]),
        valid_until=_parse_instant(payload.get("valid_until")),
    )


def _parse_instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _convert_digests(row: AssertionRow) -> AssertionRow:
    """Return the row with digests as bytes; a database driver may have its own type."""
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
    names=_list_seqs,
    build_row=_build_row,
    changed_names={
        FactAsserted: _list_own,
        TimelineConfigured: _list_own,
        FactRetracted: _list_retracted,
        RecordsErased: _list_erased,
    },
    complete_rows=_complete_rows,
    fill_row=_convert_digests,
)
