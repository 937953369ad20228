"""The statements written by hand store what the ORM would store."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import Any

import pytest
from django.db import connection
from django.db.models import BinaryField, Model

from memoryhub.journal.rows.statements import (
    EVENTS_READ,
    LEVELS_READ,
    PAGES_READ,
    Columns,
    Select,
)
from memoryhub.kernel.paging.page_commands import WriteLevels
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append
from tests.oracles.page_acts import act, levels_of, make_pages, new_page

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", [Event, Slot, Page, Thread])
def test_values_are_stored_as_the_orm_stores_them(
    agent: Agent, model: type[Model]
) -> None:
    append(agent, "t-1", "one")
    row = model._default_manager.first()
    for field in model._meta.concrete_fields:
        # Both drivers take bytes without the ORM's wrapper.
        if not isinstance(field, BinaryField):
            assert_like_the_orm(field, getattr(row, field.attname))
            assert_like_the_orm(field, None)


@pytest.mark.parametrize(
    ("select", "model"),
    [(EVENTS_READ, Event), (PAGES_READ, Page), (LEVELS_READ, PageLevel)],
)
def test_rows_are_read_as_the_orm_reads_them(
    agent: Agent, select: Select[Any], model: type[Model]
) -> None:
    append(agent, "t-1", "one", "two")
    make_pages(agent, new_page("a", "aaa", hint="h"))
    act(agent, WriteLevels(made=levels_of("a", {1: "short"})))
    names = [field.attname for field in model._meta.concrete_fields]
    theirs = [*model._default_manager.order_by("seq").values_list(*names)]
    assert theirs
    thread, place = theirs[0][names.index("thread_id")], names.index("seq")
    chosen = [row[place] for row in theirs]
    ours = select.select('"thread_id" = %s AND "seq" IN {}', thread, chosen=chosen)
    assert [_to_plain(row) for row in sorted(ours, key=itemgetter(place))] == theirs


def _to_plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(bytes(each) if isinstance(each, memoryview) else each for each in row)


def test_time_of_another_zone_is_stored_as_utc() -> None:
    zone = timezone(timedelta(hours=-9, minutes=30))
    field = Event._meta.get_field("at")
    assert_like_the_orm(field, datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=zone))
    assert_like_the_orm(field, datetime(2026, 1, 2, tzinfo=zone))


def assert_like_the_orm(field: Any, value: object) -> None:
    ((ours,),) = Columns([field]).prepare([(value,)])
    theirs = field.get_db_prep_save(value, connection)
    # PostgreSQL's whole numbers are some of the driver's own, which it takes plain too.
    assert isinstance(theirs, type(ours))
    assert ours == theirs
