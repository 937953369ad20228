from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import (
    DerivedPageError,
    InvalidError,
    PageErasedError,
    PageUnknownError,
    PinBudgetError,
    PinnedError,
    StaleError,
)
from memoryhub.journal import OrderReceipt, fold_thread
from memoryhub.kernel.paging.page_commands import CreatePages
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.threads.evicted_pages import EVICTED
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.paging.operator_pages import Verb
from tests.cast import factories
from tests.inspector.paged import do, list_evicted_pages, make_paged, new_page

pytestmark = pytest.mark.django_db
ACTOR = "operator:01890000-0000-7000-8000-000000000000"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def now(thread: Thread) -> ThreadState:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    return fold_thread(row, row.head_seq).state


def types_of(receipt: OrderReceipt) -> list[str]:
    return [each.event.event_type for each in receipt.events]


def act(thread: Thread, verb: Verb, page_id: str, *, level: int = 0) -> OrderReceipt:
    command = operator_pages.build_command(thread, verb, page_id, level=level)
    return operator_pages.perform_act(thread, command, actor=ACTOR)


def test_page_act_of_an_operator_has_the_operator_as_actor(paged: Thread) -> None:
    act(paged, "unpin", "policy")
    act(paged, "pin", "policy")
    newest = paged.events.order_by("-seq")[:2]
    assert [(event.type, event.actor) for event in newest] == [
        ("page.pinned", ACTOR),
        ("page.unpinned", ACTOR),
    ]


def test_page_act_on_a_stale_head_is_refused(paged: Thread) -> None:
    command = operator_pages.build_command(paged, "unpin", "policy")
    seen = paged.head_seq
    operator_pages.flush_tlb(paged, actor=ACTOR)
    with pytest.raises(StaleError):
        operator_pages.perform_act(paged, command, actor=ACTOR, if_match=seen)
    assert "policy" in now(paged).paging.pins


def test_pinning_twice_writes_once(paged: Thread) -> None:
    assert "page.pinned" not in types_of(act(paged, "pin", "policy"))


def test_evicted_page_is_mapped_again(agent: Agent, paged: Thread) -> None:
    away = list_evicted_pages(agent, paged.name)[0]
    act(paged, "map", away, level=0)
    assert now(paged).paging.frames[away].level == 0


def test_level_is_made_before_it_is_mapped(agent: Agent, paged: Thread) -> None:
    state = now(paged)
    away = next(
        page for page in state.paging.hot.values() if page.entry.full.tokens > 200
    )
    receipt = act(paged, "map", away.page_id, level=2)
    assert types_of(receipt)[0] == "page.compressed"
    assert now(paged).paging.frames[away.page_id].level == 2


def test_pinned_page_is_not_evicted(paged: Thread) -> None:
    with pytest.raises(PinnedError):
        act(paged, "evict", "policy")


def test_evicted_page_is_hot_then_at_home(paged: Thread) -> None:
    found = residency.get_residency(paged, paged.head_seq)
    loose = next(cell.page_id for cell in found.cells if not cell.why.rule)
    receipt = act(paged, "evict", loose)
    assert types_of(receipt) == ["page.evicted"]
    assert now(paged).paging.find_tier(loose) == "L1"
    act(paged, "evict", loose)
    assert now(paged).paging.find_tier(loose) is None


def test_deleted_page_leaves_no_text(paged: Thread) -> None:
    seq = Event.objects.get(thread=paged, type="page.created").seq
    operator_pages.delete_page(paged, "policy", actor=ACTOR)
    assert Event.objects.get(thread=paged, seq=seq).payload is None
    with pytest.raises(PageErasedError):
        act(paged, "pin", "policy")
    with pytest.raises(DerivedPageError):
        operator_pages.delete_page(paged, "slot-0", actor=ACTOR)
    with pytest.raises(PageUnknownError):
        operator_pages.delete_page(paged, "nobody", actor=ACTOR)


def test_tlb_is_dropped_whole_or_by_tier(paged: Thread) -> None:
    held = len(now(paged).paging.tlb.held)
    receipt = operator_pages.invalidate_tlb(paged, actor=ACTOR, tier="L1")
    left = len(now(paged).paging.tlb.held)
    assert types_of(receipt) == ["tlb.invalidated"]
    assert 0 < left < held
    operator_pages.flush_tlb(paged, actor=ACTOR)
    assert len(now(paged).paging.tlb.held) == 0


def test_settings_reach_the_budget(paged: Thread) -> None:
    config: dict[str, Any] = {"budget_tokens": 2_400, "evict_at": 0.9}
    receipt = operator_pages.configure_paging(paged, actor=ACTOR, config=config)
    paging = now(paged).paging
    assert paging.settings.usable == 1_600
    assert paging.used <= 1_600
    assert {*EVICTED} & {*types_of(receipt)}
    operator_pages.configure_paging(paged, actor=ACTOR, config={"evict_at": None})
    assert now(paged).paging.settings.evict_at == 0.85


def test_setting_out_of_range_is_named_in_the_refusal(paged: Thread) -> None:
    with pytest.raises(InvalidError) as refused:
        operator_pages.configure_paging(paged, actor=ACTOR, config={"evict_to": 0.99})
    assert refused.value.loc == "config.evict_to"


def test_pins_keep_a_budget_from_shrinking(agent: Agent, paged: Thread) -> None:
    big = new_page("big", "word " * 700)
    do(agent, paged.name, CreatePages(pages=(big,)))
    act(paged, "pin", "big")
    before = factories.get_thread(agent, paged.name).head_seq
    config = {"budget_tokens": 2_000}
    with pytest.raises(PinBudgetError):
        operator_pages.configure_paging(paged, actor=ACTOR, config=config)
    assert factories.get_thread(agent, paged.name).head_seq == before
