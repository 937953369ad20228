from __future__ import annotations

from itertools import takewhile

import orjson
import pytest

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.paging.page_commands import CreatePages, EvictPage, UpdatePage
from memoryhub.kernel.text.padding import pad_size
from memoryhub.model_settings import Price
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.evicted_pages import split_evictions
from memoryhub.queries.turns import contexts, prefixes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.inspector.paged import build_message, do, make_paged, new_page

pytestmark = pytest.mark.django_db

BREAKING = {"evicted", "lowered", "upgraded", "updated"}


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent, rounds=10)


def request(thread: Thread, turn: int) -> bytes:
    found = contexts.get_recorded_turn(thread, turn)
    return contexts.require_request(contexts.reassemble_request(thread, found))


def list_context(thread: Thread, turn: int) -> list[tuple[int, ...]]:
    record = contexts.get_recorded_turn(thread, turn).record
    for section in record.sections:
        if section.name == "history":
            return [(ref.seq, ref.level) for ref in section.refs]
    return []


def go_on(agent: Agent, text: str = "And now?") -> Thread:
    new = NewTurn(slots=[build_message("user", text)])
    factories.run(turns.begin_turn(agent=agent, thread="paged", new=new))
    return factories.get_thread(agent, "paged")


def test_prefix_equals_brute_force(paged: Thread) -> None:
    for turn in range(2, paged.turn_count + 1):
        one, other = request(paged, turn - 1), request(paged, turn)
        pairs = zip(one, other, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        lens = prefixes.get_lens(paged, turn)
        assert lens.prefix_bytes == same
        assert lens.prefix_tokens == estimate_tokens(
            other[:same].decode(errors="ignore")
        )
        assert (lens.bytes, lens.tokens) == (
            pad_size(len(other)),
            estimate_tokens(other.decode()),
        )
        assert lens.share == pytest.approx(lens.prefix_tokens / lens.tokens)


def test_order_breaks_only_by_four_causes(paged: Thread) -> None:
    """Texts that stay keep their places; each other change has its event."""
    causes = set()
    for turn in range(2, paged.turn_count + 1):
        old, new = list_context(paged, turn - 1), list_context(paged, turn)
        stayed = [ref for ref in old if ref in new]
        assert stayed == [ref for ref in new if ref in old]
        lens = prefixes.get_lens(paged, turn)
        causes.add(lens.cause)
        if lens.section == "history" and lens.place < len(old):
            assert lens.cause in BREAKING
            assert old[lens.place] not in new
        if lens.cause in BREAKING:
            assert lens.reason is not None
            row = Event.objects.get(thread_id=paged.id, seq=lens.reason.seq)
            assert row.type == lens.reason.type
            evictions = split_evictions(row.type, orjson.loads(row.body))
            assert lens.page_id in {body["page_id"] for _, body in evictions}
    assert "exchange" in causes
    assert causes & BREAKING


def test_series_is_what_each_turn_recorded(paged: Thread) -> None:
    points = prefixes.list_points(paged)
    assert [point.turn for point in points] == list(range(1, paged.turn_count + 1))
    for point in points:
        lens = prefixes.get_lens(paged, point.turn)
        assert (point.prefix_tokens, point.share) == (lens.prefix_tokens, lens.share)
        assert point.costs == lens.costs
    assert prefixes.list_points(paged, up_to=4, limit=2) == points[2:4]


def test_updated_page_breaks_the_prefix(agent: Agent, paged: Thread) -> None:
    go_on(agent)
    after = new_page("policy", "Refunds within 60 days. ")
    command = UpdatePage(
        page_id="policy",
        payload=after.payload,
        tokens=after.tokens,
        cost=after.cost,
        bytes=after.bytes,
    )
    do(agent, "paged", command)
    thread = go_on(agent)
    lens = prefixes.get_lens(thread, thread.turn_count)
    assert lens.section == "history"
    assert (lens.place, lens.page_id) == (0, "policy")
    assert lens.cause == "updated"
    assert lens.reason is not None
    assert lens.reason.type == "page.updated"


def test_new_page_extends_the_prefix(agent: Agent, paged: Thread) -> None:
    first = go_on(agent)
    do(agent, "paged", CreatePages(pages=(new_page("late", "A late claim."),)))
    thread = go_on(agent)
    lens = prefixes.get_lens(thread, thread.turn_count)
    assert lens.cause in ("exchange", "entered")
    assert lens.place == len(list_context(thread, first.turn_count))
    do(agent, "paged", EvictPage(page_id="slot-0"))


def test_prefix_is_rounded_to_blocks_and_priced(
    paged: Thread, settings: object
) -> None:
    settings.PRICES = {"small": Price(price=2.0, cached=0.5)}  # type: ignore[attr-defined]  # a fixture
    turn = paged.turn_count
    exact = prefixes.get_lens(paged, turn)
    rounded = prefixes.get_lens(paged, turn, block=128)
    assert exact.prefix_tokens is not None
    assert rounded.prefix_tokens == exact.prefix_tokens // 128 * 128
    (cost,) = rounded.costs
    rest = rounded.tokens - rounded.prefix_tokens
    expected = (rounded.prefix_tokens * 0.5 + rest * 2.0) / 1e6
    assert cost.name == "small"
    assert cost.amount == pytest.approx(expected)
    settings.PRICES = {"even": Price(price=2.0)}  # type: ignore[attr-defined]  # a fixture
    (cost,) = prefixes.get_lens(paged, turn).costs
    assert cost.amount == pytest.approx(rounded.tokens * 2.0 / 1e6)
    settings.PRICES = {}  # type: ignore[attr-defined]  # a fixture
    assert prefixes.get_lens(paged, turn).costs == ()


def test_first_turn_has_no_prefix(paged: Thread) -> None:
    lens = prefixes.get_lens(paged, 1)
    assert (lens.prefix_tokens, lens.share, lens.cause) == (0, 0, "first")
    assert lens.tokens > 0


def test_prefix_lens_costs_a_constant_number_of_statements(
    agent: Agent, django_assert_max_num_queries: object
) -> None:
    for name, rounds in (("short", 6), ("longer", 14)):
        made = make_paged(agent, name, rounds=rounds)
        thread = Thread.objects.select_related("project").get(id=made.id)
        with django_assert_max_num_queries(2):  # type: ignore[operator]  # a fixture
            prefixes.list_points(thread)
        with django_assert_max_num_queries(13):  # type: ignore[operator]  # a fixture
            prefixes.get_lens(thread, thread.turn_count)
