"""An event row: its body, its payload sealed in its place, its link of the chain."""

from __future__ import annotations

import hashlib

from memoryhub.journal.log import chain
from memoryhub.journal.log.heads import Head
from memoryhub.journal.rows.rows import EventRow
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.state import ThreadState
from memoryhub.vault.keys import keys, payloads


def sealed_row(
    head: Head,
    recorded: Recorded,
    payload: bytes | None,
    *,
    key: keys.SubjectKeys | None,
) -> EventRow:
    """Seal an event that follows `head` into its row.

    A payload travels with events that are `sealed`, and only with those need a key.
    """
    event, state = recorded.event, head.state
    assert (payload is not None) == event.sealed
    sealed = digest = None
    if payload is not None:
        assert key is not None
        sealed = payloads.seal(key, _address(state, recorded.seq), payload)
        digest = hashlib.sha256(sealed).digest()
    body = chain.plain_body(event)
    canonical = chain.envelope(body, recorded, thread=state.id, salt=head.salt)
    return EventRow(
        thread_id=state.id,
        seq=recorded.seq,
        type=event.event_type,
        at=recorded.at,
        actor=recorded.actor,
        body=chain.text_of(body),
        payload=sealed,
        payload_digest=digest,
        erased_by=None,
        chain=chain.link(head.chain, canonical, digest),
        page=page_of(event),
    )


def page_of(event: Event) -> str | None:
    """Return the page that an event is about; a slot's own is found by the slot."""
    return getattr(event, "page_id", None) or getattr(event, "carries", None)


def _address(state: ThreadState, seq: int) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
