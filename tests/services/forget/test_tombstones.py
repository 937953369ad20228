"""Lifted tombstones: values that may be written again, and names that never may."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from memoryhub.errors import NotFoundError, SubjectErasedError, ValueErasedError
from memoryhub.models import Project, Subject, Tombstone
from memoryhub.models.access.audit import AuditEntry
from memoryhub.queries import tombstones as listed
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import tombstones
from memoryhub.services.people import subjects
from tests.api.client import Client, run
from tests.cast import factories, graves

pytestmark = pytest.mark.django_db

ACTOR = "command"
ERASED, OTHER = "Ann lives at 14 Rue des Lilas.", "Ann moved to 3 Place Bellecour."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "t-1", user_id="ann")
    found = subjects.find_or_create(agent.project, "ann")
    graves.bury_values(found, [("page", {"text": ERASED}), ("note", OTHER)])
    return found


def test_lifted_value_may_be_written_again(agent: Agent, ann: Subject) -> None:
    with pytest.raises(ValueErasedError) as caught:
        factories.make_page(agent, "home", text=ERASED)
    stone = Tombstone.objects.get(of="page")
    assert caught.value.detail["tombstone"] == str(stone.id)
    tombstones.lift_tombstone(stone.id, actor=ACTOR)
    factories.make_page(agent, "home", text=ERASED)
    with pytest.raises(ValueErasedError):
        factories.make_page(agent, "other", text=OTHER)
    ann.refresh_from_db()
    assert ann.tombstones == 1
    (entry,) = AuditEntry.objects.filter(action="tombstone.lifted")
    assert entry.target_id == str(stone.id)


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "look_up", "description": ERASED.upper()},
        {"name": "look_up", "parameters": {"properties": {"a": {"const": ERASED}}}},
        {"name": "look_up", "parameters": {ERASED: {}}},
        {"name": "ann_lives_at_14_rue_des_lilas"},
    ],
)
def test_erased_value_is_refused_as_a_tool(
    agent: Agent, ann: Subject, tool: dict[str, Any]
) -> None:
    graves.bury_values(ann, [("key", "ann_lives_at_14_rue_des_lilas")])
    client = Client(key=factories.make_key(Project.objects.get())[1])
    turn = {"items": [], "tools": [tool]}
    for method, at, body in (
        ("PUT", "/tools", {"items": [tool]}),
        ("POST", "/turns", turn),
    ):
        answer = run(client.send(method, f"/threads/t-1{at}", body))
        assert (answer.status, answer.code) == (410, "value_erased")


def test_last_lifted_tombstone_leaves_a_count_of_zero(ann: Subject) -> None:
    for stone in Tombstone.objects.all():
        tombstones.lift_tombstone(stone.id, actor=ACTOR)
    ann.refresh_from_db()
    assert ann.tombstones == 0
    with pytest.raises(NotFoundError):
        tombstones.lift_tombstone(stone.id, actor=ACTOR)


@pytest.mark.no_replay
def test_tombstones_of_threads_and_subjects_are_not_lifted(
    agent: Agent, ann: Subject
) -> None:
    thread = factories.make_thread(agent, "t-2", user_id="ann")
    graves.bury_thread(thread)
    name = Tombstone.objects.get(kind="thread")
    for stone in (name.id, uuid4()):
        with pytest.raises(NotFoundError):
            tombstones.lift_tombstone(stone, actor=ACTOR)
    graves.bury_subject(ann)
    for stone in Tombstone.objects.exclude(kind="value").values_list("id", flat=True):
        with pytest.raises(NotFoundError):
            tombstones.lift_tombstone(stone, actor=ACTOR)
    # A value's tombstone of an erased subject is not lifted either.
    value = Tombstone.objects.filter(kind="value")[0]
    with pytest.raises(SubjectErasedError):
        tombstones.lift_tombstone(value.id, actor=ACTOR)


def test_tombstone_lists_tell_subject_and_kind_but_no_value(
    agent: Agent, zeta: Project, ann: Subject
) -> None:
    bob = subjects.find_or_create(agent.project, "bob")
    graves.bury_values(bob, [("key", {"home": [ERASED, OTHER]})])
    project = agent.project
    assert listed.count_tombstones(project) == {"value": 3}
    assert listed.count_tombstones(project, subject=ann.id) == {"value": 2}
    first = listed.list_tombstones(project, limit=2)
    rest = listed.list_tombstones(project, limit=2, after=first.next)
    lines = [*first.items, *rest.items]
    assert lines[0].of == "key"
    assert {line.of for line in lines} == {"key", "page", "note"}
    assert rest.next is None
    assert len(listed.list_tombstones(project, subject=bob.id).items) == 1
    assert listed.list_tombstones(project, kind="thread").items == ()
    assert listed.list_tombstones(zeta.id).items == ()
    assert listed.get_tombstone(project, lines[0].id) == lines[0]
    with pytest.raises(NotFoundError):
        listed.get_tombstone(zeta.id, lines[0].id)
