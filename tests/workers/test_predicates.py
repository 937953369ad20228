"""Predicates of an older version: folded anew once, whatever happens meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.models.assertions import Assertion
from memoryhub.models.events import Event
from memoryhub.models.keys import SubjectKey
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import restrictions
from memoryhub.vault.keys import blind_index, keys
from memoryhub.workers import predicates
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, configure, every, retract, say, to_spans
from tests.harness import cluster

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def make_subject(agent: Agent, name: str) -> Subject:
    """Make a subject with claims of one timeline in two spellings."""
    factories.make_thread(agent, name, user_id=name)
    ann = forgetting.get_subject(agent, name)
    say(agent, ann, claim("Lindau", 0, predicate="lives_in"))
    oslo = say(agent, ann, claim("Oslo", 31, predicate="lives in")).seq
    say(agent, ann, claim("Oslo", 40, predicate="Lives-In"))
    configure(agent, ann, "single", "lives in")
    retract(agent, ann, oslo, whole=False)
    return ann


def get_home(subject: Subject) -> Thread:
    return Thread.objects.select_related("subject").get(subject=subject, home=True)


def age_rows(subject: Subject) -> None:
    """Give rows the digests that they had when a predicate's blanks were kept."""
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    for row in Assertion.objects.filter(thread__subject=subject):
        event = Event.objects.get(thread=row.thread_id, seq=row.seq)
        content = assertion_rows._open_payload(get_home(subject), event)
        texts = [blind_index.fold(content[name]) for name in ("entity", "predicate")]
        Assertion.objects.filter(thread=row.thread_id, seq=row.seq).update(
            timeline=blind_index.digest_lookup(opened, "timeline", *texts),
            predicate=blind_index.digest_lookup(opened, "predicate", texts[1]),
        )


def run_migration() -> None:
    """Run the statement by which an upgrade marks home threads.

    A cluster refuses it: a hub is distributed after its migrations.
    """
    if cluster.COORDINATOR:
        claimed = Assertion.objects.values_list("thread_id", flat=True).distinct()
        Thread.objects.filter(id__in=[*claimed]).update(predicates_due=True)
        return
    module = import_module("memoryhub.migrations.0018_predicates_due")
    with connection.cursor() as cursor:
        cursor.execute(module.Migration.operations[1].sql)


def test_old_rows_answer_as_one_timeline_after_a_pass(agent: Agent) -> None:
    ann, bob = make_subject(agent, "ann"), make_subject(agent, "bob")
    for each in (ann, bob):
        age_rows(each)
    assert verify(get_home(ann)) is not None
    assert len(every(ann)) == 2
    restrictions.restrict_subject(bob.id, basis="claims", actor="command")
    run_migration()
    assert Thread.objects.filter(predicates_due=True).count() == 2
    assert predicates.fold_anew(NOON) == 2
    for each in (ann, bob):
        assert verify(get_home(each)) is None
        assert to_spans(every(each)) == [("Oslo", 40, None)]
    with CaptureQueriesContext(connection) as queries:
        assert predicates.fold_anew(NOON) == 0
    assert len(queries) == 1


def test_killed_pass_is_done_by_the_next_one(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = make_subject(agent, "ann")
    age_rows(ann)
    run_migration()
    monkeypatch.setattr(assertion_rows, "CHUNK", 2)
    home = get_home(ann)
    # The first of two chunks, and then the process dies.
    assert predicates._fold_claims(home.id, ann.id, 0) is not None
    assert get_home(ann).predicates_due
    assert predicates.fold_anew(NOON) == 1
    assert verify(get_home(ann)) is None


def test_thread_that_cannot_be_read_keeps_its_mark(agent: Agent) -> None:
    ann, bob = make_subject(agent, "ann"), make_subject(agent, "bob")
    age_rows(bob)
    run_migration()
    home = get_home(ann)
    rows = SubjectKey.objects.using("keys").filter(subject=ann.id)
    lost = [*rows]
    rows.delete()
    keys.forget(ann.id)
    assert predicates.fold_anew(NOON) == 1
    assert [*predicates._list_due()] == [(home.id, ann.id)]
    assert verify(get_home(bob)) is None
    SubjectKey.objects.using("keys").bulk_create(lost)
    assert predicates.fold_anew(NOON) == 1


def test_erased_subject_is_left_out_of_a_pass(agent: Agent) -> None:
    ann = make_subject(agent, "ann")
    run_migration()
    home = get_home(ann)
    forgetting.forget(ann, until="caches_purged")
    assert predicates.fold_anew(NOON) == 0
    # A pass that had found the thread before the erasure began.
    assert predicates._fold_claims(home.id, ann.id, 0) is None
    assert not Assertion.objects.exists()
