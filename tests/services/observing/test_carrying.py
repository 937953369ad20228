"""Observed threads elsewhere: in a bundle, in a fork, and after a restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import time_machine

from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers
from memoryhub.queries.observing.instructions import list_own_instructions
from memoryhub.queries.observing.observers import ObservationView
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints
from memoryhub.services.observing import observers as acts
from tests.cast import bundled
from tests.cast.erasings import sound
from tests.cast.factories import get_thread, make_agent, make_thread, run
from tests.cast.forgetting import get_subject
from tests.services.acts import fork, state_of
from tests.services.observing.test_extraction import SETTINGS, request_of, talk, told

pytestmark = pytest.mark.django_db


def observed(agent: Agent) -> Thread:
    """Make a log that begins with a reflection, and an observation that waits."""
    make_thread(agent, "t-1", user_id="ann", **SETTINGS)
    command = acts.build_instructing({"observer": "Keep seats.", "reflector": ""})
    run(acts.submit_command(agent=agent, thread="t-1", command=command))
    talk(agent, 0, 140)
    run(acts.reflect_log(agent=agent, thread="t-1"))
    talk(agent, 140, 180)
    run(acts.observe_now(agent=agent, thread="t-1"))
    return get_thread(agent)


def anywhere(views: Sequence[ObservationView]) -> list[ObservationView]:
    """Return the views without the threads in which they were made."""
    return [replace(view, home=None) for view in views]  # type: ignore[arg-type]


def all_of(thread: Thread, seq: int | None = None) -> list[Any]:
    """Return all that is observed of the thread, as readers see it."""
    made = observers.list_observations(thread, seq=seq).items
    return [
        observers.get_observer(thread, seq=seq),
        anywhere(observers.list_log(thread, seq=seq)),
        anywhere(observers.list_waiting(thread, seq=seq)),
        anywhere(made),
        observers.list_generations(thread, seq=seq),
        observers.list_runs(thread, seq=seq),
        state_of(thread, seq).observing,
        [
            (role, each.text)
            for role, each in list_own_instructions(thread, state_of(thread)).items()
        ],
    ]


def test_bundle_takes_observations_along(agent: Agent, zeta: Project) -> None:
    row = observed(agent)
    bundled.take(bundled.export(get_subject(agent, "ann")), zeta)
    other = make_agent(zeta)
    there = get_thread(other)
    assert there.id != row.id
    assert all_of(there) == all_of(row)
    assert observers.list_generations(row)
    with time_machine.travel(clock.now(), tick=False):
        requests = [talk(each, 180, 182).request for each in (agent, other)]
    assert requests[0] == requests[1]
    sound(there)


def test_fork_inherits_the_log_and_observes_on_its_own(agent: Agent) -> None:
    row = observed(agent)
    (generation,) = observers.list_generations(row)
    # Before the reflection was made.
    seq = generation.seq - 2
    child = fork(agent, "t-1", "t-2", seq=seq, **SETTINGS)
    assert observers.list_log(child) == observers.list_log(row, seq=seq)
    assert state_of(child).observing == state_of(row, seq).observing
    assert observers.list_generations(child) == []
    before = all_of(row)
    log, raw = request_of(talk(agent, 140, 160, thread="t-2"))
    assert told(log) | raw == {*range(state_of(child).slot_count)}
    run(acts.reflect_log(agent=agent, thread="t-2"))
    (own,) = observers.list_generations(child)
    assert own.number == 1
    assert own.page_id != generation.page_id
    assert {*generation.replaced} <= {*own.replaced}
    assert all_of(row) == before
    sound(row, child)


def test_restore_brings_frames_back_and_leaves_the_log(agent: Agent) -> None:
    row = observed(agent)
    run(
        checkpoints.take_checkpoint(
            agent=agent, thread="t-1", command=TakeCheckpoint(name="here")
        )
    )
    taken = {*state_of(row).paging.frames}
    talk(agent, 180, 240)
    before = state_of(row)
    assert not taken <= {*before.paging.frames}
    restore = partial(checkpoints.restore_checkpoint, target="here", parts=("frames",))
    run(restore(agent=agent, thread="t-1"))
    after = state_of(row)
    assert {*after.paging.frames} == taken
    assert after.observing == before.observing
    assert after.observing.cursor > 140
    log, raw = request_of(talk(agent, 240, 242))
    assert told(log) | raw == {*range(state_of(row).slot_count)}
    sound(row)
