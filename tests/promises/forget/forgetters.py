"""Acts inside an instance for tests of forgetting; results are printed as JSON."""

from __future__ import annotations

import json
from uuid import UUID

from django.db.models import Q

from memoryhub.errors import Refusal
from memoryhub.journal import texts
from memoryhub.models.access.api_keys import MEMORY_SCOPES
from memoryhub.models.events import Event
from memoryhub.models.keys import SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasure_counts
from memoryhub.services.access import api_keys
from tests.cast.factories import make_project
from tests.promises.journal.appender import tell


def get_keys() -> None:
    """Print two keys of the project acme: one for memory, one that may forget."""
    acme = Project.objects.filter(slug="acme").first() or make_project("acme")
    for scopes in (MEMORY_SCOPES, ("subject:forget",)):
        tell(api_keys.create(acme, scopes=scopes)[1])


def show(subject: str) -> None:
    """Print the subject's rows by place, and every random byte to search for."""
    events = Event.objects.filter(thread__subject=UUID(subject), payload__isnull=False)
    sealed = [bytes(row) for row in events.values_list("payload", flat=True) if row]
    row = Subject.objects.get(id=subject)
    sealed += [bytes(row.external_id)] if row.external_id else []
    wrapped = SubjectKey.objects.filter(subject=subject).values_list(
        "wrapped", flat=True
    )
    tell(
        json.dumps(
            {
                "rows": erasure_counts.count_subject(UUID(subject)),
                "nonces": [each[3:15].hex() for each in sealed],
                "keys": [bytes(each)[:12].hex() for each in wrapped],
            }
        )
    )


def open_all(subject: str) -> None:
    """Print how many sealed payloads of the subject there are, and why none opens."""
    row = Subject.objects.get(id=subject)
    events = Event.objects.filter(Q(thread__subject=row), payload__isnull=False)
    told: dict[str, int] = {}
    for event in events:
        try:
            texts.open_payload(row, row.project_id, event)
            word = "opened"
        except Refusal as refusal:
            word = refusal.code
        told[word] = told.get(word, 0) + 1
    tell(json.dumps(told))


def show_thread(name: str) -> None:
    """Print the nonces of a thread's sealed payloads."""
    events = Event.objects.filter(thread__name=name, payload__isnull=False)
    sealed = events.values_list("payload", flat=True)
    tell(json.dumps([bytes(each)[3:15].hex() for each in sealed if each]))
