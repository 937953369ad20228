"""P24: the state at any seq is the same, wherever and however it is folded."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Collection

import orjson
import pytest

from memoryhub import journal
from memoryhub.journal.log import log
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.state_json import to_json
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots, threads
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_project,
    make_slot,
    make_thread,
    run,
)
from tests.harness.instances import Instance

SENDERS = [f"s-{number}" for number in range(40)]


def live_in_thread(agent: Agent, thread: str, *, events: int, seed: int) -> Thread:
    """Make a thread with events of every kind, several snapshots long."""
    chance = random.Random(seed)  # a seed repeats it
    make_thread(agent, thread, labels={"a": "x", "b": 0.5})
    while (row := get_thread(agent, thread)).head_seq < events:
        batch = [
            make_slot(n, from_name=chance.choice(SENDERS), type=f"a.T{n % 30}")
            for n in range(chance.randrange(100, 190))
        ]
        run(slots.append(agent=agent, thread=thread, slots=batch))
        run(threads.close(agent=agent, thread=thread, reason="archived"))
        run(threads.reopen(agent=agent, thread=thread))
        labels = {name: chance.random() for name in chance.sample(SENDERS, 16)}
        run(
            threads.amend(
                agent=agent, thread=thread, scope=ScopeLabels(), labels=labels
            )
        )
    return row


def folds(thread: Thread, seqs: Collection[int]) -> dict[int, bytes]:
    """Return the canonical state after each of these events, by the kernel alone."""
    state, states = log.build_origin(thread), {}
    for row in log.iter_rows(thread.id):
        state = evolve(state, log.to_recorded(row))
        if state.seq in seqs:
            states[state.seq] = dump_plain(to_json(state))
    return states


def dump_plain(plain: object) -> bytes:
    return orjson.dumps(plain)


def asked(thread: Thread, seq: int) -> bytes:
    return dump_plain(to_json(journal.fold_thread(thread, seq).state))


@pytest.mark.promise("P24", load="2,300 events, up to {samples:,} states")
@pytest.mark.django_db
@pytest.mark.parametrize(
    "samples", [16, pytest.param(10_000, marks=pytest.mark.nightly)], ids=str
)
def test_state_at_a_seq_is_the_fold_with_and_without_snapshots(
    agent: Agent, samples: int
) -> None:
    thread = live_in_thread(agent, "t-1", events=2_300, seed=1)
    kept = Snapshot.objects.filter(thread=thread).order_by("seq")
    marks = list(kept.values_list("seq", flat=True))
    assert len(marks) >= 2
    chance = random.Random(2)  # a seed repeats it
    seqs = {1, thread.head_seq, *(mark + n for mark in marks for n in (-1, 0, 1))}
    seqs |= set(chance.sample(range(1, thread.head_seq), min(samples, 2_200)))
    states = folds(thread, seqs)
    for seq in seqs:
        assert asked(thread, seq) == states[seq]
    kept.delete()
    for seq in sorted(seqs)[:: len(seqs) // min(samples, 40)]:
        assert asked(thread, seq) == states[seq]


@pytest.mark.promise("P24", load="a fork at 1,100 events")
@pytest.mark.django_db
def test_fork_of_a_long_thread_folds_like_its_parent(agent: Agent) -> None:
    parent = live_in_thread(agent, "t-1", events=1_200, seed=3)
    command = threads.build_fork(
        parent, 1_100, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    run(threads.fork(agent=agent, name="child", command=command))
    append(agent, "child", *range(200))
    child = get_thread(agent, "child")
    states = folds(child, range(1, child.head_seq + 1, 20))
    with_snapshots = {seq: asked(child, seq) for seq in states}
    Snapshot.objects.all().delete()
    assert {seq: asked(child, seq) for seq in states} == with_snapshots == states


def make_long_thread() -> None:
    """Make a long thread. Runs in an instance."""
    live_in_thread(make_agent(make_project("acme")), "t-1", events=1_300, seed=4)


def print_states() -> None:
    """Print a digest of the states at a few seqs. Runs in an instance."""
    row = Thread.objects.select_related("subject").get(name="t-1")
    text = b"".join(asked(row, seq) for seq in (1, 700, 1_001, row.head_seq))
    Snapshot.objects.all().delete()
    text += b"".join(asked(row, seq) for seq in (1, 700, 1_001, row.head_seq))
    sys.stdout.write(hashlib.sha256(text).hexdigest())


@pytest.mark.promise("P24", load="1,300 events under {seeds} hash seeds")
@pytest.mark.parametrize(
    "seeds", [3, pytest.param(20, marks=pytest.mark.nightly)], ids=str
)
def test_replay_is_the_same_under_any_hash_seed(instance: Instance, seeds: int) -> None:
    instance.call("tests.promises.export.test_replay:make_long_thread")
    digests = {
        instance.call(
            "tests.promises.export.test_replay:print_states", PYTHONHASHSEED=str(n)
        )
        for n in range(seeds)
    }
    assert len(digests) == 1
