"""Recipients: keys, actors, projects and models given memory. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import orjson
from django.db.models import Q

from memoryhub.journal import audit
from memoryhub.journal.writing.uses import recipient_name, uses
from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.kernel.state.observing_events import ObserverFailed
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread

#: Most recipients that are listed.
_LISTED = 1_000
#: Threads whose copies in other projects one statement looks for.
_AT_ONCE = 100
#: Events that name the host of the model that was asked.
_ASKING_EVENTS = (ExchangeConsolidated, ObserverFailed, PageCreated)


def list_recipients(subject: UUID) -> list[str]:
    """List the keys, export takers, importing projects and models given the memory.

    As `key:<prefix>`, `export:<actor>`, `project:<id>`, `model:<host>`. Call this while
    the subject's key still opens: without the key nobody finds the subject's entries in
    the audit log.
    """
    found = {
        *_iter_readers(subject),
        *_iter_exporters(subject),
        *_iter_importers(subject),
        *_iter_models(subject),
    }
    return sorted(found)[:_LISTED]


def _iter_readers(subject: UUID) -> Iterator[str]:
    """Yield API keys that were given memory, even if only since the last flush."""
    for prefix in uses.list_readers(subject):
        yield recipient_name(prefix)
    rows = DailyUse.objects.filter(subject=subject, reads__gt=0)
    for prefix in rows.values_list("key__prefix", flat=True).distinct():
        yield recipient_name(prefix)


def _iter_exporters(subject: UUID) -> Iterator[str]:
    pseudonym = audit.find_pseudonym(subject)
    if pseudonym is None:
        return
    rows = AuditEntry.objects.filter(subject=pseudonym, action="subject.exported")
    for kind, ref in rows.values_list("actor_kind", "actor_ref").distinct():
        yield f"export:{kind}:{ref}" if ref else f"export:{kind}"


def _iter_models(subject: UUID) -> Iterator[str]:
    """Yield the hosts of language models that were given messages.

    Read from the events, because an erased thread is never folded again.
    """
    rows = Event.objects.filter(
        thread__subject=subject,
        type__in=[event.event_type for event in _ASKING_EVENTS],
        body__contains='"host":',
    )
    for text in rows.values_list("body", flat=True).iterator():
        body = orjson.loads(text)
        yield f"model:{body.get('host') or body['observed']['host']}"


def _iter_importers(subject: UUID) -> Iterator[str]:
    """Yield projects of this instance that imported threads of the subject."""
    project = Subject.objects.values_list("project_id", flat=True).get(id=subject)
    threads = Thread.objects.filter(subject=subject).values_list("id", flat=True)
    copies = Thread.objects.exclude(origin="").exclude(subject=subject)
    if not copies.exists():
        return
    ids = [*threads]
    for start in range(0, len(ids), _AT_ONCE):
        made = Q()
        for thread in ids[start : start + _AT_ONCE]:
            made |= Q(origin__contains=str(thread))
        for other in copies.filter(made).values_list("project_id", flat=True):
            yield f"project:{other}" if other != project else "project:itself"
