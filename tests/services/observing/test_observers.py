"""Observers by hand: agents who observe for themselves, operators who steer."""

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
from memoryhub.services.observing.observers import Draft
from memoryhub.services.rebuild import rebuild
from tests.cast.erasings import erase
from tests.cast.factories import append, get_thread, make_thread, run
from tests.cast.forgetting import forget
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db


def create(agent: Agent, begin: int, end: int, epoch: int = 0) -> Any:
    line = make_line("They greeted.", first=begin, end=end)
    draft = Draft(begin=begin, end=end, epoch=epoch, lines=[line])
    return run(observers.create(agent=agent, thread="t-1", draft=draft))


def spoken(agent: Agent) -> None:
    make_thread(agent, "t-1", observe=True)
    append(agent, "t-1", *(f"Number {n}, {'and so on ' * 30}" for n in range(6)))


def test_an_agent_observes_for_itself_and_ours_pauses(agent: Agent) -> None:
    spoken(agent)
    create(agent, 0, 2)
    state = state_of(get_thread(agent))
    assert (state.observing.watermark, state.observing.paused) == (2, True)
    with pytest.raises(RangeTakenError):
        create(agent, 0, 2)
    run(observers.submit(agent=agent, thread="t-1", command=ResumeObserver()))
    run(observers.run(agent=agent, thread="t-1"))
    row = get_thread(agent)
    assert [each.body.method for each in seen.list_waiting(row)] == [
        "agent",
        "extractive",
    ]
    with pytest.raises(NothingToDoError):
        run(observers.run(agent=agent, thread="t-1"))
    observers.perform(row, ActivateObservations(), actor="operator:1")
    assert [each.begin for each in seen.list_log(get_thread(agent))] == [0]
    rebuild(get_thread(agent))


def test_what_was_read_before_an_erasure_is_not_written(agent: Agent) -> None:
    spoken(agent)
    row = get_thread(agent)
    command = observers.observe_next(row)
    erase(get_thread(agent), (3, 3))
    with pytest.raises((StaleEpochError, StaleError)):
        observers.perform(row, command, actor="operator:1")


def test_an_agent_does_not_write_anew_what_was_erased(agent: Agent) -> None:
    spoken(agent)
    create(agent, 0, 2)
    row = get_thread(agent)
    until = Erasure.State.CACHES_PURGED
    forget(row.subject, "record", until=until, thread=row, seq=row.head_seq)
    with pytest.raises(ValueErasedError):
        create(agent, 0, 2, epoch=1)


def test_nobody_knows_whether_an_erased_message_waits_for_results(
    agent: Agent,
) -> None:
    """The newest one is not observed; one that says no log is told as it is."""
    spoken(agent)
    erase(get_thread(agent), (7, 7))
    run(observers.run(agent=agent, thread="t-1"))
    assert state_of(get_thread(agent)).observing.watermark == 5
    with pytest.raises(NothingToDoError):
        run(observers.run(agent=agent, thread="t-1"))
    rebuild(get_thread(agent))


def test_a_thread_that_is_not_observed_says_so(agent: Agent) -> None:
    make_thread(agent, "t-1")
    append(agent, "t-1", "hello", "hello again")
    with pytest.raises(ObserverOffError):
        create(agent, 0, 1)
