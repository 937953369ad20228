"""Audit of content reads: the audit log has an entry before a page shows content.

A route of a thread shows content unless `PLAIN` declares otherwise. A route of no
thread shows only the content that its view adds: lists of last messages, and the card
that waits for a thread. The privacy console writes its own entries. See decision 20.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from memoryhub.journal.audit import PURPOSES, AuditNote
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.heads import WatchedHead
from memoryhub.services.access import audit
from memoryhub.vault.registry.lru import Lru

#: Session key of the purpose chosen at sign-in.
PURPOSE = "purpose"
DEFAULT_PURPOSE = "debugging"
assert DEFAULT_PURPOSE in PURPOSES

#: Routes of a thread that show only names, numbers and our own words.
PLAIN = frozenset(
    {
        *("paging-settings", "paging-flush", "close", "reopen", "retention"),
        *("fork", "forks", "checkpoint-take", "checkpoint-delete", "key-add"),
        *("keys-clear", "block-add", "observer-act"),
    }
)
#: Panels without content: the head of every page of a thread.
PLAIN_PANELS = frozenset({"head"})

_READ = "content.read"
_SOCKET = "ws/live/<project:project>"


@dataclass(slots=True, kw_only=True)
class ContentRead:
    """An operator's request, with the threads whose content the request shows."""

    route: str
    purpose: str
    content: bool
    #: The one event that the URL asks for; the event as of which the page is.
    seq: int | None
    at_seq: int | None
    #: Id of the view: one page that an operator has open.
    view: str
    #: Whether an open page asks for a part of itself.
    continued: bool
    #: Audit entry by thread shown.
    shown: dict[UUID, AuditNote] = field(default_factory=dict)

    def add(self, row: Thread, *, actor: str) -> None:
        """Add a thread whose content the request shows, if it shows content."""
        last = row.head_seq if self.at_seq is None else min(self.at_seq, row.head_seq)
        self.shown[row.id] = AuditNote(
            actor=actor,
            action=_READ,
            project=row.project_id,
            target_kind="thread",
            target_id=str(row.id),
            subject=row.subject_id,
            purpose=self.purpose,
            route=self.route,
            first_seq=min(1, last) if self.seq is None else self.seq,
            last_seq=last if self.seq is None else self.seq,
            request_id=self.view,
        )


_NEVER = datetime.min.replace(tzinfo=UTC)
#: Time of the last audited read, by operator, view and thread; "" is any view.
_noted: Lru[tuple[str, str, UUID], datetime] = Lru(
    10_000, name="views noted for the audit"
)


def begin(request: HttpRequest) -> ContentRead:
    """Begin the audit of a request; views add the threads that they show."""
    match = request.resolver_match
    assert match is not None
    name, panel = match.url_name or "", match.kwargs.get("panel", "")
    at_seq = request.GET.get("at_seq", "")
    plain = at_seq.isascii() and at_seq.isdigit() and len(at_seq) < 19
    continued = open_view(request.headers.get("MH-View", ""), request.user.pk)
    reading = ContentRead(
        route=match.route,
        purpose=get_purpose(request.session),
        content=name not in PLAIN and panel not in PLAIN_PANELS,
        seq=match.kwargs.get("seq"),
        at_seq=int(at_seq) if plain else None,
        view=continued or uuid7().hex,
        continued=bool(continued),
    )
    request.content_read = reading  # type: ignore[attr-defined]  # ours
    return reading


def get_purpose(session: Mapping[str, Any]) -> str:
    """Return the purpose of reading content, as the operator chose at sign-in."""
    kept: str = session.get(PURPOSE, DEFAULT_PURPOSE)
    return kept


def note(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write audit entries for the content of a response. Raises UnavailableError.

    Only the first read of a thread in a minute writes, and for a continued view only
    the first in an hour; memory tells of later reads.
    """
    reading: ContentRead | None = getattr(request, "content_read", None)
    if reading is None or not reading.content or 300 <= response.status_code < 400:
        return
    now = clock.now()
    if reading.continued:
        mark, since = reading.view, now - audit.VIEW_TIME
    else:
        mark, since = "", audit.truncate_to_minute(now)
    due = {
        (entry.actor, thread): entry
        for thread, entry in reading.shown.items()
        if not since <= (_noted.get((entry.actor, mark, thread)) or _NEVER) <= now
    }
    if due:
        audit.record_looks(*due.values(), continued=reading.continued)
    for actor, thread in due:
        _noted.put((actor, mark, thread), now)


def forget() -> None:
    """Forget noted reads, so that the next read of each thread writes again."""
    _noted.clear()


# Views


def seal_view(view: str, operator: UUID) -> str:
    """Sign a view's id for the page, so that only its operator can name the view."""
    return _build_signer(operator).sign(view)


def open_view(sealed: str, operator: UUID | None) -> str:
    """Return the id of a view that a page names; empty if it is not the operator's."""
    try:
        return _build_signer(operator).unsign(sealed)
    except BadSignature:
        return ""


def _build_signer(operator: UUID | None) -> Signer:
    return Signer(salt=f"memoryhub.view:{operator}")


# Sockets


def build_socket_entries(
    heads: Iterable[WatchedHead], *, operator: UUID, purpose: str, view: str
) -> list[AuditNote]:
    """Build the audit entries for threads that a live page begins to show."""
    return [
        AuditNote(
            actor=f"operator:{operator}",
            action=_READ,
            project=head.project,
            target_kind="thread",
            target_id=str(head.thread),
            subject=head.subject,
            purpose=purpose,
            outcome="opened",
            route=_SOCKET,
            last_seq=head.seq,
            request_id=view,
        )
        for head in heads
    ]


def build_closing_entry(
    project: UUID, *, operator: UUID, purpose: str, view: str, count: int
) -> AuditNote:
    """Build the audit entry for a live page that ends; it showed `count` threads."""
    return AuditNote(
        actor=f"operator:{operator}",
        action=_READ,
        project=project,
        purpose=purpose,
        outcome="closed",
        count=count,
        route=_SOCKET,
        request_id=view,
    )
