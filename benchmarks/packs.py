"""Requests packed: runs inside an instance, on a thread of the sample's messages."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice

from benchmarks import messages
from benchmarks.hubs import PROJECT
from memoryhub.journal import Order, perform
from memoryhub.journal.texts import texts
from memoryhub.kernel.commands import AppendSlots, NewSlot
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.turns import contexts
from memoryhub.vault.keys import keyring
from tests.cast import factories

NAME = "packed"


def measure(*, frames: int, rounds: int) -> None:
    """Print the CPU seconds of each round, with the texts at hand and without."""
    keyring.prepare(empty=False)
    thread = _thread(frames)
    state = replay.load_state_at(thread, thread.head_seq).state
    assert len(state.paging.frames) == frames
    asked = PackingOptions(name=NAME, turn=state.turn_count)

    def pack() -> int:
        return contexts.pack_request(thread, state, asked, before=None).tokens

    tokens = pack()
    warm, cold = list[float](), list[float]()
    for _ in range(rounds):
        warm.append(_timed(pack))
        texts.clear()
        cold.append(_timed(pack))
    sys.stdout.write(json.dumps({"tokens": tokens, "warm": warm, "cold": cold}))


def _timed(work: Callable[[], int]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _thread(frames: int) -> Thread:
    """Make a thread of messages of users, agents and tools, all of them mapped."""
    agent = factories.make_agent(Project.objects.get(slug=PROJECT))
    said = (m for m in cycle(messages.messages()) if m["role"] != "system")
    for message in islice(said, frames):
        command = AppendSlots(slots=(_slot(message),))
        address = agent.address(NAME, birth=agent.build_birth())
        perform(Order(address=address, command=command, actor=agent.actor))
    order = Order(address=agent.address(NAME), command=BeginTurn(), actor=agent.actor)
    perform(order)
    return factories.get_thread(agent, NAME)


def _slot(message: messages.Message) -> NewSlot:
    return factories.make_slot(message, type=f"chat.{message['role']}")
