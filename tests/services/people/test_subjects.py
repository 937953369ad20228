from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from memoryhub.errors import SealBrokenError, SubjectErasedError
from memoryhub.journal import writer
from memoryhub.models.keys import DestroyedKey, SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys
from tests.cast.factories import append, make_agent, make_thread, run

pytestmark = pytest.mark.django_db

ANN = "ann.smith1987@example.com"


def reload(subject: Subject) -> Subject:
    return Subject.objects.get(id=subject.id)


def test_subject_is_made_once_and_found_by_its_exact_id(acme: Project) -> None:
    made = subjects.find_or_create(acme.id, ANN)
    assert subjects.find_or_create(acme.id, ANN).id == made.id
    found = subjects.find(acme.id, ANN)
    assert found is not None
    assert found.id == made.id
    for other in (ANN.upper(), ANN + ".", ANN[:-1], "ａnn.smith1987@example.com"):
        assert subjects.find(acme.id, other) is None


def test_user_id_is_sealed_and_opens_again(acme: Project) -> None:
    made = reload(subjects.find_or_create(acme.id, ANN))
    assert made.external_id is not None
    assert made.subject_ref is not None
    assert ANN.encode() not in bytes(made.external_id)
    assert ANN.encode() not in bytes(made.subject_ref)
    assert subjects.open_user_id(made) == ANN


@pytest.mark.parametrize("user_id", ["ü@exämple.com", "用户", "a b c", "\U0001f600"])
def test_any_line_can_be_a_user_id(acme: Project, user_id: str) -> None:
    made = subjects.find_or_create(acme.id, user_id)
    assert subjects.open_user_id(reload(made)) == user_id


def test_common_user_has_unlinkable_subjects_in_two_projects(
    acme: Project, zeta: Project
) -> None:
    here = reload(subjects.find_or_create(acme.id, ANN))
    there = reload(subjects.find_or_create(zeta.id, ANN))
    assert here.id != there.id
    assert here.subject_ref != there.subject_ref
    assert here.external_id != there.external_id


def test_sealed_user_id_of_another_row_does_not_open(acme: Project) -> None:
    ann = reload(subjects.find_or_create(acme.id, ANN))
    bob = reload(subjects.find_or_create(acme.id, "bob"))
    Subject.objects.filter(id=bob.id).update(external_id=ann.external_id)
    with pytest.raises(SealBrokenError):
        subjects.open_user_id(reload(bob))


def test_anonymous_subject_is_one_and_has_no_user_id(acme: Project) -> None:
    nobody = subjects.get_anonymous(acme.id)
    assert subjects.get_anonymous(acme.id).id == nobody.id
    assert subjects.open_user_id(nobody) is None


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erased_subject_is_not_made_again(acme: Project, state: str) -> None:
    ann = subjects.find_or_create(acme.id, ANN)
    Subject.objects.filter(id=ann.id).update(state=state)
    with pytest.raises(SubjectErasedError):
        subjects.find_or_create(acme.id, ANN)
    assert Subject.objects.filter(project=acme, anonymous=False).count() == 1


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erased_subject_makes_no_new_thread(agent: Agent, state: str) -> None:
    ann = subjects.find_or_create(agent.project, ANN)
    bound = make_agent(Project.objects.get(id=agent.project), subject=ann)
    Subject.objects.filter(id=ann.id).update(state=state)
    with pytest.raises(SubjectErasedError):
        append(bound, "t-1", "late")


def test_destroyed_key_means_an_erased_subject(acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, ANN)
    DestroyedKey.objects.using("keys").create(
        subject=ann.id, erasure=ann.id, at=ann.created_at
    )
    SubjectKey.objects.using("keys").filter(subject=ann.id).delete()
    keys.reset()
    with pytest.raises(SubjectErasedError):
        subjects.open_user_id(reload(ann))


def test_threads_of_two_subjects_never_open_with_one_key(agent: Agent) -> None:
    ann = make_thread(agent, "a", user_id=ANN).subject
    bob = make_thread(agent, "b", user_id="bob").subject
    ours = keys.get_subject_keys(ann.id, epoch=ann.epoch)
    theirs = keys.get_subject_keys(bob.id, epoch=bob.epoch)
    assert {ours.dedupe, ours.lookup, ours.terms, ours.values}.isdisjoint(
        {theirs.dedupe, theirs.lookup, theirs.terms, theirs.values}
    )


def test_second_creator_takes_the_existing_subject(acme: Project) -> None:
    first, second = (subjects.prepare_subject(acme.id, ANN) for _ in range(2))
    made = run(subjects.insert_subject_async(first))
    assert made.id == first.id
    assert run(subjects.insert_subject_async(second)).id == first.id
    assert subjects.open_user_id(reload(made)) == ANN
    Subject.objects.filter(id=made.id).update(state="erased")
    with pytest.raises(SubjectErasedError):
        run(subjects.insert_subject_async(second))


@pytest.mark.django_db(transaction=True)
def test_concurrent_creators_make_one_subject(acme: Project) -> None:
    # The pool holds five connections beside the writer's and the test's own.
    start = Barrier(5)

    def make(number: int) -> object:
        start.wait()
        try:
            return subjects.find_or_create(acme.id, ANN).id
        finally:
            connections.close_all()

    writer.start()
    with ThreadPoolExecutor(5) as pool:
        made = set(pool.map(make, range(5)))
    writer.stop()
    (only,) = made
    ann = Subject.objects.get(project=acme, anonymous=False)
    assert ann.id == only
    assert subjects.open_user_id(ann) == ANN
