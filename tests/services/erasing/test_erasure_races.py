"""Races of an eraser and a writer: neither misses the other's rows.

Each waits for the other's transaction, as two processes do. The journal's own writer
is not used, since it runs one command after the other anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

import pytest
from django.db import connections, transaction

from memoryhub.errors import (
    NotErasedError,
    SubjectErasedError,
    SubjectHeldError,
    ValueErasedError,
)
from memoryhub.journal.log.orders import Order
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import ValueDigest
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.text import strict_json
from memoryhub.models import Membership, Subject
from memoryhub.models.erasures import Hold
from memoryhub.models.server.clock import clock
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.imports import readmissions
from memoryhub.services.people import holds, restrictions, subjects
from tests.cast import factories, graves

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.no_replay,
]

Result = TypeVar("Result")
ERASED = "Ann lives at 14 Rue des Lilas, Lyon."


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "t-1", user_id="ann")
    return subjects.find_or_create(agent.project, "ann")


def _elsewhere(pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    """Run the work on a connection of its own, and close the connection."""

    def run() -> Result:
        try:
            return work()
        finally:
            connections.close_all()

    return pool.submit(run)


def _waits(future: Future[Result]) -> None:
    with pytest.raises(TimeoutError):
        future.result(timeout=0.3)


@contextmanager
def _erasing(subject: Subject) -> Iterator[None]:
    """Erase the subject in a transaction that stays open until the block ends."""
    erasure = graves.make_erasure(subject)
    with transaction.atomic():
        row = Subject.objects.select_for_update().get(id=subject.id)
        tombstones.lay_subject(erasure, row)
        Subject.objects.filter(id=row.id).update(
            state=Subject.State.ERASED, subject_ref=None, external_id=None
        )
        yield


def test_erased_subject_is_not_recreated_while_its_ref_is_freed(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    """Refuse the insert by the tombstone alone, since the ref is free by then."""
    prepared = subjects.prepare_subject(agent.project, "ann")

    def insert() -> Subject:
        with transaction.atomic():
            return subjects.insert_subject(prepared)

    with _erasing(ann):
        made = _elsewhere(pool, insert)
        _waits(made)
    with pytest.raises(SubjectErasedError):
        made.result(timeout=30)
    assert not Subject.objects.filter(id=prepared.id).exists()
    assert subjects.find_or_create(agent.project, "bob").state == "active"


def test_hold_is_refused_once_the_eraser_has_the_subject(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    vera = operators.add("vera")
    operators.set_role(ann.project, vera, Membership.Role.OFFICER)

    def hold() -> Hold:
        return holds.open_hold(
            ann,
            basis="archiving",
            reviewer=vera,
            expires_at=clock.now() + timedelta(days=1),
            actor="command",
        )

    with _erasing(ann):
        opened = _elsewhere(pool, hold)
        _waits(opened)
    with pytest.raises(SubjectErasedError):
        opened.result(timeout=30)
    assert not Hold.objects.exists()


def test_subject_being_erased_is_not_restricted(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    def restrict() -> Subject:
        return restrictions.restrict_subject(ann.id, basis="claims", actor="command")

    with _erasing(ann):
        done = _elsewhere(pool, restrict)
        _waits(done)
    with pytest.raises(SubjectErasedError):
        done.result(timeout=30)


def test_concurrent_readmissions_make_one_subject(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    graves.bury_subject(ann)
    prepared = [
        readmissions.prepare_readmission(agent.project, "ann") for _ in range(8)
    ]
    each = [
        _elsewhere(pool, partial(readmissions.insert_readmission, one, "command"))
        for one in prepared
    ]
    made, refused = [], 0
    for one in each:
        try:
            made.append(one.result(timeout=30))
        except NotErasedError:
            refused += 1
    assert (len(made), refused) == (1, 7)
    living = Subject.objects.exclude(subject_ref=None).filter(generation=2)
    assert [*living] == made


def test_writer_sees_a_tombstone_laid_while_it_waited(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    """Read the number of tombstones under the lock that an eraser waits for."""
    factories.make_thread(agent, "t-2", user_id="bob")
    erasure = graves.make_erasure(ann, scope="record")
    digest = tombstones.digest_value(graves.open_keys(ann), ERASED)
    assert digest is not None

    def write(thread: str) -> object:
        note = NewNote(text=strict_json.dump_stored(ERASED), bytes=len(ERASED))
        order = Order(
            address=agent.address(thread),
            command=AddNotes(notes=(note,)),
            actor=agent.actor,
        )
        return BatchCommitter().commit([order])[0]

    with transaction.atomic():
        Subject.objects.select_for_update().get(id=ann.id)
        tombstones.lay_values(erasure, [ValueDigest(of="note", digest=digest)])
        written = _elsewhere(pool, lambda: write("t-1"))
        _waits(written)
    assert isinstance(written.result(timeout=30), ValueErasedError)
    assert not isinstance(write("t-2"), Exception)


def test_page_deletion_sees_a_hold_opened_while_it_waited(
    agent: Agent, ann: Subject, pool: ThreadPoolExecutor
) -> None:
    factories.make_thread(agent, "t-2", user_id="bob")
    for thread in ("t-1", "t-2"):
        factories.make_page(agent, "rules", thread=thread)

    def delete(thread: str) -> object:
        order = Order(
            address=agent.address(thread),
            command=DeletePage(page_id="rules"),
            actor=agent.actor,
        )
        return BatchCommitter().commit([order])[0]

    now = clock.now()
    with transaction.atomic():
        restrictions.lock_subject(ann.id)
        Hold.objects.create(
            project_id=ann.project_id,
            subject=ann,
            basis="archiving",
            opened_by="command",
            opened_at=now,
            expires_at=now + timedelta(days=1),
        )
        deleted = _elsewhere(pool, lambda: delete("t-1"))
        _waits(deleted)
    assert isinstance(deleted.result(timeout=30), SubjectHeldError)
    assert not isinstance(delete("t-2"), Exception)
