"""First line of what is remembered of each of many people, for lists. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from django.db.models import Max

from memoryhub.journal import texts
from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.journal.rows.statements import PAGES_READ
from memoryhub.kernel.state.pages import BLOCK, FULL
from memoryhub.models.assertions import Assertion
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.people.subject_lists import LIVING
from memoryhub.queries.threads.events import EventAddress, get_rows_at

#: Condition and order of the blocks of home threads that exist now.
_BLOCKS = (
    '"type" = %s AND "deleted_seq" IS NULL AND "thread_id" IN {} ORDER BY "created_seq"'
)


class RememberedLine(NamedTuple):
    """A line that tells a person from others."""

    #: The home thread that has the line. Comes with its subject.
    home: Thread
    #: One line, of any length.
    text: str


def find_first_lines(
    subjects: Collection[UUID], *, restricted: bool
) -> Mapping[UUID, RememberedLine]:
    """Find a line for each of these subjects whose memory has one.

    The line is the first of the subject's oldest block, else the fact asserted last
    and not retracted. Leaves out subjects who are being forgotten, and unless
    `restricted` those whose memory is restricted. Four queries, however many subjects.
    """
    rows = Thread.objects.select_related("subject").filter(
        subject__in=subjects,
        subject__state__in=LIVING if restricted else [Subject.State.ACTIVE],
        home=True,
        status=Thread.Status.OPEN,
    )
    homes = {home.id: home for home in rows}
    if not homes:
        return {}
    places = _find_places(homes)
    found = {}
    for (home, _), row in get_rows_at(places.values(), content=True).items():
        text = _open_first_line(homes[home], row)
        if text:
            found[homes[home].subject_id] = RememberedLine(homes[home], text)
    return found


def _find_places(homes: Collection[UUID]) -> dict[UUID, EventAddress]:
    """Find the event that has each home thread's line."""
    places = dict[UUID, EventAddress]()
    for row in PAGES_READ.select(_BLOCKS, BLOCK, chosen=[*homes]):
        place = build_entry(row, ()).full.location
        places.setdefault(place.thread, (place.thread, place.seq))
    claims = Assertion.objects.filter(cardinality=None, retracted_seq=None)
    others = claims.filter(thread__in={*homes} - {*places}).values_list("thread")
    for home, seq in others.annotate(last=Max("seq")).order_by():
        places[home] = (home, seq)
    return places


def _open_first_line(home: Thread, row: Event) -> str:
    payload = texts.open_content(home, row)
    if "value" in payload:
        about = "" if payload["entity"] == "user" else f" of {payload['entity']}"
        return f"{payload['predicate']}{about}: {payload['value']}"
    opened = texts.build_text(row, payload, level=FULL) if payload else None
    lines = (opened.content["text"] if opened else "").split("\n")
    return next((line.strip() for line in lines if line.strip()), "")
