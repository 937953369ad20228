"""Uses of a page: pages that were made of it, and requests that carried it.

Never writes. Both look no further than a bound, whatever the length of the thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import orjson
from django.db.models import Q

from memoryhub.kernel.levels.contexts import Ref
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Turn

#: Of what was made of a page's texts, so many of the newest are looked at.
NAMING = 500
#: The newest turns whose recorded requests are looked at.
TURNS = 200
_SAYING = (PageCreated.event_type, PageUpdated.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A page that says it was made of another."""

    page_id: str
    #: The event that says so.
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A recorded request that held the page."""

    turn: int
    #: Of the event that recorded it.
    seq: int
    section: str
    level: int
    #: Characters kept of it.
    cut: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What became of a page, newest first; of a fork, what was done in it."""

    derived: tuple[Derived, ...]
    carried: tuple[Carried, ...]
    #: There are more pages than those looked at.
    cut: bool
    #: Turns beyond which was not looked.
    first_turn: int


def get_uses(state: ThreadState, entry: Entry, levels: Iterable[PageLevel]) -> Uses:
    """Return the uses of a page as of a state; `levels` are its texts of all versions.

    At most four queries.
    """
    first = max(1, state.turn_count - TURNS + 1)
    places = {held.location[:2] for held in entry.levels if held is not None}
    places |= {(row.source or row.thread_id, row.seq) for row in levels}
    made = _made_of(state, places)
    return Uses(
        derived=_derived(state, entry, _living(state, made)),
        cut=len(made) == NAMING,
        carried=_carried(state, places, first=first),
        first_turn=first,
    )


def _derived(state: ThreadState, entry: Entry, among: set[str]) -> tuple[Derived, ...]:
    """Pages whose last word on what they were made of names this one."""
    rows = Event.objects.filter(
        thread_id=state.id,
        page__in=sorted(among - {entry.page_id}),
        type__in=_SAYING,
        seq__lte=state.seq,
    )
    # Most say nothing of it; bodies hold ids, never content.
    saying = rows.filter(
        Q(body__contains='"provenance":') | Q(body__contains='"derived_from":')
    )
    newest: dict[tuple[str, str], Derived | None] = {}
    for page_id, seq, body in saying.order_by("seq").values_list("page", "seq", "body"):
        assert page_id is not None
        fields = orjson.loads(body)
        for how in ("provenance", "derived_from"):
            if (named := fields.get(how)) is not None:
                here = Derived(page_id=page_id, seq=seq)
                newest[page_id, how] = here if entry.page_id in named else None
    found = {each.page_id: each for each in newest.values() if each is not None}
    return tuple(sorted(found.values(), key=lambda each: -each.seq))


def _made_of(state: ThreadState, places: Iterable[tuple[UUID, int]]) -> list[str]:
    """Pages of which some version, at some time, was made of one of these texts."""
    sources = Q()
    for thread, seq in places:
        sources |= Q(thread_id=thread, source_seq=seq)
    rows = Derivation.objects.filter(
        sources, derived_thread=state.id, derived_seq__lte=state.seq
    )
    newest = rows.order_by("-derived_seq").values("derived_seq")[:NAMING]
    saying = Event.objects.filter(
        thread_id=state.id, seq__in=newest, type__in=_SAYING, page__isnull=False
    )
    return [page for page in saying.values_list("page", flat=True) if page]


def _living(state: ThreadState, among: Iterable[str]) -> set[str]:
    alive = Q(deleted_seq__isnull=True) | Q(deleted_seq__gt=state.seq)
    rows = Page.objects.filter(
        alive, thread_id=state.id, page_id__in=sorted({*among}), seq__lte=state.seq
    )
    return set(rows.values_list("page_id", flat=True))


def _carried(
    state: ThreadState, places: set[tuple[UUID, int]], *, first: int
) -> tuple[Carried, ...]:
    turns = Turn.objects.filter(
        thread_id=state.id, n__gte=first, packed_seq__lte=state.seq
    )
    rows = Event.objects.filter(
        thread_id=state.id, seq__in=turns.values("packed_seq")
    ).order_by("-seq")
    bodies = rows.values_list("seq", "body")
    found = (_in_request(seq, body, places, own=state.id) for seq, body in bodies)
    return tuple(carried for carried in found if carried is not None)


def _in_request(
    seq: int, body: str, places: set[tuple[UUID, int]], *, own: UUID
) -> Carried | None:
    """Where a recorded request held a text that lies at one of these places."""
    fields = orjson.loads(body)
    for section in fields["sections"]:
        for values in section["refs"]:
            ref = Ref.of(values)
            if ref.location(own)[:2] in places:
                return Carried(
                    turn=fields["turn"],
                    seq=seq,
                    section=section["name"],
                    level=ref.level,
                    cut=ref.cut,
                )
    return None
