"""Looks: whoever is shown content is in the audit log before it is shown.

An address of a thread shows its content unless it is declared plain; one that is of no
thread shows none, and what the console of privacy opens it notes by itself.
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
        *("fork", "forks", "checkpoint-take", "checkpoint-delete"),
    }
)
#: Panels of lists, and the head of every page of a thread.
PLAIN_PANELS = frozenset({"head", "row"})

_READ = "content.read"
_SOCKET = "ws/live/<project:project>"


@dataclass(slots=True, kw_only=True)
class Look:
    """A request of an operator, and what it came upon."""

    route: str
    purpose: str
    content: bool
    #: The one event that is asked for, and the last as of which.
    seq: int | None
    at_seq: int | None
    #: By the thread that is seen.
    seen: dict[UUID, Entry] = field(default_factory=dict)

    def at_thread(self, row: Thread, *, actor: str) -> None:
        """The request shows this thread, if it shows anything."""
        last = row.head_seq if self.at_seq is None else min(self.at_seq, row.head_seq)
        self.seen[row.id] = Entry(
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


#: The minute in which an operator was last noted to look at a thread.
_told: Lru[tuple[str, UUID], datetime] = Lru(10_000)


def begin(request: HttpRequest) -> Look:
    """The request's look; what it comes upon is added to it."""
    match = request.resolver_match
    assert match is not None
    name, panel = match.url_name or "", match.kwargs.get("panel", "")
    at_seq = request.GET.get("at_seq", "")
    plain = at_seq.isascii() and at_seq.isdigit() and len(at_seq) < 19
    look = Look(
        route=match.route,
        purpose=purpose_of(request.session),
        content=name not in PLAIN and panel not in PLAIN_PANELS,
        seq=match.kwargs.get("seq"),
        at_seq=int(at_seq) if plain else None,
    )
    request.look = look  # type: ignore[attr-defined]  # ours
    return look


def purpose_of(session: Mapping[str, Any]) -> str:
    """Why the operator looks, as the sign-in asked."""
    kept: str = session.get(PURPOSE, DEFAULT_PURPOSE)
    return kept


def note(request: HttpRequest, response: HttpResponseBase) -> None:
    """Have on disk what the answer is about to show. Raises UnavailableError.

    The first look of a minute writes; those after it find that in memory.
    """
    look: Look | None = getattr(request, "look", None)
    if look is None or not look.content or 300 <= response.status_code < 400:
        return
    minute = audit.minute_of(clock.now())
    for seen, entry in look.seen.items():
        if _told.get((entry.actor, seen)) == minute:
            continue
        audit.look(entry)
        _told.put((entry.actor, seen), minute)


def forget() -> None:
    """Ask the log again whether this minute has a look."""
    _told.clear()


# Sockets


def of_socket(
    heads: Iterable[Head], *, operator: UUID, purpose: str, outcome: str
) -> list[Entry]:
    """What is noted when a page begins, or ends, to be shown what comes."""
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
