from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import heads
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [1, 30])
def test_heads_cost_one_query(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    made = [factories.make_thread(agent, f"t-{number}") for number in range(size)]
    with django_assert_num_queries(1):
        found = heads.list_heads([thread.id for thread in made])
    assert {head.thread: head.seq for head in found.values()} == {
        thread.id: thread.head_seq for thread in made
    }


def test_heads_of_another_project_are_not_there(
    agent: Agent, stranger: Agent, acme: Project
) -> None:
    mine, theirs = factories.make_thread(agent), factories.make_thread(stranger)
    found = heads.list_heads([mine.id, theirs.id, uuid4()], project=acme.id)
    assert set(found) == {mine.id}


@pytest.mark.parametrize(
    ("state", "erased", "restricted"),
    [
        ("active", None, False),
        ("restricted", None, True),
        ("erasing", "subject_erased", False),
        ("erased", "subject_erased", False),
    ],
)
def test_heads_tell_erased_and_restricted_subjects(
    agent: Agent, state: str, erased: str | None, restricted: bool
) -> None:
    thread = factories.make_thread(agent, user_id="ann")
    Subject.objects.filter(id=thread.subject_id).update(state=state)
    head = heads.list_heads([thread.id])[thread.id]
    assert (head.erased, head.restricted) == (erased, restricted)


def test_row_comes_with_its_subject_and_project(
    agent: Agent, django_assert_num_queries: Any
) -> None:
    thread = factories.make_thread(agent)
    with django_assert_num_queries(1):
        row = heads.get_row(thread.id)
        assert (row.subject.id, row.project.slug) == (thread.subject_id, "acme")


@pytest.mark.no_replay
def test_row_that_may_not_be_seen_is_refused(agent: Agent) -> None:
    with pytest.raises(NotFoundError):
        heads.get_row(uuid4())
    thread = factories.make_thread(agent, user_id="ann")
    Subject.objects.filter(id=thread.subject_id).update(state="erasing")
    with pytest.raises(SubjectErasedError):
        heads.get_row(thread.id)
    Thread.objects.filter(id=thread.id).update(status="erased")
    with pytest.raises(ThreadErasedError):
        heads.get_row(thread.id)


def test_newest_of_each_project_costs_one_query(
    agent: Agent, acme: Project, zeta: Project, django_assert_num_queries: Any
) -> None:
    factories.make_thread(agent, "t-1")
    last = factories.make_thread(agent, "t-2")
    with django_assert_num_queries(1):
        newest = heads.list_newest([acme.id, zeta.id])
    assert newest == {acme.id: last.listed_at, zeta.id: None}
