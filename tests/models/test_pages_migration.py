"""The migration that brings pages: forth, back and forth again, on what is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild, recount
from tests.cast.factories import append, get_thread, make_thread
from tests.models.migrated import guarded, migrate, refused
from tests.oracles.page_acts import act, make_pages, new_page

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "0004_heartbeats", "0005_pages"


@pytest.fixture(autouse=True)
def migrated() -> Iterator[None]:
    """Whatever a test did, those after it find the tables as they should be."""
    yield
    migrate()


def test_forth_back_and_forth_keeps_every_event_and_its_guard(agent: Agent) -> None:
    append(agent, "t-1", "one", "two")
    thread = get_thread(agent)
    pages = [*Page.objects.order_by("seq").values()]
    events = [*Event.objects.order_by("seq").values()]
    assert guarded()
    for _ in range(2):
        migrate(BEFORE)
        assert guarded()
        migrate(AFTER)
        assert guarded()
    migrate()
    assert [*Event.objects.order_by("seq").values()] == events
    rebuild(thread)
    recount([thread.subject_id])
    assert [*Page.objects.order_by("seq").values()] == pages
    assert verify(get_thread(agent)) is None
    append(agent, "t-1", "three")
    assert Page.objects.count() == 3


def test_a_thread_from_before_paging_needs_no_rebuild(agent: Agent) -> None:
    """Its rows say at once what its journal folds to."""
    make_thread(agent, "quiet")
    make_thread(agent)
    act(agent, BeginTurn())
    migrate(BEFORE)
    migrate()
    assert verify(get_thread(agent, "quiet")) is None
    assert Turn.objects.get().counters == '{"hits":0,"misses":0}'
    # Turns of that time were not numbered by exchanges, as this one is.
    rebuild(get_thread(agent))
    assert verify(get_thread(agent)) is None


def test_an_event_keeps_its_page(agent: Agent) -> None:
    """In an erasure too, unless the names of its body are blanked with it."""
    make_pages(agent, new_page("a"))
    erased = "UPDATE memoryhub_event SET payload = NULL, erased_by = 2"
    assert refused("UPDATE memoryhub_event SET page = 'b' WHERE seq = 2")
    assert refused(f"{erased}, page = 'b' WHERE seq = 2")
    assert refused(f"{erased}, page = NULL WHERE seq = 2")
    with transaction.atomic():
        assert not refused(f"{erased} WHERE seq = 2")
        assert not refused(f"{erased}, page = 'x', body = '{{}}' WHERE seq = 2")
        transaction.set_rollback(True)
    assert Thread.objects.count() == 1
