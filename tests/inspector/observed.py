"""A thread whose older messages are observed: logs, chunks, gaps, failures."""

from __future__ import annotations

from datetime import timedelta

from memoryhub.journal import Address, Order, perform
from memoryhub.kernel.observing.observing import FailObserver
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast.erasings import erase
from tests.cast.factories import get_thread, make_slot, make_thread, run
from tests.services.acts import state_of
from tests.services.observing.test_extraction import SETTINGS, said

NAME = "observed"
PAGE = f"/p/acme/threads/{NAME}/observer"


def make_observed(agent: Agent) -> Thread:
    """Make a log that begins with a reflection, and a chunk that waits."""
    make_thread(agent, NAME, **SETTINGS)
    _append_turns(agent, 0, 140)
    run(observers.reflect_log(agent=agent, thread=NAME))
    _append_turns(agent, 140, 180)
    run(observers.observe_now(agent=agent, thread=NAME))
    return get_thread(agent, NAME)


def _append_turns(agent: Agent, first: int, end: int) -> None:
    """Append turns of twenty messages each."""
    for begin in range(first, end, 20):
        slots = [make_slot(said(n)) for n in range(begin, begin + 20)]
        new = NewTurn(slots=slots)
        run(turns.begin_turn(agent=agent, thread=NAME, new=new))


def fail_observer(agent: Agent) -> None:
    """Record a failed request for the next observation."""
    seen = state_of(get_thread(agent, NAME)).observing
    command = FailObserver(
        role="observer",
        begin=seen.watermark,
        end=seen.watermark + 2,
        epoch=seen.epoch,
        failure="no_json",
        retry_at=clock.now() + timedelta(minutes=5),
        tokens_in=900,
        tokens_out=30,
        host="model.example",
    )
    address = Address(project=agent.project, name=NAME)
    perform(Order(address=address, command=command, actor="worker"))


def erase_with_observation(agent: Agent) -> None:
    """Erase a message and the last log entry about it, which leaves a gap."""
    row = get_thread(agent, NAME)
    entry = state_of(row).observing.log[-1]
    slot = row.slots.get(index=entry.begin)
    erase(row, (slot.seq, slot.seq), (entry.clock, entry.clock))
