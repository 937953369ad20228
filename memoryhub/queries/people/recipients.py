"""Recipients: who was given a subject's memory and may have a copy. Never writes."""

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

#: More than that are told by their number alone.
_LISTED = 1_000
#: Threads whose copies elsewhere are looked for by one statement.
_AT_ONCE = 100
#: Events that name the host of the model that was asked.
_ASKING_EVENTS = (ExchangeConsolidated, ObserverFailed, PageCreated)


def list_recipients(subject: UUID) -> list[str]:
    """List keys that were given any, export takers, importing projects and models.

    As `key:<prefix>`, `export:<actor>`, `project:<id>`, `model:<host>`. To be asked
    while its key still opens: nobody can tell its entries of the audit log apart after
    that.
    """
    found = {
        *_readers(subject),
        *_exporters(subject),
        *_importers(subject),
        *_models(subject),
    }
    return sorted(found)[:_LISTED]


def _readers(subject: UUID) -> Iterator[str]:
    """Keys that were given something, be it only since the last flush."""
    for prefix in uses.readers(subject):
        yield recipient_name(prefix)
    rows = DailyUse.objects.filter(subject=subject, reads__gt=0)
    for prefix in rows.values_list("key__prefix", flat=True).distinct():
        yield recipient_name(prefix)


def _exporters(subject: UUID) -> Iterator[str]:
    pseudonym = audit.pseudonym(subject)
    if pseudonym is None:
        return
    rows = AuditEntry.objects.filter(subject=pseudonym, action="subject.exported")
    for kind, ref in rows.values_list("actor_kind", "actor_ref").distinct():
        yield f"export:{kind}:{ref}" if ref else f"export:{kind}"


def _models(subject: UUID) -> Iterator[str]:
    """Hosts of the language models that were asked what was said.

    Read from the events: a thread that was erased is never folded again.
    """
    rows = Event.objects.filter(
        thread__subject=subject,
        type__in=[event.event_type for event in _ASKING_EVENTS],
        body__contains='"host":',
    )
    for text in rows.values_list("body", flat=True).iterator():
        body = orjson.loads(text)
        yield f"model:{body.get('host') or body['observed']['host']}"


def _importers(subject: UUID) -> Iterator[str]:
    """Projects of this instance with threads that were made of it by an import."""
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
