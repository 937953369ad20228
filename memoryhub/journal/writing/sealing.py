"""Event rows: the body, the payload sealed at its address, and the chain's hash."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.core.checks import CheckMessage, Error

from memoryhub.journal.log import chain
from memoryhub.journal.log.heads import ThreadHead
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.bodies import EventBody, ServerMade
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text.names import NameMark, has_mark
from memoryhub.vault.keys import keys, payloads

#: Members of a body; the first that is present is the row's page as well.
_PAGE: Final = ("page_id", "carries")
#: Marks by which a page's member is blanked in column and body alike, or in neither.
_GOES: Final = (NameMark, ServerMade)


def seal_row(
    head: ThreadHead,
    recorded: RecordedEvent,
    payload: bytes | None,
    *,
    key: keys.SubjectKeys | None,
) -> EventTableRow:
    """Seal an event that follows `head` into its row.

    Only events that are `sealed` have a payload, and only they need a key.
    """
    event, state = recorded.event, head.state
    assert (payload is not None) == event.sealed
    sealed = digest = None
    if payload is not None:
        assert key is not None
        sealed = payloads.seal(key, _build_address(state, recorded.seq), payload)
        digest = hashlib.sha256(sealed).digest()
    body = chain.to_plain_body(event)
    canonical = chain.build_envelope(body, recorded, thread=state.id, salt=head.salt)
    return EventTableRow(
        thread_id=state.id,
        seq=recorded.seq,
        type=event.event_type,
        at=recorded.at,
        actor=recorded.actor,
        body=chain.render_body(body),
        payload=sealed,
        payload_digest=digest,
        erased_by=None,
        chain=chain.link(head.chain, canonical, digest),
        page=find_page(event),
    )


def find_page(event: EventBody) -> str | None:
    """Return the page that an event is about; the slot identifies a slot's own page."""
    first, second = _PAGE
    return getattr(event, first, None) or getattr(event, second, None)


def find_stored_page(body: dict[str, Any]) -> str | None:
    """Return the page of a stored body, whose names may be blanked."""
    first, second = _PAGE
    return body.get(first) or body.get(second)


def every_page_can_go(*_: Any, **__: Any) -> list[CheckMessage]:
    """Refuse an event whose page is neither a marked name nor an id that we made.

    Its erasure would blank the row's column but not the body, or the other way round.
    See decision 66.
    """
    return [
        Error(
            f"{kind.event_type} names a page that no erasure blanks: {field}.",
            hint="Make it a Name, or a Token of ours, serialised by its own name.",
            id="memoryhub.E004",
        )
        for kind in TYPES.values()
        for field, info in kind.model_fields.items()
        if field in _PAGE
        and (info.alias or not has_mark((info.annotation, *info.metadata), *_GOES))
    ]


def _build_address(state: ThreadState, seq: int) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
