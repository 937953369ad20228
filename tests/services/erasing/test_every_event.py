"""Erasures of a memory that holds every registered type of event, to the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from django.db import router

from memoryhub.kernel.registry import TYPES
from memoryhub.models.erasures import Receipt
from memoryhub.models.events import Event
from memoryhub.models.privacy import list_declared_models
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from tests.cast.erasings import sound
from tests.cast.every_event import remember, types_of
from tests.cast.forgetting import confirm, finish, plan

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.engines]

#: A word of every name that the subject's agents chose, and a text of all messages.
WHO, TEXT = "heron17", "Her grey heron stands in the third pond."


def of_subject(ann: Subject) -> Iterator[Mapping[str, Any]]:
    yield {"scope": "subject"}


def of_threads(ann: Subject) -> Iterator[Mapping[str, Any]]:
    """Yield each thread, home and fork included; parents of forks come first."""
    for row in _list_live(ann):
        yield {"scope": "thread", "thread": row}


def of_retired(ann: Subject) -> Iterator[Mapping[str, Any]]:
    for asked in of_threads(ann):
        yield {**asked, "reason": "retention"}


def of_records(ann: Subject) -> Iterator[Mapping[str, Any]]:
    """Yield one record of each sealed type."""
    for kind in sorted(name for name, event in TYPES.items() if event.sealed):
        sealed = Event.objects.filter(thread__in=_list_live(ann), payload__isnull=False)
        row = sealed.filter(type=kind).select_related("thread").order_by("seq").first()
        if row is not None:
            yield {"scope": "record", "thread": row.thread, "seq": row.seq}


def of_all_before_now(ann: Subject) -> Iterator[Mapping[str, Any]]:
    yield {"scope": "before", "before": clock.now()}


ASKED: Mapping[str, Callable[[Subject], Iterator[Mapping[str, Any]]]] = (
    MappingProxyType(
        {
            "subject": of_subject,
            "thread": of_threads,
            "retention": of_retired,
            "record": of_records,
            "before": of_all_before_now,
        }
    )
)


@pytest.mark.parametrize(
    "scope",
    [
        scope if scope == "thread" else pytest.param(scope, marks=pytest.mark.slow)
        for scope in ASKED
    ],
)
def test_erasure_completes_with_every_type_of_event(agent: Agent, scope: str) -> None:
    ann = remember(agent, WHO, TEXT)
    assert types_of(ann) == {*TYPES}
    for asked in ASKED[scope](ann):
        row = finish(confirm(plan(ann, **asked)))
        assert (row.state, row.waiting_on, row.defect) == ("complete", "", ""), asked
        assert Receipt.objects.filter(erasure=row, n=0).exists()
    for thread in Thread.objects.filter(subject=ann).select_related("subject"):
        assert verify(thread) is None, thread.name
    sound(*_list_live(ann))
    if scope != "record":
        events = Event.objects.filter(thread__subject=ann)
        assert not events.filter(payload__isnull=False).exists()
    if scope not in ("record", "before"):
        assert not [*places_with(WHO)]


def _list_live(subject: Subject) -> list[Thread]:
    rows = Thread.objects.filter(subject=subject).order_by("id")
    return [*rows.exclude(status=Thread.Status.ERASED).select_related("subject")]


def places_with(text: str) -> Iterator[str]:
    """Name each table of which a row holds the text in the clear."""
    for model in list_declared_models():
        rows = model._default_manager.using(router.db_for_read(model))
        if any(text in repr(row) for row in rows.values()):
            yield model._meta.label
