"""Recipients: who was given a subject's memory and may have a copy. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db.models import Q

from memoryhub.journal import audit
from memoryhub.journal.writing.uses import recipient_name, uses
from memoryhub.kernel.state.observing_events import ObserverFailed
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import states

#: More than that are told by their number alone.
_LISTED = 1_000
#: Threads whose copies elsewhere are looked for by one statement.
_AT_ONCE = 100


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
    """Hosts of the language models that were asked what was said."""
    home = Thread.objects.filter(subject=subject, home=True).first()
    if home is not None:
        for host in states.state_of(home).knowledge.hosts:
            yield f"model:{host}"
    made = Event.objects.filter(thread__subject=subject).filter(
        Q(type=ObserverFailed.event_type)
        | Q(type=PageCreated.event_type, page__startswith="obs-")
    )
    observed = Thread.objects.filter(
        id__in=made.values("thread").distinct()
    ).select_related("subject")
    for thread in observed:
        for host in states.state_of(thread).observing.hosts:
            yield f"model:{host}"


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
