"""The watch for statements that a cluster would refuse."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from tests.crossing import find_crossings


def test_plain_joins_and_subqueries_of_one_thread_are_left_alone() -> None:
    beside = Event.objects.filter(thread=OuterRef("thread"), seq=OuterRef("seq"))
    for rows in (
        Slot.objects.filter(thread__name="t-1").select_related("thread"),
        Slot.objects.filter(Exists(beside)),
        Thread.objects.filter(id__in=Slot.objects.values("thread")),
    ):
        assert find_crossings(str(rows.query)) == []


def test_subqueries_that_name_the_other_kind_are_found() -> None:
    of_thread = Event.objects.filter(thread=OuterRef("pk"))
    events = Event.objects.filter(thread=OuterRef("derived_thread"))
    either = Q(thread_id=UUID(int=1), index__lt=2) | Q(thread_id=UUID(int=2))
    later = Slot.objects.filter(either, index__gt=OuterRef("index"))
    outer = (
        'SELECT 1 FROM "memoryhub_thread" t LEFT JOIN "memoryhub_slot" s '
        'ON s."thread_id" = t."id" WHERE t."name" = %s'
    )
    for statement, words in (
        (Thread.objects.filter(Exists(of_thread)), "event with thread outside"),
        (
            Derivation.objects.filter(Exists(events)),
            "event of other threads than derivation outside",
        ),
        (
            Slot.objects.filter(Exists(later)),
            "slot of several threads with slot outside",
        ),
        (outer, "slot, thread in an outer join"),
    ):
        text = statement if isinstance(statement, str) else str(statement.query)
        assert find_crossings(text) == [words]
