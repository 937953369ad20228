"""Profiles: what is held of a person, to the last record, and of nobody else."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import Sum
from django.db.models.functions import Length

from memoryhub.errors import NotFoundError, SubjectErasedError
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.models import Event, Project, Subject
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.queries.people import profiles
from memoryhub.queries.people.profiles import Profile
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints, keys, working_memory
from memoryhub.services.people import subjects
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories, graves
from tests.services import acts

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def _live_in_threads(agent: Agent, whose: str, *, threads: int = 1) -> Subject:
    """Make a subject with so many threads, each with one record of every kind."""
    for n in range(threads):
        name = f"{whose}-{n}"
        factories.make_thread(agent, name, user_id=whose)
        factories.append(agent, name, "one", "two")
        factories.make_page(agent, "home", thread=name)
        factories.run(turns.begin_turn(agent=agent, thread=name, new=NewTurn()))
        seat = keys.build_setting("seat", "12A", Expiry())
        factories.run(keys.change_keys(agent=agent, thread=name, changes=(seat,)))
        for command in (SetTask(), AddNotes(notes=(NewNote(text=b'"hm"', bytes=2),))):
            work = working_memory.submit_command(
                agent=agent, thread=name, command=command
            )
            factories.run(work)
        here = TakeCheckpoint(name="here")
        factories.run(
            checkpoints.take_checkpoint(agent=agent, thread=name, command=here)
        )
    return subjects.find_or_create(agent.project, whose)


def _profile(subject: Subject) -> Profile:
    found = profiles.get_subject(subject.project_id, subject.id)
    return profiles.get_profile(found, now=clock.now())


def test_profile_counts_one_person_alone(agent: Agent) -> None:
    ann, bob = _live_in_threads(agent, "ann", threads=3), _live_in_threads(agent, "bob")
    factories.append(agent, "anonymous", "hello")
    found, twin = _profile(ann), _profile(bob)
    assert dict(found.threads) == {"open": 3}
    assert (found.slots, found.turns, found.keys) == (6, 3, 3)
    assert found.counts == {"notes": 3, "assertions": 0, "checkpoints": 3}
    # Each message has a page as well.
    assert (found.pages, found.deleted_pages) == (9, 0)
    rows = Event.objects.filter(thread__subject=ann)
    assert found.events == rows.count()
    stored = rows.aggregate(sum=Sum(Length("payload")))["sum"]
    assert found.bytes == sum(kind.bytes for kind in found.kinds.values()) == stored
    assert found.kinds["slot.appended"].sealed == 6
    assert found.kinds["thread.created"].sealed == 0
    assert (twin.slots, dict(twin.threads)) == (2, {"open": 1})
    assert found.first_seen == rows.earliest("at").at
    spoken = Slot.objects.filter(thread__subject=ann, role="user")
    assert found.last_seen == spoken.latest("at").at
    assert (found.state, found.generation, found.basis) == ("active", 1, None)


def test_subject_who_said_nothing_was_never_seen(agent: Agent) -> None:
    factories.make_thread(agent, "ann-1", user_id="ann")
    factories.make_page(agent, "rules", thread="ann-1")
    ann = subjects.find_or_create(agent.project, "ann")
    assert _profile(ann).first_seen is not None
    assert _profile(ann).last_seen is None
    factories.append(agent, "ann-1", "hello")
    assert _profile(ann).last_seen == Slot.objects.get(thread__subject=ann).at


def test_profile_of_a_subject_without_data_is_zero(agent: Agent) -> None:
    nobody = subjects.find_or_create(agent.project, "nobody")
    found = _profile(nobody)
    assert (found.events, found.bytes, found.pages, found.slots) == (0, 0, 0, 0)
    assert (found.first_seen, found.last_seen, found.retention_due_at) == (None,) * 3
    assert (dict(found.threads), dict(found.kinds), dict(found.levels)) == ({}, {}, {})
    assert not [*found.uses, *found.holds, *found.erasures]


def test_profile_counts_inherited_records_of_a_fork_once(agent: Agent) -> None:
    ann = _live_in_threads(agent, "ann")
    before = _profile(ann)
    acts.fork(agent, "ann-0", "ann-fork")
    after = _profile(ann)
    assert dict(after.threads) == {"open": 2}
    assert (after.slots, after.pages) == (before.slots, before.pages)
    assert after.events == before.events + 1


def test_anonymous_subject_has_a_profile(agent: Agent) -> None:
    factories.append(agent, "t-1", "hello")
    found = _profile(subjects.get_anonymous(agent.project))
    assert found.anonymous
    assert found.slots == 1


@pytest.mark.parametrize("threads", [1, 12])
def test_profile_costs_the_same_for_any_amount_of_data(
    agent: Agent, threads: int, django_assert_num_queries: Any
) -> None:
    ann = _live_in_threads(agent, "ann", threads=threads)
    found = profiles.get_subject(ann.project_id, ann.id)
    with django_assert_num_queries(13):
        profiles.get_profile(found, now=clock.now())


def test_profile_omits_expired_keys(agent: Agent) -> None:
    ann = _live_in_threads(agent, "ann")
    soon = keys.build_setting("soon", 1, Expiry(given=True, ttl=timedelta(seconds=60)))
    factories.run(keys.change_keys(agent=agent, thread="ann-0", changes=(soon,)))
    found = profiles.get_subject(ann.project_id, ann.id)
    now = clock.now()
    assert profiles.get_profile(found, now=now).keys == 2
    later = now + timedelta(minutes=2)
    assert profiles.get_profile(found, now=later).keys == 1


def test_uses_are_told_by_key_and_day(agent: Agent, acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    bob = subjects.find_or_create(acme.id, "bob")
    other = factories.make_agent(acme)
    today = clock.now().date()
    for subject, key, age, reads, writes in (
        (ann, agent.key, 0, 5, 1),
        (ann, agent.key, 1, 2, 0),
        (ann, agent.key, 200, 7, 7),
        (ann, other.key, 1, 1, 1),
        (bob, agent.key, 0, 9, 9),
    ):
        DailyUse.objects.create(
            subject=subject,
            key_id=key,
            day=today - age * DAY,
            reads=reads,
            writes=writes,
        )
    found = _profile(ann)
    totals = {use.prefix: (use.reads, use.writes) for use in found.uses}
    assert totals == {agent.prefix: (14, 8), other.prefix: (1, 1)}
    days = [(use.last_day, use.prefix, use.reads) for use in found.days]
    expected: list[tuple[date, str, int]] = [(today, agent.prefix, 5)]
    yesterday = [(today - DAY, agent.prefix, 2), (today - DAY, other.prefix, 1)]
    assert days == expected + sorted(yesterday, key=lambda each: each[1])


def test_profile_tells_erasures_and_the_retention_due_date(
    agent: Agent, acme: Project
) -> None:
    ann = _live_in_threads(agent, "ann")
    graves.bury_values(ann, [("page", "x" * 30), ("note", "y" * 30)])
    projects.set_retention(acme, idle_days=30)
    found = _profile(ann)
    assert found.tombstones == {"value": 2}
    assert [line.scope for line in found.erasures] == ["record"]
    thread = factories.get_thread(agent, "ann-0")
    assert thread.last_active_at is not None
    assert found.retention_due_at == thread.last_active_at + 30 * DAY


def test_profile_lookup_refuses_foreign_and_erased_subjects(
    agent: Agent, stranger: Agent
) -> None:
    ann = subjects.find_or_create(agent.project, "ann")
    bob = subjects.find_or_create(agent.project, "bob")
    assert profiles.get_subject(agent.project, ann.id) == ann
    assert profiles.get_subject(agent.project, ann.id, bound=ann.id) == ann
    for project, subject, bound in (
        (stranger.project, ann.id, None),
        (agent.project, uuid4(), None),
        (agent.project, ann.id, bob.id),
    ):
        with pytest.raises(NotFoundError):
            profiles.get_subject(project, subject, bound=bound)
    erasure = graves.bury_subject(ann)
    with pytest.raises(SubjectErasedError) as caught:
        profiles.get_subject(agent.project, ann.id)
    assert caught.value.detail == {"erasure": str(erasure.id)}
