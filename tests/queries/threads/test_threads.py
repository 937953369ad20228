from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.kernel.paging.page_commands import ReferencePages
from memoryhub.models import Subject, Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.threads import ThreadFilter, ThreadLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.cast import factories
from tests.inspector.paged import do, make_paged

pytestmark = pytest.mark.django_db


def test_thread_is_found_by_its_exact_name_in_its_project(
    agent: Agent, stranger: Agent
) -> None:
    made = factories.make_thread(agent, "t-1")
    assert threads.get_thread(agent.project, "t-1") == made
    for project, name in ((agent.project, "t-10"), (stranger.project, "t-1")):
        with pytest.raises(NotFoundError):
            threads.get_thread(project, name)


def test_thread_of_another_subject_is_not_found(agent: Agent) -> None:
    thread = factories.make_thread(agent, "t-1", user_id="ann")
    bob = subjects.find_or_create(agent.project, "bob")
    found = threads.get_thread(agent.project, "t-1", bound=thread.subject_id)
    assert found == thread
    with pytest.raises(NotFoundError):
        threads.get_thread(agent.project, "t-1", bound=bob.id)


def test_title_leaves_out_the_person(agent: Agent) -> None:
    ann = subjects.find_or_create(agent.project, "ann")
    made = factories.make_thread(replace(agent, bound=ann.id), "t-1")
    assert made.name == f"{ann.id}:t-1"
    assert ThreadLine.from_row(made).title == "t-1"


@pytest.mark.no_replay
def test_erased_thread_or_subject_is_refused_as_erased(agent: Agent) -> None:
    thread = factories.make_thread(agent, "t-1", user_id="ann")
    Subject.objects.filter(id=thread.subject_id).update(state="erased")
    with pytest.raises(SubjectErasedError):
        threads.get_thread(agent.project, "t-1")
    Thread.objects.update(status="erased")
    with pytest.raises(ThreadErasedError):
        threads.get_thread(agent.project, "t-1")


def test_thread_costs_one_query(agent: Agent, django_assert_num_queries: Any) -> None:
    factories.make_thread(agent, "t-1")
    with django_assert_num_queries(1):
        found = threads.get_thread(agent.project, "t-1")
        assert found.subject.state == "active"


@pytest.mark.parametrize("size", [2, 40])
def test_thread_list_costs_one_query(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"t-{n}", labels={"a": 1})
    where = ThreadFilter(labels={"a": "1"}, status="open", parent=None)
    with django_assert_num_queries(1):
        batch = threads.list_threads(agent.project, where=where, limit=200)
    assert len(batch.items) == size


def test_thread_line_repeats_the_row(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", labels={"a": 1}, max_slots=7)
    factories.append(agent, "t-1", "hello")
    row = factories.get_thread(agent)
    line = ThreadLine.from_row(row)
    assert (line.slots, line.max_slots, line.head_seq) == (1, 7, 2)
    assert line.labels == {"a": 1}
    assert (line.inherited, line.lineage) == (0, ())


def test_thread_line_as_of_the_head_repeats_the_row(agent: Agent) -> None:
    make_paged(agent)
    for n in range(6):
        page_id = "policy" if n % 2 else f"slot-{n}"
        do(agent, "paged", ReferencePages(page_ids=(page_id,)))
    row = factories.get_thread(agent, "paged")
    line = ThreadLine.from_row(row)
    assert line.hits
    assert line.build_as_of(replay.load_state_at(row, row.head_seq).state) == line


def test_thread_prefix_is_compared_bytewise(agent: Agent) -> None:
    for name in ("ab", "aB", "abc", "b"):
        factories.make_thread(agent, name)
    where = ThreadFilter(name_prefix="ab")
    found = threads.list_threads(agent.project, where=where).items
    assert {line.name for line in found} == {"ab", "abc"}
