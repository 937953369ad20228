"""Uses of a page: pages derived from it, and requests that included it.

Never writes. Both searches are bounded, whatever the length of the thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import orjson
from django.db.models import Q

from memoryhub.kernel.context.contexts import Ref
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Turn

#: Number of newest derivations of a page's texts that are searched.
NAMING = 500
#: Number of newest turns whose recorded requests are searched.
TURNS = 200
_SOURCE_EVENTS = (PageCreated.event_type, PageUpdated.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedPage:
    """A page that names another page as its source."""

    page_id: str
    #: The event that names the source.
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUse:
    """A recorded request that included the page."""

    turn: int
    #: The seq of the event that recorded the request.
    seq: int
    section: str
    level: int
    #: Characters of the page's text kept in the request.
    cut: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageUses:
    """Uses of a page in its thread, newest first; in a fork, the fork's own uses."""

    derived: tuple[DerivedPage, ...]
    carried: tuple[RequestUse, ...]
    #: Whether more derivations exist than were searched.
    cut: bool
    #: The oldest turn that was searched.
    first_turn: int


def get_uses(
    state: ThreadState, entry: PageEntry, levels: Iterable[PageLevel]
) -> PageUses:
    """Return the uses of a page as of a state; `levels` are its texts of all versions.

    At most four queries.
    """
    first = max(1, state.turn_count - TURNS + 1)
    places = {held.location[:2] for held in entry.levels if held is not None}
    places |= {(row.source or row.thread_id, row.seq) for row in levels}
    made = _list_candidates(state, places)
    return PageUses(
        derived=_list_derived(state, entry, _list_live_pages(state, made)),
        cut=len(made) == NAMING,
        carried=_list_request_uses(state, places, first=first),
        first_turn=first,
    )


def _list_derived(
    state: ThreadState, entry: PageEntry, among: set[str]
) -> tuple[DerivedPage, ...]:
    """Return pages whose latest sources, of either kind, name this page."""
    rows = Event.objects.filter(
        thread_id=state.id,
        page__in=sorted(among - {entry.page_id}),
        type__in=_SOURCE_EVENTS,
        seq__lte=state.seq,
    )
    # Most bodies have neither field; bodies hold ids, never content.
    saying = rows.filter(
        Q(body__contains='"provenance":') | Q(body__contains='"derived_from":')
    )
    newest: dict[tuple[str, str], DerivedPage | None] = {}
    for page_id, seq, body in saying.order_by("seq").values_list("page", "seq", "body"):
        assert page_id is not None
        fields = orjson.loads(body)
        for how in ("provenance", "derived_from"):
            if (named := fields.get(how)) is not None:
                here = DerivedPage(page_id=page_id, seq=seq)
                newest[page_id, how] = here if entry.page_id in named else None
    found = {each.page_id: each for each in newest.values() if each is not None}
    return tuple(sorted(found.values(), key=lambda each: -each.seq))


def _list_candidates(
    state: ThreadState, places: Iterable[tuple[UUID, int]]
) -> list[str]:
    """List pages of which any version was derived from one of these texts."""
    sources = Q()
    for thread, seq in places:
        sources |= Q(thread_id=thread, source_seq=seq)
    rows = Derivation.objects.filter(
        sources, derived_thread=state.id, derived_seq__lte=state.seq
    )
    newest = rows.order_by("-derived_seq").values("derived_seq")[:NAMING]
    saying = Event.objects.filter(
        thread_id=state.id, seq__in=newest, type__in=_SOURCE_EVENTS, page__isnull=False
    )
    return [page for page in saying.values_list("page", flat=True) if page]


def _list_live_pages(state: ThreadState, among: Iterable[str]) -> set[str]:
    alive = Q(deleted_seq__isnull=True) | Q(deleted_seq__gt=state.seq)
    rows = Page.objects.filter(
        alive, thread_id=state.id, page_id__in=sorted({*among}), seq__lte=state.seq
    )
    return set(rows.values_list("page_id", flat=True))


def _list_request_uses(
    state: ThreadState, places: set[tuple[UUID, int]], *, first: int
) -> tuple[RequestUse, ...]:
    turns = Turn.objects.filter(
        thread_id=state.id, n__gte=first, packed_seq__lte=state.seq
    )
    rows = Event.objects.filter(
        thread_id=state.id, seq__in=turns.values("packed_seq")
    ).order_by("-seq")
    bodies = rows.values_list("seq", "body")
    found = (_find_in_request(seq, body, places, own=state.id) for seq, body in bodies)
    return tuple(carried for carried in found if carried is not None)


def _find_in_request(
    seq: int, body: str, places: set[tuple[UUID, int]], *, own: UUID
) -> RequestUse | None:
    """Return the section of a request that held one of these texts, if any."""
    fields = orjson.loads(body)
    for section in fields["sections"]:
        for values in section["refs"]:
            ref = Ref.from_json(values)
            if ref.get_location(own)[:2] in places:
                return RequestUse(
                    turn=fields["turn"],
                    seq=seq,
                    section=section["name"],
                    level=ref.level,
                    cut=ref.cut,
                )
    return None
