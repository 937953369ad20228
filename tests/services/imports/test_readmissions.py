"""Readmissions: an erased person comes back as a new and empty subject."""

from __future__ import annotations

import pytest

from memoryhub.errors import (
    NotErasedError,
    NotFoundError,
    SubjectErasedError,
    ThreadErasedError,
)
from memoryhub.models import Project, Subject, Thread, Tombstone
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import SubjectKey
from memoryhub.queries.people import profiles
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.imports import readmissions
from memoryhub.services.people import subjects
from tests.cast import factories, graves
from tests.cast.forgetting import forget

pytestmark = [pytest.mark.django_db, pytest.mark.no_replay]

ACTOR = "command"
ERASED = "Ann lives at 14 Rue des Lilas, Lyon."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make a subject with a thread, and a value that a tombstone keeps out."""
    factories.make_thread(agent, "ann-1", user_id="ann")
    found = subjects.find_or_create(agent.project, "ann")
    graves.bury_values(found, [("page", {"text": ERASED})])
    return found


def _count_keys() -> int:
    return SubjectKey.objects.using("keys").count()


@pytest.mark.django_db(transaction=True)
def test_readmitted_subject_is_empty(agent: Agent, ann: Subject) -> None:
    """Readmit after the receipt of the earlier subject's erasure."""
    forget(ann)
    made = readmissions.readmit_subject(agent.project, "ann", actor=ACTOR)
    assert made.id != ann.id
    assert (made.generation, made.state, made.epoch) == (2, "active", 1)
    assert made.tombstones == 0
    assert subjects.open_user_id(made) == "ann"
    found = profiles.get_subject(agent.project, made.id)
    profile = profiles.get_profile(found, now=made.created_at)
    assert (profile.events, profile.bytes, dict(profile.threads)) == (0, 0, {})
    assert (profile.tombstones, profile.erasures) == ({}, ())
    # The user id leads to the new subject, which may hold the erased value.
    assert subjects.find_or_create(agent.project, "ann") == made
    factories.make_thread(agent, "ann-2", user_id="ann")
    factories.make_page(agent, "home", thread="ann-2", text=ERASED)
    assert not Thread.objects.filter(subject=ann).exclude(status="erased").exists()
    (entry,) = AuditEntry.objects.filter(action="subject.readmitted")
    assert entry.target_id == str(made.id)


def test_names_of_erased_threads_stay_dead(agent: Agent, ann: Subject) -> None:
    graves.bury_subject(ann)
    readmissions.readmit_subject(agent.project, "ann", actor=ACTOR)
    with pytest.raises(ThreadErasedError):
        factories.make_thread(agent, "ann-1", user_id="ann")


def test_each_generation_follows_the_one_before(agent: Agent, ann: Subject) -> None:
    for generation in (2, 3, 4):
        graves.bury_subject(subjects.find_or_create(agent.project, "ann"))
        with pytest.raises(SubjectErasedError):
            subjects.find_or_create(agent.project, "ann")
        made = readmissions.readmit_subject(agent.project, "ann", actor=ACTOR)
        assert made.generation == generation
    assert Tombstone.objects.filter(kind="subject").count() == 1


@pytest.mark.parametrize("why", ["unknown", "active", "restricted", "erasing", "twice"])
def test_only_erased_subjects_are_readmitted(
    agent: Agent, stranger: Agent, ann: Subject, why: str
) -> None:
    """Refuse anybody else, and make no subject and no key."""
    user_id = "nobody" if why == "unknown" else "ann"
    if why == "erasing":
        # The user id is free already; the memory is not gone yet.
        graves.bury_subject(ann)
        Subject.objects.filter(id=ann.id).update(state="erasing")
    elif why == "twice":
        graves.bury_subject(ann)
        readmissions.readmit_subject(agent.project, "ann", actor=ACTOR)
    else:
        state = "restricted" if why == "restricted" else "active"
        Subject.objects.filter(id=ann.id).update(state=state)
    counts = Subject.objects.count(), _count_keys()
    with pytest.raises(NotErasedError):
        readmissions.readmit_subject(agent.project, user_id, actor=ACTOR)
    with pytest.raises(NotErasedError):
        readmissions.readmit_subject(stranger.project, "ann", actor=ACTOR)
    assert (Subject.objects.count(), _count_keys()) == counts


def test_concurrent_readmissions_make_one_subject(agent: Agent, ann: Subject) -> None:
    """Prepare two readmissions; the second insert finds the first one's row."""
    graves.bury_subject(ann)
    first, second = (
        readmissions.prepare_readmission(agent.project, "ann") for _ in range(2)
    )
    made = readmissions.insert_readmission(first, ACTOR)
    with pytest.raises(NotErasedError):
        readmissions.insert_readmission(second, ACTOR)
    assert Subject.objects.get(project=agent.project, subject_ref=first.ref) == made


def test_subject_erased_again_meanwhile_is_not_readmitted(
    agent: Agent, ann: Subject
) -> None:
    graves.bury_subject(ann)
    late = readmissions.prepare_readmission(agent.project, "ann")
    graves.bury_subject(readmissions.readmit_subject(agent.project, "ann", actor=ACTOR))
    with pytest.raises(SubjectErasedError):
        readmissions.insert_readmission(late, ACTOR)


def test_bound_key_readmits_its_own_subject_alone(
    agent: Agent, ann: Subject, acme: Project
) -> None:
    bob = subjects.find_or_create(acme.id, "bob")
    graves.bury_subject(ann)
    for user_id in ("ann", "nobody"):
        with pytest.raises(NotFoundError):
            readmissions.prepare_readmission(acme.id, user_id, bound=bob.id)
    made = readmissions.readmit_subject(acme.id, "ann", actor=ACTOR, bound=ann.id)
    assert made.generation == 2
