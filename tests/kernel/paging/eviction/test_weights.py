"""Weights of pages in a conversation: at least their tokens in a request."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context import costs
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.packing import conversation
from memoryhub.kernel.packing.conversation import ShownPage
from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.state.pages import LevelEntry, Location, PageEntry
from memoryhub.queries.replay import tokenizers

COUNTS = [tokenizers.get_nearest(name).count for name in ("est/1", "o200k_base")]
NAMES = st.text("abcXYZ0123456789-_.", min_size=1, max_size=64)
TEXTS = st.lists(
    st.sampled_from(["word ", '"quoted"\n', "座席", "1234", "<VM:RULES>", "😀"]),
    max_size=60,
).map("".join)


def build_entry(opened: OpenedPage, cost: int) -> PageEntry:
    place = LevelEntry(Location(UUID(int=1), 1, 0), 1, cost)
    return PageEntry(
        page_id=opened.page_id,
        version=1,
        type=opened.type,
        modality=opened.modality,
        importance=0.5,
        created_seq=1,
        created_turn=0,
        levels=(place, place, place, place),
        role=opened.role,
        slot=opened.slot,
    )


def count_taken(page: ShownPage, count: Count) -> int:
    (written,) = conversation.render([page], "chat", ids=RequestIds())
    return sum(count(text + ",") for text in written)


@pytest.mark.parametrize("count", COUNTS)
@given(page_id=NAMES, text=TEXTS)
def test_fetched_page_takes_no_more_than_its_weight(
    count: Count, page_id: str, text: str
) -> None:
    opened = OpenedPage(
        page_id=page_id, type="artifact", modality="text", content={"text": text}
    )
    cost = costs.compute_cost(opened, count=count)
    weight = weights.weigh_page(build_entry(opened, cost), 0, recalled=False)
    assert count_taken(ShownPage(opened, seq=7), count) <= weight
    part = (0, len(text) // 2)
    line = count(costs.render_line_json(opened, level=0, part=part))
    most = line + weights.weigh_call(page_id)
    assert count_taken(ShownPage(opened, seq=7, part=part), count) <= most


@pytest.mark.parametrize("count", COUNTS)
@given(text=TEXTS.filter(bool), role=st.sampled_from(["user", "assistant"]))
def test_message_takes_no_more_than_it_weighs(
    count: Count, text: str, role: str
) -> None:
    content = {"role": role, "content": text}
    opened = OpenedPage(
        page_id="slot-12",
        type="transcript",
        modality="text",
        content=content,
        role=role,
        slot=12,
    )
    whole = weights.weigh_page(
        build_entry(opened, costs.compute_cost(opened, count=count)), 0, recalled=False
    )
    assert count_taken(ShownPage(opened, seq=7), count) <= whole
    lower = OpenedPage(
        page_id="slot-12",
        type="transcript",
        modality="text",
        content=text[:9],
        role=role,
        slot=12,
    )
    cost = costs.compute_cost(lower, level=1, count=count)
    less = weights.weigh_page(build_entry(opened, cost), 1, recalled=False)
    assert count_taken(ShownPage(opened, seq=7, level=1, lower=lower), count) <= less
