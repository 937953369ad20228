"""Turns of an observed thread: each message reaches the model, raw or in the log."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from memoryhub.kernel.observing import formulas
from memoryhub.models.erasures import Erasure
from memoryhub.models.slots import Slot
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from memoryhub.services.threads import slots
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import BegunTurn, NewTurn
from tests.cast import forgetting
from tests.cast.factories import append, get_thread, make_slot, make_thread, run
from tests.cast.forgetting import forget
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db

SETTINGS: dict[str, Any] = {
    "observe": True,
    "budget_tokens": 6_000,
    "reserved_tokens": 800,
    "observe_keep_tokens": 800,
}


def said(n: int) -> dict[str, Any]:
    role = "user" if n % 2 == 0 else "assistant"
    text = f"Number {n} is word{n:04}. " + "It goes on for a while like this. " * 4
    return {"role": role, "content": text}


def talk(agent: Agent, first: int, end: int, thread: str = "t-1") -> BegunTurn:
    """Run turns of two messages each, and return the last."""
    begun = None
    for n in range(first, end, 2):
        said_now = [
            make_slot(said(each), type=f"chat.{said(each)['role']}")
            for each in (n - 1, n)
            if each >= 0
        ]
        new = NewTurn(slots=said_now)
        begun = run(turns.begin_turn(agent=agent, thread=thread, new=new))
    assert begun is not None
    return begun


def request_of(begun: BegunTurn) -> tuple[str, set[int]]:
    """Return a request's log, and the numbers of the raw messages."""
    request = json.loads(begun.request)
    head = request["messages"][0]["content"]
    log = re.search(r"<VM:LOG>\n(.*)\n</VM:LOG>", head, re.DOTALL)
    rest = json.dumps(request["messages"][1:])
    return log[1] if log else "", {int(n) for n in re.findall(r"word(\d{4})", rest)}


def told(log: str) -> set[int]:
    """Return the slots that lines of a log are about."""
    found = set[int]()
    for first, last in re.findall(r"\[(\d+)(?:-(\d+))?\]$", log, re.MULTILINE):
        found |= {*range(int(first), int(last or first) + 1)}
    return found


def test_every_message_reaches_the_model(agent: Agent) -> None:
    make_thread(agent, "t-1", **SETTINGS)
    for end in range(20, 201, 20):
        begun = talk(agent, end - 20, end)
        state = state_of(get_thread(agent))
        log, raw = request_of(begun)
        assert told(log) | raw == {*range(state.slot_count)}
        assert not begun.omitted
        assert formulas.compute_need(state) <= formulas.compute_window(
            state.paging.settings
        )
    assert state_of(get_thread(agent)).observing.cursor > 100
    rebuild(get_thread(agent))


@pytest.mark.engines
def test_bulk_messages_are_in_the_log_or_raw(agent: Agent) -> None:
    make_thread(agent, "t-1", **SETTINGS)
    for begin in range(0, 240, 120):
        batch = [
            make_slot(said(n), type=f"chat.{said(n)['role']}")
            for n in range(begin, begin + 120)
        ]
        run(slots.append(agent=agent, thread="t-1", slots=batch))
    begun = talk(agent, 240, 242)
    log, raw = request_of(begun)
    assert told(log) | raw == {*range(241)}
    assert not begun.omitted
    assert not begun.over_budget
    rebuild(get_thread(agent))


def test_turn_names_messages_that_it_has_no_room_for(agent: Agent) -> None:
    """Name messages of the turn itself, which no observer has seen before."""
    make_thread(agent, "t-1", **SETTINGS)
    long = {**said(0), "content": said(0)["content"] * 30}
    new = NewTurn(slots=[make_slot(long, type="chat.user")] * 64)
    begun = run(turns.begin_turn(agent=agent, thread="t-1", new=new))
    log, _ = request_of(begun)
    state = state_of(get_thread(agent))
    named = {int(each.removeprefix("slot-")) for each in begun.omitted}
    shown = {
        frame.entry.slot
        for frame in state.paging.list_in_context_order()
        if frame.page_id not in begun.omitted
    }
    assert named
    assert told(log) | shown | named == {*range(64)}
    again = run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn(slots=[])))
    assert not again.omitted


def test_turn_observes_anew_where_an_observation_was_erased(agent: Agent) -> None:
    """Accept the erased observation's words again, so that no turn fails."""
    make_thread(agent, "t-1", **SETTINGS)
    talk(agent, 0, 120)
    row = get_thread(agent)
    (entry, *_) = state_of(row).observing.log
    until = Erasure.State.CACHES_PURGED
    forget(row.subject, "record", until=until, thread=row, seq=entry.clock)
    assert state_of(row).observing.list_gaps() == [(entry.begin, entry.end)]
    begun = talk(agent, 120, 150)
    state = state_of(get_thread(agent))
    assert not state.observing.list_gaps()
    log, raw = request_of(begun)
    assert told(log) | raw == {*range(state.slot_count)}


def test_turn_fits_after_an_erasure_brings_messages_back(agent: Agent) -> None:
    """Erase a reflection whose sources would fill the window several times."""
    small = {**SETTINGS, "budget_tokens": 2_000, "observe_keep_tokens": 300}
    make_thread(agent, "t-1", **small)
    talk(agent, 0, 400)
    before = state_of(get_thread(agent))
    assert before.observing.generation > 1
    window = formulas.compute_window(before.paging.settings)
    row = get_thread(agent)
    seq = Slot.objects.get(thread=row, index=200).seq
    forgetting.forget(row.subject, "record", until="tombstoned", thread=row, seq=seq)
    assert state_of(get_thread(agent)).observing.log_tokens > window
    append(agent, "t-1", "What I have got to say now.")
    begun = talk(agent, 402, 420)
    state = state_of(get_thread(agent))
    log, raw = request_of(begun)
    assert told(log) | raw >= {*range(241)}
    assert formulas.compute_need(state) <= window
    rebuild(get_thread(agent))


def test_turn_observes_a_last_message_too_large_to_show(agent: Agent) -> None:
    """Observe the last message when it has no room beside the user's."""
    make_thread(agent, "t-1", **SETTINGS)
    append(agent, "t-1", "Look it up, word0000.")
    long = {"role": "assistant", "content": "word0001 " + "and so on " * 1_400}
    run(
        slots.append(
            agent=agent, thread="t-1", slots=[make_slot(long, type="chat.assistant")]
        )
    )
    asked = {"role": "user", "content": "word0002 " + "and what is " * 600}
    new = NewTurn(slots=[make_slot(asked, type="chat.user")])
    log, raw = request_of(run(turns.begin_turn(agent=agent, thread="t-1", new=new)))
    assert told(log) | raw == {0, 1, 2}
    assert state_of(get_thread(agent)).observing.cursor == 2
