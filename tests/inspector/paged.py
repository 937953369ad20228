"""A thread under pressure: evictions, page faults and recorded turns."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

from django.test import Client

from memoryhub.journal import Order, fold_thread, perform
from memoryhub.kernel.commands import AppendSlots, NewSlot
from memoryhub.kernel.context import tokens
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    EvictPage,
    FaultPage,
    NewPage,
    PinPage,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories

#: Number of rounds, of three slots each.
ROUNDS = 6
PROSE = "The parcel went by ship and by train. Nobody knows why it is late again. "


def build_message(role: str, content: str) -> NewSlot:
    body = {"role": role, "content": content}
    slot = NewSlot(
        from_name=role,
        to_name="assistant",
        type=f"chat.{role}",
        content=strict_json.dump_stored(body),
        tokens=tokens.estimate_tokens(content),
    )
    return measuring.measure_slot(slot, body)


def new_page(page_id: str, text: str, **fields: Any) -> NewPage:
    given: dict[str, Any] = {"type": "claim", "modality": "text", **fields}
    content = {"text": text}
    weighed = measuring.measure_page(
        OpenedPage(
            page_id=page_id,
            type=given["type"],
            modality=given["modality"],
            content=content,
        ),
        sent=None,
    )
    payload = json.dumps({"content": content, "hint": "What was agreed."}).encode()
    return NewPage(
        page_id=page_id,
        payload=payload,
        tokens=weighed.tokens,
        cost=weighed.cost,
        bytes=len(text),
        hinted=True,
        **given,
    )


def do(agent: Agent, name: str, command: Any) -> None:
    order = Order(address=agent.address(name), command=command, actor=agent.actor)
    perform(order)


def list_evicted_pages(agent: Agent, name: str) -> list[str]:
    """List the evicted pages, oldest slot first."""
    thread = factories.get_thread(agent, name)
    hot = replay.load_state_at(thread, thread.head_seq).state.paging.hot
    return sorted(hot, key=lambda page_id: int(page_id.partition("-")[2]))


def make_paged(
    agent: Agent,
    name: str = "paged",
    *,
    rounds: int = ROUNDS,
    user_id: str = "ann",
) -> Thread:
    """Make a pinned claim, rounds of talk with a turn each, and one page fault."""
    # 3,200 tokens may be mapped.
    budget: dict[str, Any] = {"budget_tokens": 4_000, "reserved_tokens": 800}
    factories.make_thread(agent, name, user_id=user_id, **budget)
    policy = new_page("policy", "Refunds within 30 days. " * 4)
    do(agent, name, CreatePages(pages=(policy,)))
    do(agent, name, PinPage(page_id="policy"))
    for n in range(rounds):
        ask(agent, name, f"Round {n}: where is it? " + PROSE * 4)
        found = build_message("tool", f'{{"round": {n}, "stops": ["Oslo"]}}')
        answer = build_message("assistant", f"Answer {n}. " + PROSE * 20)
        do(agent, name, AppendSlots(slots=(found, answer)))
    do(agent, name, FaultPage(page_id=list_evicted_pages(agent, name)[0], level=0))
    do(agent, name, FaultPage(page_id="slot-999", level=0))
    ask(agent, name, "And now?")
    return factories.get_thread(agent, name)


def make_restless(agent: Agent, *, exchanges: int) -> Thread:
    """Make exchanges that each fetch one evicted page, which the TLB still knows."""
    factories.make_thread(agent, "restless", user_id="ann", auto_pin_turns=0)
    do(
        agent,
        "restless",
        CreatePages(pages=(new_page("note", "Kept. " * 9, type="artifact"),)),
    )
    for n in range(exchanges):
        ask(agent, "restless", f"And again, {n}?")
        fetch(agent, "restless", "note")
    return factories.get_thread(agent, "restless")


def ask(agent: Agent, name: str, text: str) -> None:
    """Begin an exchange."""
    new = NewTurn(slots=[build_message("user", text)])
    factories.run(turns.begin_turn(agent=agent, thread=name, new=new))


def fetch(agent: Agent, name: str, page_id: str) -> None:
    """Evict a page, then fetch it as the model does."""
    do(agent, name, EvictPage(page_id=page_id))
    do(agent, name, FaultPage(page_id=page_id, level=0))


def state_now(thread: Thread) -> ThreadState:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    return fold_thread(row, row.head_seq).state


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer: Any = client.get(path)
    assert answer.status_code == status, path
    return unescape(answer.content.decode())
