from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from memoryhub.kernel.state.paging import Exchanges
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import paging_charts
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_buckets_follow_on_each_other_and_add_up(paged: Thread) -> None:
    charts = paging_charts.get_charts(paged)
    buckets = charts.buckets
    assert (buckets[0].first, buckets[-1].last) == (1, paged.head_seq)
    for one, two in pairwise(buckets):
        assert one.last + 1 == two.first
    assert sum(b.hits for b in buckets) == charts.whole.hits == paged.tlb_hits
    assert sum(b.evicted for b in buckets) == paged.eviction_count
    assert charts.whole.hit_rate == pytest.approx(
        paged.tlb_hits / (paged.tlb_hits + paged.tlb_misses)
    )
    assert "pressure" in charts.causes


def test_chart_bucket_counts_its_events(paged: Thread) -> None:
    first = Turn.objects.get(thread=paged, n=3).seq
    last = Turn.objects.get(thread=paged, n=6).seq - 1
    charts = paging_charts.get_charts(paged, first=first, last=last)
    before, after = (
        replay.load_state_at(paged, seq).state.paging.counts
        for seq in (first - 1, last)
    )
    for name in ("evicted", "faults"):
        assert charts.whole.count(name) == after.get(name, 0) - before.get(name, 0)


def test_long_thread_has_few_buckets(
    paged: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging_charts, "BUCKETS", 3)
    charts = paging_charts.get_charts(paged)
    assert len(charts.buckets) <= 3
    assert sum(b.evicted for b in charts.buckets) == paged.eviction_count


def test_rates_come_under_the_thresholds_of_lists_and_health(paged: Thread) -> None:
    charts = paging_charts.get_charts(paged)
    assert charts.flags == set()

    def flags(hits: int, misses: int, *last: bool) -> set[str]:
        whole = replace(charts.whole, counts={"hits": hits, "misses": misses})
        exchanges = Exchanges(begun=len(last), last=last)
        return {*replace(charts, whole=whole, exchanges=exchanges).flags}

    assert replace(charts, thrash_index=0.6).flags == {"thrashing"}
    assert flags(59, 41) == {"missing"}
    assert flags(60, 40) == flags(58, 41) == set()  # as low as the goal; too few
    assert flags(0, 0, *[False] * 5) == {"faulting"}
    assert flags(0, 0, *[False] * 4) == set()


def test_unknown_rate_is_none(paged: Thread) -> None:
    charts = paging_charts.get_charts(paged, first=1, last=1)
    assert charts.whole.hit_rate is None
    assert charts.causes == ()


def test_paging_charts_cost_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_max_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_max_num_queries(7):  # type: ignore[operator]  # a fixture
            paging_charts.get_charts(thread)
