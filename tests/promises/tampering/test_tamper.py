"""P4: `verify` finds every change behind our back and names its place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from django.db import DatabaseError, connection, transaction

from memoryhub import journal
from memoryhub.kernel.commands import ImportMessages, RunMessage
from memoryhub.kernel.state.events import RunRecorded, ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.verify.verification import Difference, verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast.factories import append, get_thread, make_slot, make_thread, run
from tests.promises.tampering.damages import (
    FORK,
    RUN,
    Damage,
    Damager,
    column_damager,
    flipped,
    orphan,
)

pytestmark = [
    pytest.mark.promise("P4"),
    pytest.mark.django_db,
    pytest.mark.no_replay,
    pytest.mark.timeout(600),
]


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """Make an imported run, labelled, forked and written on; about a hundred events."""
    make_thread(agent, "parent", labels={"a": "x"})
    append(agent, "parent", *range(7))
    row = get_thread(agent, "parent")
    command = threads.build_fork(
        row,
        5,
        scope=ScopeLabels(session="s"),
        labels={"b": 1, "c": True},
        config=ThreadConfig(),
    )
    run(threads.fork(agent=agent, name="t-1", command=command))
    append(agent, "t-1", *range(40))
    run(threads.close(agent=agent, thread="t-1", reason="failed"))
    run(threads.reopen(agent=agent, thread="t-1"))
    append(agent, "t-1", *range(40))
    return get_thread(agent)


@pytest.fixture
def imported(agent: Agent) -> Thread:
    messages = tuple(
        RunMessage(slot=make_slot(number), turn=number % 2 == 1) for number in range(30)
    )
    make_thread(agent, "run")
    journal.perform(
        journal.Order(
            address=agent.address("run"),
            command=ImportMessages(
                after=0,
                messages=messages,
                digest="ab" * 16,
                run=RunRecorded(format="runs", messages=30),
                info=b"{}",
            ),
            actor="import",
        )
    )
    return get_thread(agent, "run")


ROUNDS = pytest.mark.parametrize(
    "rounds", [4, pytest.param(40, marks=pytest.mark.nightly)], ids=str
)


def drop_triggers() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in ("update", "delete"):
            cursor.execute(f"DROP TRIGGER memoryhub_event_{name}{on}")


def reload_thread(thread: Thread) -> Thread:
    return Thread.objects.select_related("subject").get(id=thread.id)


class Undo(Exception):
    """Exception that ends a block so that nothing of it stays."""


@contextmanager
def undone() -> Iterator[None]:
    with suppress(Undo), transaction.atomic():
        yield
        raise Undo


def apply_damage(
    thread: Thread, damage: Damager, seed: str
) -> tuple[Damage, Difference | None] | None:
    """Return the damage and verify's finding, or None if the database refused it."""
    outcome = None
    with suppress(DatabaseError), undone():
        done = damage(reload_thread(thread), random.Random(seed))  # a seed repeats it
        outcome = done, verify(reload_thread(thread))
    return outcome


def find_all(thread: Thread, damagers: dict[str, Damager], rounds: int) -> None:
    """Do every damage so often, and assert that each is found."""
    assert verify(reload_thread(thread)) is None
    drop_triggers()
    missed, misplaced, found = [], [], []
    for name, damage in damagers.items():
        for number in range(rounds):
            outcome = apply_damage(thread, damage, f"{name} {number}")
            if outcome is None:
                continue
            done, difference = outcome
            found.append(name)
            if difference is None:
                missed.append((number, done.what))
            elif done.seq is not None and difference.seq != done.seq:
                misplaced.append((number, done.what, difference))
    assert missed == []
    assert misplaced == []
    # A damage that the database never lets through has proved nothing of verify.
    assert set(damagers) - set(found) == set()
    assert verify(reload_thread(thread)) is None


@pytest.mark.promise("P4", load="{rounds} × each damage to a fork")
@ROUNDS
def test_every_damage_to_a_fork_is_found(thread: Thread, rounds: int) -> None:
    find_all(thread, FORK, rounds)


@pytest.mark.promise("P4", load="{rounds} × each damage to an imported run")
@ROUNDS
def test_every_damage_to_an_imported_run_is_found(
    imported: Thread, rounds: int
) -> None:
    find_all(imported, RUN, rounds)


def test_fork_is_bound_to_what_its_parent_was(thread: Thread) -> None:
    """The parent's history, changed consistently, is not the one that was forked."""
    assert thread.parent is not None
    drop_triggers()
    row = thread.parent.events.get(seq=5)
    thread.parent.events.filter(seq=5).update(chain=flipped(bytes(row.chain), CHANCE))
    difference = verify(reload_thread(thread))
    assert difference == Difference(seq=1, what="parent_chain")


CHANCE = random.Random(5)  # a seed repeats it


@pytest.mark.parametrize("name", ["parent", "t-1"])
@pytest.mark.parametrize("column", ["project_id", "subject_id"])
def test_moved_thread_is_found(
    agent: Agent, thread: Thread, stranger: Agent, name: str, column: str
) -> None:
    """The thread is moved to another project or subject, who would be shown it."""
    others = {"project_id": stranger.project, "subject_id": stranger.anonymous}
    row = get_thread(agent, name)
    Thread.objects.filter(id=row.id).update(**{column: others[column]})
    ThreadLabel.objects.filter(thread=row).update(project=stranger.project)
    assert verify(reload_thread(row)) is not None


def test_fork_of_nothing_keeps_its_parent(agent: Agent) -> None:
    """Without an inherited slot, only the journal knows the fork's parent."""
    make_thread(agent, "parent")
    row = get_thread(agent, "parent")
    command = threads.build_fork(
        row, 1, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    run(threads.fork(agent=agent, name="t-1", command=command))
    child = get_thread(agent)
    assert verify(child) is None
    orphan(child, CHANCE)
    assert verify(reload_thread(child)) is not None


@pytest.mark.parametrize("column", ["sealed", "counters"])
def test_damaged_snapshot_is_found(agent: Agent, column: str) -> None:
    make_thread(agent)
    for _ in range(6):
        append(agent, "t-1", *range(190))
    row = get_thread(agent)
    assert Snapshot.objects.filter(thread=row).count() == 1
    assert verify(row) is None
    column_damager(Snapshot, column)(row, CHANCE)
    assert verify(reload_thread(row)) is not None
