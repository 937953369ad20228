from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from memoryhub import journal
from memoryhub.errors import (
    NotFoundError,
    Refusal,
    ScopeConflictError,
    SubjectConflictError,
    ThreadErasedError,
)
from memoryhub.kernel.commands import RetireThread
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import threads
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_thread,
    run,
)
from tests.cast.forgetting import forget
from tests.services.acts import amend, fork, list_contents

pytestmark = pytest.mark.django_db


# Creation and lookup


def test_thread_is_made_as_asked_and_begins_with_an_event(agent: Agent) -> None:
    scope = ScopeLabels(agent_type="airline", agent_instance="a-1", session="s-1")
    made = make_thread(agent, scope=scope, labels={"b": 2, "a": "x"}, max_slots=9)
    assert (made.agent_type, made.agent_instance, made.session) == (
        "airline",
        "a-1",
        "s-1",
    )
    assert made.labels == '{"a":"x","b":2}'
    assert made.config == '{"blocks":false,"max_slots":9}'
    assert (made.head_seq, made.slot_count, made.status) == (1, 0, "open")
    assert [event.type for event in made.events.all()] == ["thread.created"]


def test_repeated_thread_creation_writes_nothing(agent: Agent) -> None:
    first = make_thread(agent, labels={"a": "x"}, max_slots=9)
    again = make_thread(agent, max_slots=3, labels={"b": "y"})
    assert again.id == first.id
    assert (again.head_seq, again.head_hash) == (1, first.head_hash)
    assert (again.config, again.labels) == (first.config, first.labels)


@pytest.mark.parametrize("level", [field.name for field in fields(ScopeLabels)])
def test_scope_level_is_filled_once_and_never_changed(agent: Agent, level: str) -> None:
    make_thread(agent)
    make_thread(agent, scope=ScopeLabels(**{level: "one"}))
    make_thread(agent, scope=ScopeLabels(**{level: "one"}))
    assert get_thread(agent).head_seq == 2
    with pytest.raises(ScopeConflictError) as refusal:
        make_thread(agent, scope=ScopeLabels(**{level: "two"}))
    assert refusal.value.detail == {"level": level}
    with pytest.raises(ScopeConflictError):
        amend(agent, scope=ScopeLabels(**{level: "two"}))
    assert getattr(get_thread(agent), level) == "one"


def test_thread_never_changes_its_subject(agent: Agent) -> None:
    ann = make_thread(agent, user_id="ann")
    with pytest.raises(SubjectConflictError):
        make_thread(agent, user_id="bob")
    make_thread(agent, user_id="ann")
    make_thread(agent)
    assert get_thread(agent).subject_id == ann.subject_id
    assert get_thread(agent).head_seq == 1


def test_bound_key_makes_threads_of_its_subject_and_of_no_other(
    acme: Project,
) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    bound = make_agent(acme, subject=ann)
    assert make_thread(bound, "a").subject_id == ann.id
    append(bound, "b", "by writing")
    assert get_thread(bound, "b").subject_id == ann.id
    with pytest.raises(NotFoundError):
        make_thread(bound, "c", user_id="bob")


def test_thread_lookup_is_exact(agent: Agent) -> None:
    for name in ("t-1", "t-10", "T-1", "t-1.", "t_1"):
        append(agent, name, name)
    for name in ("t-1", "t-10", "T-1", "t-1.", "t_1"):
        assert list_contents(get_thread(agent, name)) == [name]


# Changes, closing and retirement


def test_labels_are_replaced_as_a_whole(agent: Agent) -> None:
    made = make_thread(agent, labels={"a": "x", "b": 1})
    amend(agent, labels={"c": True, "b": 0.5})
    rows = ThreadLabel.objects.filter(thread=made).order_by("name")
    assert [(row.name, row.value) for row in rows] == [("b", "0.5"), ("c", "true")]
    amend(agent, labels={})
    assert not ThreadLabel.objects.filter(thread=made).exists()
    assert get_thread(agent).labels == "{}"


def test_unchanged_thread_settings_write_nothing(agent: Agent) -> None:
    make_thread(agent, labels={"a": "x"}, max_slots=5)
    amend(agent, labels={"a": "x"}, config={"max_slots": 5})
    amend(agent)
    run(threads.reopen(agent=agent, thread="t-1"))
    assert get_thread(agent).head_seq == 1


def test_closed_thread_can_be_forked(agent: Agent) -> None:
    append(agent, "t-1", "a")
    run(threads.close(agent=agent, thread="t-1", reason="completed"))
    child = fork(agent, "t-1", "child")
    assert child.status == "open"
    append(agent, "child", "b")
    assert list_contents(get_thread(agent, "child")) == ["a", "b"]


def retire(agent: Agent, name: str = "t-1") -> None:
    journal.perform(
        journal.Order(
            address=journal.Address(project=agent.project, name=name),
            command=RetireThread(policy_days=30, idle_days=31),
            actor="worker:retention",
        )
    )


@pytest.mark.parametrize("how", ["retired", "erased"])
def test_retired_or_erased_thread_name_is_never_reused(agent: Agent, how: str) -> None:
    """Refuse the name to every command that could make a thread.

    The row keeps a retired thread's name, the tombstone an erased thread's.
    """
    append(agent, "t-1", "a")
    append(agent, "t-2", "a")
    row = get_thread(agent)
    if how == "retired":
        retire(agent)
    else:
        forget(row.subject, "thread", thread=row, until="rows_erased")
    parent = get_thread(agent, "t-2")
    command = threads.build_fork(
        parent, 1, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    attempts: list[Callable[[], object]] = [
        lambda: append(agent, "t-1", "b"),
        lambda: make_thread(agent),
        lambda: amend(agent),
        lambda: run(threads.close(agent=agent, thread="t-1", reason="completed")),
        lambda: run(threads.reopen(agent=agent, thread="t-1")),
        lambda: run(threads.fork(agent=agent, name="t-1", command=command)),
    ]
    for attempt in attempts:
        with pytest.raises(ThreadErasedError):
            attempt()
    assert Thread.objects.count() == 2
    assert Thread.objects.filter(name="t-1").count() == (how == "retired")
    assert Thread.objects.get(id=row.id).slot_count == 1
    make_thread(agent, "t-3")


def test_refused_write_leaves_a_thread_as_it_was(agent: Agent) -> None:
    append(agent, "t-1", "a")
    run(threads.close(agent=agent, thread="t-1", reason="failed"))
    before = Thread.objects.values().get(name="t-1")
    for attempt in (
        lambda: append(agent, "t-1", "b"),
        lambda: append(agent, "t-1", "b", if_match=1),
        lambda: amend(agent, if_match=1),
        lambda: fork(agent, "t-1", "t-1"),
    ):
        with pytest.raises(Refusal):
            attempt()
    assert Thread.objects.values().get(name="t-1") == before
