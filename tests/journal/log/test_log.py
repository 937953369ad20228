"""Folding of inherited history: once, however many threads are verified together."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import CorruptError
from memoryhub.journal.log import log
from memoryhub.journal.log.log import Origins
from memoryhub.kernel.replay import RecordedEvent, evolve
from memoryhub.kernel.state.state import MAX_FORK_DEPTH, ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

#: Events of each thread of a chain: what made it, and its slots.
EACH = 4


def chain_of_forks(agent: Agent, *, depth: int) -> list[Thread]:
    """Make a chain of forks, the oldest first, each forked at its parent's head."""
    append(agent, "f-0", *range(EACH - 1))
    for number in range(1, depth + 1):
        fork(agent, f"f-{number - 1}", f"f-{number}")
        append(agent, f"f-{number}", *range(EACH - 1))
    return [get_thread(agent, f"f-{number}") for number in range(depth + 1)]


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[UUID, int]]:
    """Note thread and seq of each event that is folded for a fork's origin."""
    events: list[tuple[UUID, int]] = []

    def count_fold(state: ThreadState, recorded: RecordedEvent) -> ThreadState:
        events.append((state.id, recorded.seq))
        return evolve(state, recorded)

    monkeypatch.setattr(log, "evolve", count_fold)
    return events


@pytest.mark.parametrize("words", [("verify", "--all"), ("rebuild",)])
def test_chain_of_forks_is_folded_once(
    agent: Agent, folded: list[tuple[UUID, int]], words: tuple[str, ...]
) -> None:
    """Later forks do not fold the chain again."""
    threads = chain_of_forks(agent, depth=MAX_FORK_DEPTH)
    folded.clear()
    call_command(*words, verbosity=0)
    ancestors = [(thread.id, seq) for thread in threads[:-1] for seq in range(1, 5)]
    assert sorted(folded) == sorted(ancestors)


def test_each_additional_fork_costs_the_same_queries(agent: Agent) -> None:
    threads = chain_of_forks(agent, depth=24)

    def queries(count: int) -> int:
        origins = Origins()
        with CaptureQueriesContext(connection) as captured:
            for thread in threads[:count]:
                assert verify(thread, origins=origins) is None
        return len(captured)

    assert queries(25) - queries(17) == queries(17) - queries(9)


def test_verification_is_independent_of_thread_order(
    agent: Agent, folded: list[tuple[UUID, int]]
) -> None:
    threads = chain_of_forks(agent, depth=8)
    folded.clear()
    origins = Origins()
    for thread in reversed(threads):
        assert verify(thread, origins=origins) is None
    assert len(folded) == len(set(folded)) == 8 * EACH


def test_inherited_state_is_as_of_the_fork(agent: Agent) -> None:
    """Forks at several seqs of one thread do not take each other's states."""
    append(agent, "t-1", *range(9))
    forks = [fork(agent, "t-1", f"f-{seq}", seq=seq) for seq in (2, 10, 5)]
    origins = Origins()
    for row in [*forks, *forks]:
        assert row.fork_seq is not None
        state = log.build_origin(row, origins=origins)
        assert state == log.build_origin(row)
        assert state.slot_count == row.fork_seq - 1


def test_kept_fork_origins_are_limited(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit an ancestor is folded again, with the same result."""
    monkeypatch.setattr(log, "KEPT", 2)
    origins = Origins()
    for thread in chain_of_forks(agent, depth=6):
        assert verify(thread, origins=origins) is None
        assert len(origins._kept.list_items()) <= 2


def test_ancestor_that_is_missing_is_noticed(agent: Agent) -> None:
    append(agent, "t-1", "a")
    row = fork(agent, "t-1", "f")
    # Never stored: the constraint would hold it back.
    row.parent_id = UUID(int=1)
    with pytest.raises(CorruptError):
        log.build_origin(row, origins=Origins())
