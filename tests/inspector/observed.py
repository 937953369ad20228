"""A thread whose older messages are observed, in every way that it can be."""

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
    """A log that begins with a reflection, and a chunk that waits."""
    make_thread(agent, NAME, **SETTINGS)
    _talk(agent, 0, 140)
    run(observers.reflect(agent=agent, thread=NAME))
    _talk(agent, 140, 180)
    run(observers.run(agent=agent, thread=NAME))
    return get_thread(agent, NAME)


def _talk(agent: Agent, first: int, end: int) -> None:
    """Turns of twenty messages each."""
    for begin in range(first, end, 20):
        slots = [make_slot(said(n)) for n in range(begin, begin + 20)]
        new = NewTurn(slots=slots)
        run(turns.begin(agent=agent, thread=NAME, new=new))


def fail(agent: Agent) -> None:
    """Nothing came of asking for what is next."""
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


def tear(agent: Agent) -> None:
    """A message is erased, and what the log's last entry said of it: a gap is left."""
    row = get_thread(agent, NAME)
    entry = state_of(row).observing.log[-1]
    slot = row.slots.get(index=entry.begin)
    erase(row, (slot.seq, slot.seq), (entry.clock, entry.clock))
