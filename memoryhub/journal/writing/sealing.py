"""An event row: its body, its payload sealed in its place, its link of the chain."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.core.checks import CheckMessage, Error

from memoryhub.journal.log import chain
from memoryhub.journal.log.heads import Head
from memoryhub.journal.rows.rows import EventRow
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.bodies import Event, Ours
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text.names import NameMark, has_mark
from memoryhub.vault.keys import keys, payloads

#: Members of a body of which the first that is there is the row's page as well.
_PAGE: Final = ("page_id", "carries")
#: By which a page's member is blanked wherever it stands, or nowhere.
_GOES: Final = (NameMark, Ours)


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
    first, second = _PAGE
    return getattr(event, first, None) or getattr(event, second, None)


def stored_page(body: dict[str, Any]) -> str | None:
    """Return the page of a stored body, whose names may be blanked."""
    first, second = _PAGE
    return body.get(first) or body.get(second)


def every_page_can_go(*_: Any, **__: Any) -> list[CheckMessage]:
    """Refuse an event whose page is neither a marked name nor an id of ours.

    Its erasure would blank the row's column and not the body, or the other way round.
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


def _address(state: ThreadState, seq: int) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
