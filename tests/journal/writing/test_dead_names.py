"""Names of erased threads and ids of erased people: nobody takes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.journal.rows import tombstones
from memoryhub.models import Project, Subject, Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import operator_threads, threads
from tests.cast import factories, graves
from tests.services import acts

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "ann-1", user_id="ann")
    return subjects.find_or_create(agent.project, "ann")


def _append(agent: Agent, name: str) -> object:
    return factories.append(agent, name, "hello")


def _create(agent: Agent, name: str) -> object:
    return factories.make_thread(agent, name)


def _fork(agent: Agent, name: str) -> object:
    return acts.fork(agent, "source", name)


def _for_new_subject(agent: Agent, name: str) -> None:
    threads.require_creatable(agent.project, name)


@pytest.mark.no_replay
@pytest.mark.parametrize("make", [_append, _create, _fork, _for_new_subject])
def test_erased_thread_never_lends_its_name(
    agent: Agent, stranger: Agent, make: Callable[[Agent, str], object]
) -> None:
    """No thread of the project gets the name; another project's thread may."""
    for each in (agent, stranger):
        factories.append(each, "source", "hello")
    thread = factories.make_thread(agent, "t-1", user_id="ann")
    erasure = graves.bury_thread(thread)
    count = Thread.objects.count()
    with pytest.raises(ThreadErasedError) as caught:
        make(agent, "t-1")
    assert caught.value.detail == {"erasure": str(erasure.id)}
    assert Thread.objects.count() == count
    make(agent, "t-2")
    make(stranger, "t-1")


@pytest.mark.no_replay
def test_dead_name_is_hidden_from_keys_of_other_subjects(
    agent: Agent, acme: Project
) -> None:
    ann, bob = (subjects.find_or_create(acme.id, name) for name in ("ann", "bob"))
    graves.bury_thread(factories.make_thread(agent, "t-1", user_id="ann"))
    _append(factories.make_agent(acme, subject=bob), "t-1")
    with pytest.raises(ThreadErasedError):
        _append(factories.make_agent(acme, subject=ann), "t-1")


@pytest.mark.no_replay
def test_order_for_an_erased_thread_is_told_so(agent: Agent) -> None:
    """An order that would make no thread is told so too."""
    thread = factories.make_thread(agent, "t-1")
    graves.bury_thread(thread)
    with pytest.raises(ThreadErasedError):
        operator_threads.close(thread, actor="operator:x", reason="archived")
    with pytest.raises(ThreadErasedError):
        acts.amend(agent, "t-1", labels={})
    with pytest.raises(NotFoundError):
        acts.amend(agent, "t-2", labels={})


@pytest.mark.no_replay
def test_batch_of_new_names_costs_one_query(
    agent: Agent, django_assert_num_queries: Any
) -> None:
    erasure = graves.bury_thread(factories.make_thread(agent, "t-7"))
    names = [(agent.project, f"t-{n}") for n in range(50)]
    with django_assert_num_queries(1):
        dead = tombstones.find_dead_names(names)
    assert {name: found.erasure for (_, name), found in dead.items()} == {
        "t-7": erasure.id
    }
    with django_assert_num_queries(0):
        assert tombstones.find_dead_names([]) == {}


@pytest.mark.no_replay
def test_erased_user_id_is_not_taken_again(agent: Agent, ann: Subject) -> None:
    erasure = graves.bury_subject(ann)
    for attempt in (subjects.find, subjects.find_or_create):
        with pytest.raises(SubjectErasedError) as caught:
            attempt(agent.project, "ann")
        assert caught.value.detail == {"erasure": str(erasure.id)}
    assert subjects.find(agent.project, "Ann") is None
    assert subjects.find_or_create(agent.project, "anne").generation == 1


@pytest.mark.no_replay
def test_subject_prepared_before_the_erasure_does_not_come_after_it(
    agent: Agent, ann: Subject
) -> None:
    """The eraser ran between the writer's look and its row."""
    prepared = subjects.prepare_subject(agent.project, "ann")
    graves.bury_subject(ann)
    count = Subject.objects.count()
    with pytest.raises(SubjectErasedError):
        factories.run(subjects.insert_subject_async(prepared))
    assert Subject.objects.count() == count
