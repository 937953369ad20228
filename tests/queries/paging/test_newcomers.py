"""Newcomers: what a run of evictions made room for, whatever brought it."""

from __future__ import annotations

import pytest

from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.paging.page_commands import CreatePages, EvictPage, UpdatePage
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import eviction_runs
from memoryhub.queries.paging.newcomers import Newcomer, read_newcomer
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import do, make_paged, new_page, state_now

pytestmark = pytest.mark.django_db
LONG = "The parcel went by ship and by train. " * 60


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def newcomer_of_last_run(paged: Thread) -> Newcomer | None:
    paged.refresh_from_db()
    run = eviction_runs.get_run(paged, paged.head_seq)
    assert run is not None
    assert run.last == paged.head_seq - 1
    return run.newcomer


def test_created_page_is_the_newcomer_that_others_left_for(
    agent: Agent, paged: Thread
) -> None:
    page = new_page("letter", LONG)
    do(agent, "paged", CreatePages(pages=(page,)))
    assert newcomer_of_last_run(paged) == Newcomer(
        page_id="letter", tokens=page.cost, seq=paged.head_seq
    )


def test_grown_page_is_the_newcomer_that_others_left_for(
    agent: Agent, paged: Thread
) -> None:
    short = new_page("letter", "Short.")
    do(agent, "paged", CreatePages(pages=(short,)))
    long = new_page("letter", LONG)
    grown = UpdatePage(
        page_id="letter",
        payload=long.payload,
        tokens=long.tokens,
        cost=long.cost,
        bytes=long.bytes,
        hinted=True,
    )
    do(agent, "paged", grown)
    assert newcomer_of_last_run(paged) == Newcomer(
        page_id="letter", tokens=long.cost, seq=paged.head_seq
    )


def test_page_evicted_by_command_has_no_newcomer(agent: Agent, paged: Thread) -> None:
    state = state_now(paged)
    free = next(
        name for name in state.paging.frames if name not in pins.list_pinned(state)
    )
    do(agent, "paged", EvictPage(page_id=free))
    do(agent, "paged", CreatePages(pages=(new_page("letter", "Short."),)))
    assert newcomer_of_last_run(paged) is None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("slot.appended", {"index": 3, "page": None}),
        ("slot.appended", {"index": 3, "page": {"cost": 9, "mapped": False}}),
        ("page.created", {"page_id": "x", "cost": 9, "mapped": False}),
        ("page.updated", {"page_id": "x", "cost": None}),
        ("page.faulted", {"page_id": "x", "cost": 9, "promoted": False}),
        ("turn.began", {"n": 3}),
    ],
)
def test_event_that_maps_no_page_has_no_newcomer(
    kind: str, body: dict[str, object]
) -> None:
    assert read_newcomer(7, kind, body) is None
