"""Observers by hand: agents that observe for themselves, operators that steer."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import (
    NothingToDoError,
    ObserverOffError,
    RangeTakenError,
    StaleEpochError,
    StaleError,
    ValueErasedError,
)
from memoryhub.kernel.observing.lines import make_line
from memoryhub.kernel.observing.observing import ActivateObservations, ResumeObserver
from memoryhub.models.erasures import Erasure
from memoryhub.queries.observing import observers as seen
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers
from memoryhub.services.observing.observers import ObservationDraft
from memoryhub.services.rebuild import rebuild
from tests.cast.erasings import erase
from tests.cast.factories import append, get_thread, make_thread, run
from tests.cast.forgetting import forget
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db


def create(agent: Agent, begin: int, end: int, epoch: int = 0) -> Any:
    line = make_line("They greeted.", first=begin, end=end)
    draft = ObservationDraft(begin=begin, end=end, epoch=epoch, lines=[line])
    return run(observers.create_observation(agent=agent, thread="t-1", draft=draft))


def make_talk(agent: Agent) -> None:
    make_thread(agent, "t-1", observe=True)
    append(agent, "t-1", *(f"Number {n}, {'and so on ' * 30}" for n in range(6)))


def test_observer_pauses_when_an_agent_observes(agent: Agent) -> None:
    make_talk(agent)
    create(agent, 0, 2)
    state = state_of(get_thread(agent))
    assert (state.observing.watermark, state.observing.paused) == (2, True)
    with pytest.raises(RangeTakenError):
        create(agent, 0, 2)
    run(observers.submit_command(agent=agent, thread="t-1", command=ResumeObserver()))
    run(observers.observe_now(agent=agent, thread="t-1"))
    row = get_thread(agent)
    assert [each.body.method for each in seen.list_waiting(row)] == [
        "agent",
        "extractive",
    ]
    with pytest.raises(NothingToDoError):
        run(observers.observe_now(agent=agent, thread="t-1"))
    observers.perform_command(row, ActivateObservations(), actor="operator:1")
    assert [each.begin for each in seen.list_log(get_thread(agent))] == [0]
    rebuild(get_thread(agent))


def test_observation_read_before_an_erasure_is_not_written(agent: Agent) -> None:
    make_talk(agent)
    row = get_thread(agent)
    command = observers.build_next_observation(row)
    erase(get_thread(agent), (3, 3))
    with pytest.raises((StaleEpochError, StaleError)):
        observers.perform_command(row, command, actor="operator:1")


def test_erased_observation_may_not_be_written_again(agent: Agent) -> None:
    make_talk(agent)
    create(agent, 0, 2)
    row = get_thread(agent)
    until = Erasure.State.CACHES_PURGED
    forget(row.subject, "record", until=until, thread=row, seq=row.head_seq)
    with pytest.raises(ValueErasedError):
        create(agent, 0, 2, epoch=1)


def test_newest_message_is_not_observed_when_erased(
    agent: Agent,
) -> None:
    """Leave the newest message unobserved, since its results may still come."""
    make_talk(agent)
    erase(get_thread(agent), (7, 7))
    run(observers.observe_now(agent=agent, thread="t-1"))
    assert state_of(get_thread(agent)).observing.watermark == 5
    with pytest.raises(NothingToDoError):
        run(observers.observe_now(agent=agent, thread="t-1"))
    rebuild(get_thread(agent))


def test_observation_of_an_unobserved_thread_is_refused(agent: Agent) -> None:
    make_thread(agent, "t-1")
    append(agent, "t-1", "hello", "hello again")
    with pytest.raises(ObserverOffError):
        create(agent, 0, 1)
