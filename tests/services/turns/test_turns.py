from __future__ import annotations

import hashlib
import json
from itertools import takewhile
from typing import Any

import pytest

from memoryhub import journal
from memoryhub.errors import (
    BudgetTooSmallError,
    IdempotencyMismatchError,
    NotFoundError,
    NotRecordedError,
    PageErasedError,
)
from memoryhub.journal import KeyedRequest, Order
from memoryhub.journal.texts import newest, texts
from memoryhub.journal.writing.writer import BatchCommitter, writer
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    EvictPage,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import TurnBegan, TurnPacked
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import BegunTurn, NewTurn
from tests.cast.erasings import erase
from tests.cast.factories import append, get_thread, make_slot, make_thread, run
from tests.oracles.page_acts import act, levels_of, make_pages, new_page, new_text
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db

REQUEST = KeyedRequest(key="k", fingerprint=b"turn")


def begin(agent: Agent, *contents: Any, thread: str = "t-1", **given: Any) -> BegunTurn:
    request = given.pop("request", None)
    new = NewTurn(slots=[make_slot(content) for content in contents], **given)
    return run(turns.begin_turn(agent=agent, thread=thread, new=new, request=request))


def reassemble_request(agent: Agent, turn: int, thread: str = "t-1") -> bytes:
    """Reassemble a turn's request, with no text opened beforehand."""
    texts.clear()
    row = get_thread(agent, thread)
    whole = contexts.reassemble_request(row, contexts.get_recorded_turn(row, turn))
    request = contexts.require_request(whole)
    assert whole.verified
    return request


def conversation(agent: Agent, *, turns: int, **limits: Any) -> dict[int, bytes]:
    """Run turns with pages that change and are summarised; return the requests."""
    make_thread(agent, budget_tokens=2_400, reserved_tokens=800, **limits)
    sent = {}
    for n in range(turns):
        begun = begin(agent, f"question {n} " + "with some more words " * (n % 9))
        sent[begun.turn] = begun.request
        make_pages(agent, new_page(f"p-{n}", f"tool result {n} " * 30, hint=f"r{n}"))
        act(agent, WriteLevels(made=levels_of(f"p-{n}", {2: f"result {n}"})))
        if n % 3 == 2:
            act(agent, new_text(f"p-{n - 1}", f"corrected result {n}"))
        append(agent, "t-1", {"role": "assistant", "content": f'answer "{n}"\n'})
    return sent


def test_turn_returns_the_request_that_it_records(agent: Agent) -> None:
    begun = begin(agent, "hello")
    plain = json.loads(begun.request)
    assert plain["messages"][-1] == {"role": "user", "content": "hello"}
    named = [tool["function"]["name"] for tool in plain["tools"]]
    assert named == ["page_fault", "page_search"]
    assert hashlib.sha256(begun.request).hexdigest() == begun.sha256
    assert begun.receipt.get_event(TurnBegan).n == begun.turn == 1
    assert reassemble_request(agent, 1) == begun.request
    packed = Event.objects.get(type="turn.packed")
    # No body holds a plain hash of content.
    assert begun.sha256 not in packed.body
    assert packed.seq == begun.seq


def test_slots_and_turn_are_one_transaction(agent: Agent) -> None:
    make_thread(agent, max_slots=1)
    begin(agent, "one")
    head = get_thread(agent).head_seq
    with pytest.raises(Exception, match="thread_full"):
        begin(agent, "two")
    assert get_thread(agent).head_seq == head


@pytest.mark.parametrize("mode", ["strict", "relaxed", "passive"])
def test_request_with_framing_stays_within_its_budget(agent: Agent, mode: Any) -> None:
    """Count the bytes that are handed out in every turn."""
    for request in conversation(agent, turns=40, auto_pin_turns=1).values():
        assert estimate_tokens(request.decode()) <= 2_400
    for budget in (1_100, 1_500, 2_399, 9_999):
        begun = begin(agent, "and now?", mode=mode, token_budget=budget)
        assert estimate_tokens(begun.request.decode()) <= min(budget, 2_400)
        assert begun.tokens <= min(budget, 2_400)


def test_budget_without_room_for_the_newest_message_is_refused(agent: Agent) -> None:
    append(agent, "t-1", "hello " * 300)
    with pytest.raises(BudgetTooSmallError, match="no_room") as refused:
        begin(agent, token_budget=10)
    least: Any = refused.value.detail["least_tokens"]
    assert refused.value.detail["turn"] == 1
    assert "fits_level" not in refused.value.sentence
    with pytest.raises(BudgetTooSmallError):
        begin(agent, token_budget=least - 1)
    assert begin(agent, token_budget=least).tokens <= least


def test_repeated_turn_request_is_answered_with_the_same_turn(agent: Agent) -> None:
    first = begin(agent, "hello", request=REQUEST)
    append(agent, "t-1", "meanwhile")
    again = begin(agent, "hello", request=REQUEST)
    assert again.receipt.replayed
    assert (again.turn, again.seq, again.request, again.sha256) == (
        first.turn,
        first.seq,
        first.request,
        first.sha256,
    )
    assert (again.included, again.cut, again.omitted) == (
        first.included,
        first.cut,
        first.omitted,
    )
    assert get_thread(agent).turn_count == 1
    assert Event.objects.filter(type="turn.packed").count() == 1
    with pytest.raises(IdempotencyMismatchError):
        begin(agent, "hello", request=KeyedRequest(key="k", fingerprint=b"other"))


@pytest.mark.parametrize("later", [(), ("meanwhile",)])
def test_turn_killed_between_began_and_packed_is_packed_by_its_repeat(
    agent: Agent, later: tuple[str, ...]
) -> None:
    """Pack the turn by its repeat, as of the turn's own commit."""
    twin = begin(agent, "hello", thread="twin")
    order = Order(
        address=agent.address("t-1", birth=agent.build_birth()),
        command=BeginTurn(slots=(make_slot("hello"),)),
        actor=agent.actor,
        request=REQUEST,
    )
    began = journal.perform(order)
    # Pretend that another process goes on from here.
    writer.journal = BatchCommitter()
    with pytest.raises(NotRecordedError):
        contexts.get_recorded_turn(get_thread(agent), 1)
    for content in later:
        append(agent, "t-1", content)
    again = begin(agent, "hello", request=REQUEST)
    assert (again.turn, again.receipt.seq) == (1, began.seq)
    expected = twin.request.replace(b"twin", b"t-1")
    assert again.request == expected
    assert reassemble_request(agent, 1) == expected
    assert get_thread(agent).turn_count == 1
    assert again.seq == get_thread(agent).head_seq
    assert begin(agent, "hello", request=REQUEST).seq == again.seq


def test_two_repeats_at_once_record_one_request(agent: Agent) -> None:
    """Hand out the faster repeat's recorded request from the slower repeat."""
    begun = begin(agent, "hello", request=REQUEST)
    options = PackingOptions(name="t-1", turn=1, mode="strict", token_budget=None)
    late = run(turns._pack_and_record(agent, "t-1", begun.receipt, options))
    assert (late.seq, late.request) == (begun.seq, begun.request)
    assert Event.objects.filter(type="turn.packed").count() == 1


def test_request_reassembles_byte_equal_after_restart_and_rebuild(agent: Agent) -> None:
    sent = conversation(agent, turns=25)
    assert {turn: reassemble_request(agent, turn) for turn in sent} == sent
    rebuild(get_thread(agent))
    writer.journal = BatchCommitter()
    assert {turn: reassemble_request(agent, turn) for turn in sent} == sent
    begin(agent, "on we go")
    assert reassemble_request(agent, 25) == sent[25]


def test_request_reassembles_byte_equal_in_forks(agent: Agent) -> None:
    """Reassemble inherited requests, and requests packed over ancestors' texts."""
    sent = conversation(agent, turns=12)
    fork(agent, "t-1", "child")
    assert {turn: reassemble_request(agent, turn, "child") for turn in sent} == sent
    own = begin(agent, "in the child", thread="child")
    fork(agent, "child", "grandchild")
    deeper = begin(agent, "deeper", thread="grandchild")
    act(agent, new_text("p-11", "of the parent"))
    append(agent, "t-1", "elsewhere")
    rebuild(get_thread(agent, "child"))
    assert reassemble_request(agent, 13, "child") == own.request
    assert reassemble_request(agent, 13, "grandchild") == own.request
    assert reassemble_request(agent, 14, "grandchild") == deeper.request
    for thread in ("t-1", "child"):
        with pytest.raises(NotFoundError):
            contexts.get_recorded_turn(get_thread(agent, thread), 14)


def test_fork_knows_no_request_that_was_packed_after_it(agent: Agent) -> None:
    begun = begin(agent, "hello")
    child = fork(agent, "t-1", "child", seq=begun.receipt.seq)
    assert child.turn_count == 1
    with pytest.raises(NotRecordedError):
        contexts.get_recorded_turn(child, 1)


def test_request_with_an_erased_part_is_410(agent: Agent) -> None:
    """Name the ids of missing pages, and leave other turns as they were."""
    before = begin(agent, "hello")
    make_pages(agent, new_page("a", "a secret"), new_page("b", "stays"))
    with_a = begin(agent, "what is a?")
    assert "a secret" in with_a.request.decode()
    act(agent, DeletePage(page_id="a"))
    row = get_thread(agent)
    whole = contexts.reassemble_request(row, contexts.get_recorded_turn(row, 2))
    assert (whole.missing, whole.request, whole.verified) == (("a",), None, False)
    with pytest.raises(PageErasedError) as refusal:
        contexts.require_request(whole)
    assert refusal.value.detail == {"pages": 1}
    assert reassemble_request(agent, 1) == before.request
    after = begin(agent, "and now?")
    assert "a secret" not in after.request.decode()
    assert "stays" in after.request.decode()
    assert reassemble_request(agent, 3) == after.request


def test_cut_request_without_its_record_is_410(agent: Agent) -> None:
    """Reassemble only a request without cuts, since the sizes of cuts are sealed."""
    make_pages(agent, new_page("a", "word " * 3_000))
    whole, short = begin(agent, "hello"), begin(agent, "and?", token_budget=1_500)
    assert short.cut
    row = get_thread(agent)
    records = Event.objects.filter(thread=row, type="turn.packed")
    erase(row, *((each.seq, each.seq) for each in records))
    found = [
        contexts.reassemble_request(row, contexts.get_recorded_turn(row, n))
        for n in (1, 2)
    ]
    assert [each.request for each in found] == [whole.request, None]
    assert found[1].missing == tuple(cut.page_id for cut in short.cut)


def test_repeat_of_a_turn_with_an_erased_part_is_410(agent: Agent) -> None:
    make_pages(agent, new_page("a", "a secret"))
    begin(agent, "what is a?", request=REQUEST)
    act(agent, DeletePage(page_id="a"))
    with pytest.raises(PageErasedError):
        begin(agent, "what is a?", request=REQUEST)


def test_fork_goes_on_without_a_text_that_its_parent_deleted(agent: Agent) -> None:
    """Keep the page in the fork's working set, and show nothing of the page."""
    make_pages(agent, new_page("a", "a secret"), new_page("b", "stays"))
    fork(agent, "t-1", "child")
    act(agent, DeletePage(page_id="a"))
    begun = begin(agent, "hello", thread="child")
    assert "a secret" not in begun.request.decode()
    assert "stays" in begun.request.decode()
    assert reassemble_request(agent, 1, "child") == begun.request
    assert "a" in state_of(get_thread(agent, "child")).paging.frames


@pytest.mark.parametrize("size", [5, 60])
def test_turn_costs_the_same_statements_at_any_size(
    agent: Agent, size: int, django_assert_max_num_queries: Any
) -> None:
    make_thread(agent, auto_pin_turns=0)
    make_pages(agent, *(new_page(f"p-{n}") for n in range(size)))
    for n in range(size):
        append(agent, "t-1", f"message {n}")
    act(agent, EvictPage(page_id="p-1"))
    begin(agent, "hello")
    with django_assert_max_num_queries(32):
        begin(agent, "again")


def test_prefix_tokens_are_counted_against_the_previous_turn(agent: Agent) -> None:
    first = begin(agent, "hello")
    second = begin(agent, "again")
    prefixes = [event.prefix_tokens for event in list_packed(get_thread(agent))]
    assert prefixes[0] == 0
    common = 0
    for one, other in zip(first.request, second.request, strict=False):
        if one != other:
            break
        common += 1
    assert prefixes[1] is not None
    assert 0 < prefixes[1] <= estimate_tokens(first.request[:common].decode()) + 1


@pytest.mark.parametrize("held", [True, False])
def test_cached_request_has_the_prefix_of_a_reassembled_one(
    agent: Agent, held: bool
) -> None:
    """Compare no request that has lost a text, even with its bytes in a cache."""
    newest.clear()
    make_pages(agent, new_page("a", "a secret"))
    requests = [begin(agent, "hello").request]
    if not held:
        newest.clear()
    requests.append(begin(agent, "again").request)
    kept = newest.list_items() if held else []
    act(agent, DeletePage(page_id="a"))
    assert not newest.list_items()
    # Another process would not have heard of the deletion.
    for key, value in kept:
        newest.put(key, value)
    begin(agent, "and now?")
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(*requests, strict=False))
    common = bytes(one for one, _ in pairs).decode()
    prefixes = [event.prefix_tokens for event in list_packed(get_thread(agent))]
    assert prefixes == [0, estimate_tokens(common), None]


def list_packed(thread: Thread) -> list[TurnPacked]:
    rows = Event.objects.filter(thread=thread, type="turn.packed").order_by("seq")
    return [TurnPacked.model_validate_json(row.body) for row in rows]
