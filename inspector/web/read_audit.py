"""Note who reads content: it stands in the audit log before it is shown.

An address of a thread shows its content unless it is declared plain; one that is of no
thread shows none but what its view enters, as lists do that show last messages, and the
card that waits for a thread; the console of privacy enters by itself what it opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from memoryhub.journal.audit import PURPOSES, Entry
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.heads import Head
from memoryhub.services.access import audit
from memoryhub.vault.registry.lru import Lru

#: Kept in the session, where the sign-in put it.
PURPOSE = "purpose"
DEFAULT_PURPOSE = "debugging"
assert DEFAULT_PURPOSE in PURPOSES

#: Routes of a thread that show names, numbers and words of ours, and no more.
PLAIN = frozenset(
    {
        *("paging-settings", "paging-flush", "close", "reopen", "retention"),
        *("fork", "forks", "checkpoint-take", "checkpoint-delete", "key-add"),
        *("keys-clear", "fact-add", "block-add", "observer-act"),
    }
)
#: The head of every page of a thread.
PLAIN_PANELS = frozenset({"head"})

_READ = "content.read"
_SOCKET = "ws/live/<project:project>"


@dataclass(slots=True, kw_only=True)
class ContentRead:
    """Hold a request of an operator, and the threads that it shows."""

    route: str
    purpose: str
    content: bool
    #: The one event that is asked for, and the last as of which.
    seq: int | None
    at_seq: int | None
    #: By the thread that is shown.
    shown: dict[UUID, Entry] = field(default_factory=dict)

    def add(self, row: Thread, *, actor: str) -> None:
        """Add a thread that the request shows, if it shows anything."""
        last = row.head_seq if self.at_seq is None else min(self.at_seq, row.head_seq)
        self.shown[row.id] = Entry(
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
        )


#: The minute in which an operator was last noted to read a thread.
_noted: Lru[tuple[str, UUID], datetime] = Lru(10_000, name="views noted for the audit")


def begin(request: HttpRequest) -> ContentRead:
    """Begin what is noted of a request; threads that it shows are added."""
    match = request.resolver_match
    assert match is not None
    name, panel = match.url_name or "", match.kwargs.get("panel", "")
    at_seq = request.GET.get("at_seq", "")
    plain = at_seq.isascii() and at_seq.isdigit() and len(at_seq) < 19
    reading = ContentRead(
        route=match.route,
        purpose=purpose_of(request.session),
        content=name not in PLAIN and panel not in PLAIN_PANELS,
        seq=match.kwargs.get("seq"),
        at_seq=int(at_seq) if plain else None,
    )
    request.content_read = reading  # type: ignore[attr-defined]  # ours
    return reading


def purpose_of(session: Mapping[str, Any]) -> str:
    """Read why the operator looks at content, as chosen at sign-in."""
    kept: str = session.get(PURPOSE, DEFAULT_PURPOSE)
    return kept


def note(request: HttpRequest, response: HttpResponseBase) -> None:
    """Have on disk what the answer is about to show. Raises UnavailableError.

    The first read of a minute writes; those after it find that in memory.
    """
    reading: ContentRead | None = getattr(request, "content_read", None)
    if reading is None or not reading.content or 300 <= response.status_code < 400:
        return
    minute = audit.minute_of(clock.now())
    due = {
        (entry.actor, thread): entry
        for thread, entry in reading.shown.items()
        if _noted.get((entry.actor, thread)) != minute
    }
    if due:
        audit.look(*due.values())
    for key in due:
        _noted.put(key, minute)


def forget() -> None:
    """Ask the log again whether this minute has a read."""
    _noted.clear()


# Sockets


def socket_entries(
    heads: Iterable[Head], *, operator: UUID, purpose: str, outcome: str
) -> list[Entry]:
    """Word what is noted when a page begins, or ends, to be shown what comes."""
    return [
        Entry(
            actor=f"operator:{operator}",
            action=_READ,
            project=head.project,
            target_kind="thread",
            target_id=str(head.thread),
            subject=head.subject,
            purpose=purpose,
            outcome=outcome,
            route=_SOCKET,
            last_seq=head.seq,
        )
        for head in heads
    ]
