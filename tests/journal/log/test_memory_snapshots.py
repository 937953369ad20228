"""Snapshots of working memory: what they keep is what the fold leads to, and small."""

from __future__ import annotations

import orjson
import pytest

from memoryhub.journal.log import log, snapshots
from memoryhub.kernel import state_json
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state import state as states
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import Difference, verify
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NOON,
    add_notes,
    delete_key,
    forget_checkpoint,
    lasting,
    new_key,
    restore,
    set_key,
    set_keys,
    set_task,
    take,
    travel_to,
)
from tests.oracles.page_acts import make_pages, new_page
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db


def live_in_thread(agent: Agent, thread: str = "t-1") -> None:
    """Make a tree with a joint, branches, automatic checkpoints and working sets."""
    with travel_to(NOON):
        append(agent, thread, "hello")
        set_keys(agent, new_key("a"), new_key("b", "v", lasting(MINUTE)), thread=thread)
        take(agent, "root", thread)
        add_notes(agent, "one", "two", thread=thread)
        set_task(agent, thread, fields={"description": b'"d"'})
        make_pages(agent, new_page("p"), thread=thread)
        take(agent, "left", thread)
        set_key(agent, "c", thread=thread)
        restore(agent, "root", ("keys", "notes", "task", "frames"), thread)
        set_key(agent, "d", thread=thread)
        take(agent, "right", thread)
        forget_checkpoint(agent, "root", thread)
        delete_key(agent, "a", thread)
        add_notes(agent, "three", thread=thread)
    with travel_to(NOON + DAY):
        restore(agent, "left", thread=thread)


@pytest.fixture
def every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a snapshot due with every command."""
    monkeypatch.setattr(snapshots, "is_due", lambda state, *, kept_seq: True)


def folded(thread: Thread, seq: int) -> states.ThreadState:
    """Fold from the first event on, whatever snapshots exist."""
    state = log.build_origin(thread)
    for row in log.iter_rows(thread.id, up_to=seq):
        state = evolve(state, log.to_recorded(row))
    return state


@pytest.mark.parametrize("name", ["t-1", "child"])
def test_memory_snapshot_equals_the_fold(
    agent: Agent, every_event: None, name: str
) -> None:
    live_in_thread(agent)
    if name == "child":
        fork(agent, "t-1", "child")
        lived_on(agent)
    thread = get_thread(agent, name)
    kept = [*Snapshot.objects.filter(thread=thread).order_by("seq")]
    assert len(kept) > 3
    for row in kept:
        opened = snapshots.open_snapshot(row, thread)
        plain = folded(thread, row.seq)
        assert opened.memory == plain.memory
        assert state_json.to_json(opened) == state_json.to_json(plain)
    joints = [*state_of(thread).memory.checkpoints.values()]
    assert [each for each in joints if each.joint]
    assert verify(thread) is None


def lived_on(agent: Agent) -> None:
    with travel_to(NOON + DAY):
        set_key(agent, "e", thread="child")
        restore(agent, "right", ("keys", "frames"), "child")
        take(agent, "own", "child")
        set_key(agent, "a", thread="child")


def test_thread_from_a_snapshot_restores_its_checkpoints(
    agent: Agent, every_event: None
) -> None:
    """Checkpoints in a snapshot can be restored like any."""
    live_in_thread(agent)
    thread = get_thread(agent)
    held = state_of(thread).memory
    Snapshot.objects.exclude(seq=thread.head_seq).delete()
    with travel_to(NOON + 2 * DAY):
        targets: list[int | str] = [*sorted(held.names), *held.automatic]
        for target in targets:
            restore(agent, target, ("keys", "task", "notes", "frames"))
            assert verify(get_thread(agent)) is None


def test_verification_finds_a_snapshot_with_other_memory(
    agent: Agent, every_event: None
) -> None:
    live_in_thread(agent)
    thread = get_thread(agent)
    one, two = Snapshot.objects.filter(thread=thread).order_by("-seq")[:2]
    Snapshot.objects.filter(pk=two.pk).update(sealed=one.sealed)
    found = verify(get_thread(agent))
    assert isinstance(found, Difference)
    rows = Snapshot.objects.filter(pk=two.pk)
    rows.update(sealed=two.sealed)


def size(thread: Thread) -> int:
    return len(orjson.dumps(state_json.to_json(state_of(thread))["memory"]))


def test_checkpoints_cost_their_differences(agent: Agent) -> None:
    """Fifty checkpoints of a thousand keys, one changed between each, cost as one."""
    with travel_to(NOON):
        for start in range(0, 1_000, 200):
            keys = (new_key(f"key-{n:04}") for n in range(start, start + 200))
            set_keys(agent, *keys)
        take(agent)
        thread = get_thread(agent)
        one = size(thread)
        for n in range(50):
            set_key(agent, f"key-{n:04}", n)
            take(agent)
    assert size(thread) < one + 50 * 700
    assert size(thread) < 2 * one


def test_snapshot_waits_for_a_state_that_costs_more(agent: Agent) -> None:
    """Keys, notes and contents of checkpoints count like pages do."""
    append(agent, "t-1", "one")
    state = state_of(get_thread(agent))._replace(seq=1_500)
    assert snapshots.is_due(state, kept_seq=0)
    heavy = state.memory._replace(weight=4_000)
    assert not snapshots.is_due(state._replace(memory=heavy), kept_seq=0)
    assert snapshots.is_due(state._replace(memory=heavy, seq=2_450), kept_seq=0)
