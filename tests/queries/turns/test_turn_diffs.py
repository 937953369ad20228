from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts, turn_diffs
from memoryhub.queries.turns import turns as listing
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.inspector.paged import ROUNDS, build_message, do, make_paged
from tests.services.acts import fork

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_turn_diff_has_a_reason_for_every_change(paged: Thread) -> None:
    kinds = set()
    for base, turn in combinations(range(1, paged.turn_count + 1), 2):
        found = turn_diffs.get_diff(paged, turn, base=base)
        assert sum(change.delta for change in found.changes) == found.delta
        for change in found.changes:
            kinds.add(change.kind)
            if change.kind == "unchanged" and not change.moved:
                continue
            assert change.reason is not None
            row = Event.objects.get(thread_id=paged.id, seq=change.reason.seq)
            assert row.type == change.reason.type
            assert found.base.seq < row.seq <= found.now.seq
            assert row.page in (change.page_id, None)
    assert {"entered", "left", "unchanged"} <= kinds


def test_turn_diff_equals_the_difference_of_the_requests(agent: Agent) -> None:
    """The request sets are those of two requests, whatever their budgets left out."""
    thread = make_paged(agent)
    for budget in (1_000, 2_000, None, 1_200):
        new = NewTurn(token_budget=budget)
        factories.run(turns.begin_turn(agent=agent, thread="paged", new=new))
    thread, kinds = factories.get_thread(agent, "paged"), set[str]()
    read = {n: read_back(thread, n) for n in range(1, thread.turn_count + 1)}
    for (base, before), (turn, now) in combinations(read.items(), 2):
        changes = turn_diffs.get_diff(thread, turn, base=base).changes
        kept = {each.page_id for each in changes if each.kind != "entered"}
        assert kept == before.keys()
        assert {each.page_id for each in changes if each.kind != "left"} == now.keys()
        for each in changes:
            kinds.add(each.kind)
            if each.kind in LONGER:
                longer = now[each.page_id] - before[each.page_id]
                assert (longer > 0) - (longer < 0) == LONGER[each.kind]
    assert LONGER.keys() <= kinds


LONGER = {"shortened": -1, "unchanged": 0, "lengthened": 1}
#: Words by which a request names a page that it does not show in full.
NAMED = re.compile(r"(?:\[|page |^\w \()([a-z]+-\d+|policy)(?:, shortened| ·| ~)")
#: Prefix of a text that is not shown in full.
HEADING = re.compile(r"^(?:\w \(.*?\): |page .*\n\n|\[.*, shortened\]\n)")
#: Beginnings of texts and their pages; a round has three slots.
BEGINS = re.compile(
    r"(?P<asks>Round )(\d+)|(?P<finds>\\*\"round\\*\":\W*)(\d+)|(?P<tells>Answer )(\d+)"
    r"|(?P<last>And now\?)|(?P<policy>Refunds within)"
)


def read_back(thread: Thread, turn: int) -> dict[str, int]:
    """Return the characters of each page in a request, read from its messages alone."""
    context = listing.get_context(thread, turn)
    assert context is not None
    assert context.request is not None
    found = dict[str, int]()
    for text in iter_texts(json.loads(context.request)["messages"]):
        if (page_id := whose(text)) is not None:
            assert page_id not in found
            found[page_id] = len(HEADING.sub("", text).strip('"'))
    return found


def iter_texts(messages: list[Any]) -> Iterator[str]:
    """Yield the texts of messages, except those that the manifest lists."""
    calls = {
        call["id"]: call["function"]["name"]
        for each in messages
        for call in each.get("tool_calls") or ()
    }
    for each in messages:
        if calls.get(each.get("tool_call_id")) == "page_list":
            continue
        text = re.sub(r"(?s)<VM:MANIFEST>.*?</VM:MANIFEST>", "", each["content"] or "")
        fenced = text.startswith("<VM:") or "\n<VM:" in text
        yield from text.splitlines() if fenced else [text]


def whose(text: str) -> str | None:
    if named := NAMED.match(text):
        return named[1]
    found = BEGINS.search(text[:60])
    if found is None or found["policy"]:
        return found and "policy"
    if found["last"]:
        return f"slot-{3 * ROUNDS}"
    number, order = int(found[found.lastindex or 0]), ("asks", "finds", "tells")
    return f"slot-{3 * number + next(n for n, name in enumerate(order) if found[name])}"


def test_fault_and_an_eviction_say_whose_they_were(paged: Thread) -> None:
    found = turn_diffs.get_diff(paged, paged.turn_count, base=paged.turn_count - 1)
    reasons = [change.reason for change in found.changes if change.reason]
    faults = [each for each in reasons if each.type == "page.faulted"]
    assert [each.cause for each in faults] == ["fault"]
    assert {each.cause for each in reasons if each.type == "slot.appended"} == {
        "append"
    }
    before, now = (
        contexts.get_recorded_turn(paged, paged.turn_count - n) for n in (1, 0)
    )
    assert found.request_delta == now.record.tokens - before.record.tokens


def test_fork_is_told_from_its_parents_turns_on(agent: Agent, paged: Thread) -> None:
    fork(agent, "paged", "child", budget_tokens=2_400, reserved_tokens=800)
    question = build_message("user", "And in this history?")
    factories.run(
        turns.begin_turn(agent=agent, thread="child", new=NewTurn(slots=[question]))
    )
    child = factories.get_thread(agent, "child")
    found = turn_diffs.get_diff(child, child.turn_count, base=2)
    moved = [each for each in found.changes if each.kind != "unchanged"]
    assert all(change.reason for change in moved)
    threads = {change.reason.thread for change in moved if change.reason}
    assert threads == {paged.id, child.id}


def test_turn_that_is_not_there_or_not_recorded_has_no_diff(
    agent: Agent, paged: Thread
) -> None:
    for base, turn in ((1, 99), (0, 1), (2, 2), (3, 2)):
        with pytest.raises(NotFoundError):
            turn_diffs.get_diff(paged, turn, base=base)
    do(agent, "paged", BeginTurn())
    thread = factories.get_thread(agent, "paged")
    with pytest.raises(NotRecordedError):
        turn_diffs.get_diff(thread, thread.turn_count, base=1)


def test_turn_diff_costs_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_num_queries(9):  # type: ignore[operator]  # a fixture
            turn_diffs.get_diff(thread, thread.turn_count, base=1)
