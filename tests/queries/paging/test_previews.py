"""A preview tells what a command does: the same events, the same fill, none written."""

from __future__ import annotations

import pytest

from memoryhub.errors import PinnedError
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import previews, residency
from memoryhub.queries.replay import states
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.paging.operator_pages import Verb
from tests.cast import factories
from tests.inspector.paged import list_evicted_pages, make_paged

pytestmark = pytest.mark.django_db
ACTOR = "operator:x"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def loose(thread: Thread) -> str:
    cells = residency.get_residency(thread, thread.head_seq).cells
    return next(cell.page_id for cell in cells if not cell.why.rule)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("verb", ["pin", "unpin", "map", "evict"])
def test_preview_equals_the_outcome_of_the_command(
    agent: Agent, paged: Thread, verb: Verb, level: int
) -> None:
    page_id = {"unpin": "policy", "evict": loose(paged)}.get(
        verb, list_evicted_pages(agent, "paged")[0]
    )
    command = operator_pages.build_command(paged, verb, page_id, level=level)
    found = previews.get_preview(paged, command, page_id=page_id)
    assert factories.get_thread(agent, "paged").head_seq == paged.head_seq == found.seq
    receipt = operator_pages.perform_act(
        paged, command, actor=ACTOR, if_match=found.seq
    )
    bodies = [each.event.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in receipt.events]  # fmt: skip
    assert [dict(effect.body) for effect in found.effects] == bodies
    assert bodies
    state = states.load_state(factories.get_thread(agent, "paged"))
    assert found.after.tokens == state.paging.used
    assert found.after.pages == len(state.paging.frames)
    assert found.why == residency.explain_page(state, page_id)


def test_preview_has_no_effects_when_the_page_is_already_so(paged: Thread) -> None:
    command = operator_pages.build_command(paged, "pin", "policy")
    found = previews.get_preview(paged, command, page_id="policy")
    assert found.effects == ()
    assert found.before == found.after


def test_refusal_is_that_of_the_command(paged: Thread) -> None:
    command = operator_pages.build_command(paged, "evict", "policy")
    with pytest.raises(PinnedError):
        previews.get_preview(paged, command, page_id="policy")


def test_digest_tells_outcomes_apart_and_not_moments(paged: Thread) -> None:
    page_id = loose(paged)
    command = operator_pages.build_command(paged, "evict", page_id)
    before = previews.get_preview(paged, command, page_id=page_id)
    operator_pages.flush_tlb(paged, actor=ACTOR)
    thread = Thread.objects.select_related("subject").get(id=paged.id)
    later = previews.get_preview(thread, command, page_id=page_id)
    assert later.seq > before.seq
    assert later.digest == before.digest
    operator_pages.perform_act(thread, command, actor=ACTOR)
    thread.refresh_from_db()
    again = previews.get_preview(thread, command, page_id=page_id)
    assert again.digest != before.digest
