from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.journal.rows import listed_columns
from memoryhub.models.threads import UNRATED, Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import listing
from tests.cast.factories import append, get_thread
from tests.inspector.paged import make_restless

pytestmark = pytest.mark.django_db


def test_thread_that_fell_silent_is_brought_up(agent: Agent) -> None:
    append(agent, "t-1", "one")
    append(agent, "t-1", "two", "three")
    before = get_thread(agent)
    assert before.listed_slots == 1 < before.slot_count
    assert before.listed_at < before.last_event_at
    assert listing.bring_up(timezone.now() + timedelta(seconds=11)) == 1
    after = get_thread(agent)
    assert (after.listed_at, after.listed_slots) == (before.last_event_at, 3)


def test_listing_columns_equal_those_of_the_writer(agent: Agent) -> None:
    """Lists sort a thread at the same place, whether writer or worker lists it."""
    make_restless(agent, exchanges=3)
    append(agent, "t-1", "never used by a model")
    listing.bring_up(timezone.now() + timedelta(seconds=11))
    for row in Thread.objects.all():
        wanted = listed_columns.copy_columns(vars(row))
        assert {name: getattr(row, name) for name in wanted} == wanted
    rates = dict(Thread.objects.values_list("name", "listed_rate"))
    assert rates == {"restless": 0, "t-1": UNRATED}


def test_thread_is_moved_at_most_every_ten_seconds(agent: Agent) -> None:
    append(agent, "t-1", "one")
    append(agent, "t-1", "two")
    assert listing.bring_up(get_thread(agent).listed_at + timedelta(seconds=9)) == 0
    assert get_thread(agent).listed_slots == 1


def test_second_listing_pass_finds_nothing(agent: Agent) -> None:
    for name in ("t-1", "t-2", "t-3"):
        append(agent, name, "one")
        append(agent, name, "two")
    later = timezone.now() + timedelta(seconds=11)
    assert listing.bring_up(later) == 3
    assert listing.bring_up(later) == 0


def test_more_than_a_batch_is_brought_up(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "BATCH", 2)
    for n in range(5):
        append(agent, f"t-{n}", "one")
        append(agent, f"t-{n}", "two")
    assert listing.bring_up(timezone.now() + timedelta(seconds=11)) == 5
    assert set(Thread.objects.values_list("listed_slots", flat=True)) == {2}


def test_appends_continue_after_a_listing_pass(agent: Agent) -> None:
    append(agent, "t-1", "one")
    append(agent, "t-1", "two")
    listing.bring_up(timezone.now() + timedelta(seconds=11))
    append(agent, "t-1", "three")
    assert get_thread(agent).slot_count == 3


def test_threads_are_locked_in_the_order_of_writers(agent: Agent) -> None:
    for name in ("t-1", "t-2", "t-3"):
        append(agent, name, "one")
        append(agent, name, "two")
    with CaptureQueriesContext(connection) as queries:
        listing.bring_up(timezone.now() + timedelta(seconds=11))
    asked = [query["sql"] for query in queries]
    update = next(n for n, sql in enumerate(asked) if sql.startswith("UPDATE"))
    lock = asked[update - 1]
    assert "ORDER BY 1 ASC" in lock
    assert ("FOR UPDATE" in lock) == connection.features.has_select_for_update
