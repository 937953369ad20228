"""Pages that leave together: one event, and each of them finds its own part of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from memoryhub.kernel.state.page_events import PageEvicted, PagesEvicted
from memoryhub.models.pages import EvictedPage
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives, page_views, pages
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.threads.mutations import (
    Mutation,
    MutationFilter,
    list_history,
    list_mutations,
)
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from tests.cast import factories
from tests.inspector.paged import make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread(agent: Agent) -> Thread:
    make_paged(agent)
    factories.append(
        agent, "paged", *("One more line of talk. " * 12 for _ in range(40))
    )
    return factories.get_thread(agent, "paged")


def list_joined(thread: Thread) -> list[tuple[int, PagesEvicted]]:
    rows = thread.events.filter(type=PagesEvicted.event_type).order_by("seq")
    return [(row.seq, PagesEvicted.model_validate_json(row.body)) for row in rows]


def walked(thread: Thread, where: MutationFilter, limit: int) -> Iterator[Mutation]:
    after = None
    while True:
        batch = list_mutations(thread, where=where, after=after, limit=limit)
        yield from batch.items
        after = batch.next
        if after is None:
            return


def evicted(
    page_id: str, *, score: float | None = 0.5, displaced: str | None = None
) -> PageEvicted:
    return PageEvicted(
        turn=1,
        cause="pressure",
        by="system",
        page_id=page_id,
        tokens=7,
        score=score,
        policy="importance_lru",
        tier_before="L0",
        tier_after="L1",
        displaced=displaced,
    )


@pytest.mark.parametrize("scores", [(0.1, 0.2, 0.3), (None, None, None)])
@pytest.mark.parametrize("displaced", [(), ("x",), ("x", "y", "z")])
def test_split_gives_back_the_evictions_that_were_joined(
    scores: tuple[float | None, ...], displaced: tuple[str, ...]
) -> None:
    out = [*[None] * (3 - len(displaced)), *displaced]
    each = [
        evicted(page_id, score=score, displaced=name)
        for page_id, score, name in zip("abc", scores, out, strict=True)
    ]
    assert all(b.can_join(a) for a, b in pairwise(each))
    assert [*PagesEvicted.join(each).split()] == each


def test_evictions_that_differ_are_not_joined() -> None:
    first = evicted("a", displaced="x")
    for other in (
        evicted("b", displaced="y", score=None),
        evicted("b"),
        evicted("b", displaced="y").model_copy(update={"cause": "shrink"}),
        evicted("b", displaced="y").model_copy(update={"by": "user"}),
        evicted("b", displaced="y").model_copy(update={"lookup": "hit"}),
    ):
        assert not other.can_join(first)


def test_evicted_page_rows_name_each_page_of_an_event(thread: Thread) -> None:
    events = list_joined(thread)
    assert max(len(event.page_ids) for _, event in events) > 3
    rows = EvictedPage.objects.filter(thread=thread).values_list("page", "seq")
    assert sorted(rows) == sorted(
        (page_id, seq) for seq, event in events for page_id in event.page_ids
    )


def test_life_and_history_show_only_the_own_part_of_an_event(thread: Thread) -> None:
    entries = {
        page_id: pages.find_current_entry(thread, page_id)
        for _, event in list_joined(thread)
        for page_id in event.page_ids
    }
    found = lives.get_lives(get_segments(thread), entries)
    for seq, event in list_joined(thread):
        for each in event.split():
            left = [one for one in found[each.page_id].steps if one.seq == seq]
            assert [(one.kind, one.score) for one in left] == [("left", each.score)]
            view = page_views.get_page(thread, each.page_id, seq=seq)
            assert view.evicted is not None
            assert view.evicted.body["page_id"] == each.page_id
            parts = get_segments(thread)
            history = list_history(thread, parts, each.page_id, limit=200).items
            assert {one.page_id for one in history} == {each.page_id}
            assert [one.type for one in history if one.seq == seq] == ["evict"]


@pytest.mark.parametrize("kind", [None, "evict"])
def test_list_of_changes_goes_on_within_an_event(
    thread: Thread, kind: str | None
) -> None:
    where = MutationFilter(type=kind)
    whole = [*walked(thread, where, 200)]
    assert [*walked(thread, where, 1)] == [*walked(thread, where, 3)] == whole
    told = sum(len(event.page_ids) for _, event in list_joined(thread))
    single = thread.events.filter(type=PageEvicted.event_type).count()
    assert sum(each.type == "evict" for each in whole) == told + single
    by_nobody = MutationFilter(type=kind, by="user")
    assert [*walked(thread, by_nobody, 2)] == [e for e in whole if e.by == "user"]


def test_verify_compares_evicted_page_rows_and_rebuild_makes_them(
    thread: Thread,
) -> None:
    assert verify(thread) is None
    row = EvictedPage.objects.filter(thread=thread).first()
    assert row is not None
    for change in ({"page": "other"}, {"seq": row.seq + 1}):
        EvictedPage.objects.filter(pk=row.pk).update(**change)
        found = verify(thread)
        assert found is not None
        assert found.what == "evicted_page_rows"
        rebuild(thread)
        assert verify(thread) is None
    row.delete()
    assert verify(thread) is not None
    rebuild(thread)
    assert verify(thread) is None
    planted = EvictedPage.objects.create(thread=thread, page="planted", seq=1)
    assert verify(thread) is not None
    planted.delete()
