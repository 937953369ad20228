from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryhub.errors import BadCursorError
from memoryhub.models import per_thread
from memoryhub.models.projects import Project
from memoryhub.queries.people import subject_lists
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import restrictions, subjects
from tests.cast import factories
from tests.inspector import forgotten

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [3, 40])
def test_subject_list_costs_one_query(
    acme: Project,
    agent: Agent,
    size: int,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for n in range(size):
        subjects.find_or_create(acme.id, f"person-{n}")
    factories.make_thread(agent, "t-1", user_id="person-1")
    factories.append(agent, "t-1", "hello")
    spread = per_thread.is_spread()
    with django_assert_num_queries(2 if spread else 1):
        found = subject_lists.list_subjects(acme, now=timezone.now(), limit=200)
    assert len(found.items) == size + 1
    assert found.next is None
    busy = [line for line in found.items if line.threads]
    assert [line.threads for line in busy] == [1]
    assert busy[0].last_seen is not None
    # What a cluster is asked instead.
    seen = subject_lists.find_last_seen([line.id for line in found.items])
    assert seen == {busy[0].id: busy[0].last_seen}


def test_newest_people_are_listed_by_state_up_to_a_limit(acme: Project) -> None:
    people = [subjects.find_or_create(acme.id, f"person-{n}").id for n in range(3)]
    found = subject_lists.list_newest(acme, among=["active"], limit=2)
    assert found == [people[2], people[1]]
    assert subject_lists.list_newest(acme, among=["erased"], limit=2) == []


def test_newest_thread_tells_a_person_who_may_be_seen(
    acme: Project, agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("t-1", "t-2"):
        factories.make_thread(agent, name, user_id="ann")
    factories.make_thread(agent, "t-3", user_id="bea")
    ann, bea = (subjects.find(acme.id, name) for name in ("ann", "bea"))
    assert ann
    assert bea
    restrictions.restrict_subject(bea.id, basis="claims", actor="operator:x")
    ids = [ann.id, bea.id]
    with django_assert_num_queries(1):
        found = subject_lists.find_newest_threads(acme, ids, among=("active",))
    assert found == {ann.id: "t-2"}
    living = subject_lists.LIVING
    assert bea.id in subject_lists.find_newest_threads(acme, ids, among=living)


def test_line_tells_threads_and_whether_a_hold_is_in_force(
    acme: Project, agent: Agent
) -> None:
    person = forgotten.make_person(agent, "ann")
    line = subject_lists.list_subjects(acme, now=timezone.now()).items[0]
    assert (line.id, line.threads, line.many) == (person.id, 2, False)
    assert not line.held
    forgotten.make_hold(person, days=3)
    now = timezone.now()
    assert subject_lists.list_subjects(acme, now=now).items[0].held
    later = now + timedelta(days=4)
    assert not subject_lists.list_subjects(acme, now=later).items[0].held


def test_cursor_is_of_its_list(acme: Project, zeta: Project) -> None:
    for n in range(3):
        subjects.find_or_create(acme.id, f"person-{n}")
    now = timezone.now()
    cursor = subject_lists.list_subjects(acme, now=now, limit=1).next
    with pytest.raises(BadCursorError):
        subject_lists.list_subjects(zeta, now=now, after=cursor)
    with pytest.raises(BadCursorError):
        subject_lists.list_subjects(acme, state="active", now=now, after=cursor)
    active = subject_lists.list_subjects(acme, state="active", now=now)
    assert (len(active.items), active.next) == (4, None)


@pytest.mark.django_db(transaction=True)
def test_names_to_choose_from_are_of_living_threads(agent: Agent) -> None:
    person = forgotten.make_person(agent, "ann")
    assert set(subject_lists.list_thread_names(person)) == {"ann-1", "ann-2"}
    one = factories.get_thread(agent, "ann-1")
    forgotten.finish(
        forgotten.confirm(forgotten.plan(person, scope="thread", thread=one))
    )
    assert subject_lists.list_thread_names(person) == ("ann-2",)
