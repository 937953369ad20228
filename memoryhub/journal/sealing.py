"""An event row: its body, its payload sealed in its place, its link of the chain."""

from __future__ import annotations

import hashlib

from memoryhub.journal import chain
from memoryhub.journal.heads import Head
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.vault import keys, payloads


def sealed_row(
    head: Head, recorded: Recorded, payload: bytes | None, *, key: keys.SubjectKeys
) -> Event:
    """The row of an event that follows `head`; to be inserted.

    A payload travels with events that are `sealed`, and only with those.
    """
    event = recorded.event
    assert (payload is not None) == event.sealed
    sealed = None
    if payload is not None:
        sealed = payloads.seal(key, _place(head.state, recorded.seq), payload)
    digest = None if sealed is None else hashlib.sha256(sealed).digest()
    row = Event(
        thread_id=head.state.id,
        seq=recorded.seq,
        type=event.event_type,
        at=recorded.at,
        actor=recorded.actor,
        body=chain.body_of(event),
        payload=sealed,
        payload_digest=digest,
    )
    row.chain = chain.link(head.chain, chain.envelope_of(row, salt=head.salt), digest)
    return row


def _place(state: ThreadState, seq: int) -> payloads.Place:
    return payloads.Place(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
