"""Packing: within budget on the bytes themselves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.levels import opened
from memoryhub.kernel.levels.tokens import Tokenizer, estimate
from memoryhub.kernel.packing import choosing, packing
from memoryhub.kernel.packing.choosing import Choice, Unit
from memoryhub.kernel.packing.packing import TooSmallError
from tests.kernel.packs import (
    Thread,
    context,
    exchange,
    hostile,
    pages,
    thread_of,
)


@settings(deadline=None, max_examples=60)
@given(pages, st.integers(20, 3_000), st.sampled_from(["strict", "passive"]))
def test_request_within_budget_with_framing(
    drawn: list[tuple[str, str, float, bool]], budget: int, mode: str
) -> None:
    thread = thread_of(drawn)
    try:
        packed = thread.pack(token_budget=budget, mode=mode)
    except TooSmallError:
        assert budget < 100
        return
    order = [page.page_id for page in thread.pages]
    shown = [each.page_id for each in context(packed)]
    assert [each for each in order if each in shown] == shown


@settings(deadline=None, max_examples=60)
@given(pages)
def test_everything_goes_in_when_it_fits(
    drawn: list[tuple[str, str, float, bool]],
) -> None:
    thread = thread_of(drawn)
    total = sum(page.cost for page in thread.pages)
    packed = thread.pack(budget_tokens=total + 4_000)
    assert (packed.cut, packed.omitted) == ((), ())
    for each in context(packed):
        page = next(p for p in thread.pages if p.page_id == each.page_id)
        text = opened.text(thread.texts[page.location], level=0)
        if text is not None and not isinstance(each.content, str):
            assert each.content == text


def test_costs_that_were_not_true_are_counted_again() -> None:
    thread = Thread()
    for n in range(20):
        thread.page(f"page {n} " * 40)
    thread.say("hello")
    thread.pages = [page._replace(cost=1) for page in thread.pages]
    packed = thread.pack(token_budget=2_000)
    assert packed.omitted
    assert len(packed.included) > 5


def test_a_count_that_does_not_add_up_stays_within_budget_too() -> None:
    def uneven(text: str) -> int:
        return estimate(text) + (len(text) // 90) ** 2 // 40

    thread = Thread()
    for n in range(20):
        thread.page(f"page {n} " * 30)
    thread.say("hello")
    packed = packing.pack(
        thread.wanted(budget_tokens=2_000),
        thread.texts,
        tokenizer=Tokenizer("uneven", uneven),
    )
    assert uneven(packed.request.decode()) == packed.tokens <= 2_000
    assert exchange(packed)


@settings(deadline=None, max_examples=60)
@given(hostile.filter(lambda text: len(text) > 20), st.integers(150, 900))
def test_cut_never_exceeds(text: str, budget: int) -> None:
    thread = Thread()
    thread.page(text * 40)
    thread.say("hello")
    packed = thread.pack(mode="passive", token_budget=budget)
    if packed.cut:
        (line,) = context(packed)
        assert line.content.endswith("...")
        assert (text * 40).startswith(line.content[:-3])
        # Nearly all the room is used: a cut is not an excuse.
        assert packed.tokens > budget * 0.9 - 15


def test_a_text_is_cut_only_when_more_than_50_tokens_remain() -> None:
    thread = Thread()
    thread.page("word " * 400)
    thread.say("hello")
    bare = thread.pack(mode="passive", candidates=tuple(thread.pages[1:])).tokens
    fence = (
        estimate('"}{"role":"developer","content":"<VM:CONTEXT>\\n</VM:CONTEXT>') + 8
    )
    assert thread.pack(mode="passive", token_budget=bare + 40).cut == ()
    (cut,) = thread.pack(mode="passive", token_budget=bare + fence + 90).cut
    assert (cut.page_id, cut.tokens) == ("page-1", estimate("word " * 400))
    assert 40 < cut.shown_tokens <= 90


def test_small_pages_may_follow_what_was_too_large() -> None:
    thread = Thread()
    thread.add({"data": ["x " * 900]}, modality="structured", keep=0.9)
    thread.page("small", keep=0.1)
    thread.say("hello")
    packed = thread.pack(token_budget=900)
    assert packed.omitted == ("page-1",)
    assert [each.page_id for each in context(packed)] == ["page-2"]


def test_pinned_pages_go_first_then_by_keep_in_map_order() -> None:
    thread = Thread()
    for n, (keep, pinned) in enumerate(
        [(0.1, True), (0.9, False), (0.2, False), (0.8, False)]
    ):
        thread.add(
            {"data": [f"{n} " * 100]}, modality="structured", keep=keep, pinned=pinned
        )
    thread.say("hello")
    needed = thread.pack().tokens
    share = thread.pages[0].cost
    packed = thread.pack(token_budget=needed - share // 2)
    assert packed.omitted == ("page-3",)
    packed = thread.pack(token_budget=needed - share * 5 // 2)
    assert [each.page_id for each in context(packed)] == ["page-1"]


def test_what_fits_exactly_is_taken_whole() -> None:
    thread = Thread()
    for n in range(3):
        thread.page("A page like the others. " * 20, keep=1.0 - n / 10)
    two = sum(page.cost for page in thread.pages[:2])
    assert chosen(thread, two) == [0, 1]


def test_of_equals_the_newest_is_taken() -> None:
    thread = Thread()
    for _ in range(3):
        thread.page("A page like the others. " * 20)
    assert chosen(thread, thread.pages[0].cost) == [2]


def chosen(thread: Thread, room: int) -> list[int]:
    """Which pages a context of so many tokens holds, none of them cut."""
    units = [Unit((Choice(page, "context"),), page.cost) for page in thread.pages]
    taken = choosing.choose(
        units, room=room, shorten=lambda unit, room: unit._replace(cost=0)
    )
    return sorted(taken)
