"""Messages that carry a page's text: erased and hidden with the page."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.paging import pages as writing
from memoryhub.services.turns.turns import NewTurn, begin_turn
from tests.cast import factories
from tests.cast.factories import make_slot, run
from tests.cast.forgetting import forget, get_subject
from tests.oracles.loops import asks, brings
from tests.oracles.memory_acts import restore, take
from tests.oracles.paging import build_prose
from tests.services import acts

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = f"The secret is 4711. {build_prose(200)}"
CALL = asks("call_1", "note")


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> None:
    """Fetch a page, and append the call and its result as an agent's framework does."""
    factories.make_thread(agent, user_id="ann", recall="off")
    factories.make_page(agent, "note", text=TEXT, map=False)
    take(agent, name="before")
    question = NewTurn(slots=[make_slot("What is the secret?")])
    run(begin_turn(agent=agent, thread="t-1", new=question))
    (sent,) = CALL["tool_calls"]
    message = run(page_faults.answer_call(agent=agent, thread="t-1", sent=sent))
    assert TEXT in message["content"]
    slots = [make_slot(CALL, role="assistant"), make_slot(message, role="tool")]
    run(begin_turn(agent=agent, thread="t-1", new=NewTurn(slots=slots)))


def payloads() -> list[bool]:
    """List for each slot whether its payload is there."""
    seqs = Slot.objects.order_by("index").values_list("seq", flat=True)
    own = Event.objects.filter(thread__name="t-1", seq__in=[*seqs])
    rows = {row.seq: row.payload for row in own}
    return [rows[seq] is not None for seq in seqs]


def seq_of_the_page() -> int:
    return Event.objects.get(type=PageCreated.event_type).seq


def test_carrier_names_the_page_as_its_source(agent: Agent) -> None:
    (row,) = Derivation.objects.all()
    assert row.source_seq == seq_of_the_page()
    assert row.derived_seq == Slot.objects.get(index=2).seq
    assert {*acts.paging(agent).frames} == {"slot-0", "note"}


def delete(agent: Agent) -> None:
    run(writing.submit_command(agent, "t-1", DeletePage(page_id="note")))


def erase(agent: Agent) -> None:
    thread = factories.get_thread(agent)
    forget(get_subject(agent, "ann"), "record", thread=thread, seq=seq_of_the_page())


def go_back(agent: Agent) -> None:
    """Restore the checkpoint before the fetch, which leaves the page's text."""
    restore(agent, "before", parts=("frames",))


@pytest.mark.parametrize(
    ("go", "kept"), [(delete, False), (erase, False), (go_back, True)]
)
def test_carrier_goes_with_its_page(
    agent: Agent, go: Callable[[Agent], None], *, kept: bool
) -> None:
    """Delete, erase or unmap the page; the fork's carrier goes with the page too."""
    acts.fork(agent, "t-1", "t-2")
    assert stands(agent, "t-1") == stands(agent, "t-2") == (True, True)
    go(agent)
    assert payloads() == [True, True, kept]
    assert stands(agent, "t-1") == (False, False)
    assert verify(factories.get_thread(agent)) is None
    assert stands(agent, "t-2") == (kept, kept)
    assert verify(factories.get_thread(agent, "t-2")) is None


def stands(agent: Agent, name: str) -> tuple[bool, bool]:
    """Return whether the next request shows the page, and a call that fetched it."""
    begun = run(begin_turn(agent=agent, thread=name, new=NewTurn()))
    messages = json.loads(begun.request)["messages"]
    calls = [call for each in messages for call in each.get("tool_calls") or ()]
    fetches = [each for each in calls if each["function"]["name"] == "page_fault"]
    return any(TEXT in (each["content"] or "") for each in messages), bool(fetches)


def test_carrier_in_a_fork_is_hidden_with_its_page(agent: Agent) -> None:
    acts.fork(agent, "t-1", "t-2")
    run(writing.submit_command(agent, "t-2", DeletePage(page_id="note")))
    # The fork only hides messages of its parent.
    assert payloads() == [True, True, True]
    assert stands(agent, "t-2") == (False, False)
    assert stands(agent, "t-1") == (True, True)
    assert verify(factories.get_thread(agent, "t-2")) is None


def test_result_of_another_call_is_an_ordinary_page(agent: Agent) -> None:
    other = make_slot(brings("call_2", "It rains."), role="tool")
    run(begin_turn(agent=agent, thread="t-1", new=NewTurn(slots=[other])))
    assert "slot-3" in acts.paging(agent).frames
