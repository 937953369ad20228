"""Citations of a turn: pages that its answers name, and names of no page.

Never writes. The ids of no page stand in the messages only, which are sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub.journal.log import log
from memoryhub.kernel.messages import reading, words
from memoryhub.kernel.state.page_events import PagesCited
from memoryhub.kernel.text import citations
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.slots import SlotLine


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCitations:
    """Citations in a turn's answers, each id once."""

    page_ids: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    #: Number of unknown ids of answers that were erased or struck.
    erased: int = 0


def get_citations(
    thread: Thread, seq: int, answers: Sequence[SlotLine]
) -> TurnCitations:
    """Return the citations in answers given after seq. One query, none without answers.

    Messages older than the event pages.cited are not read for citations.
    """
    own = {slot.index: slot for slot in answers if slot.home == thread.id}
    if not own:
        return TurnCitations()
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=seq,
        seq__lte=max(slot.seq for slot in own.values()),
        type=PagesCited.event_type,
    )
    cited, unknown, erased = dict[str, None](), dict[str, None](), 0
    for row in rows.defer("payload").order_by("seq"):
        event = log.to_recorded(row).event
        assert isinstance(event, PagesCited)
        cited |= dict.fromkeys(event.page_ids)
        slot = own.get(event.slot)
        if slot is None or slot.erased:
            erased += event.unknown
        elif event.unknown:
            ids = citations.list_cited_ids(
                words.render_parts(reading.read(slot.content))
            )
            unknown |= dict.fromkeys(citations.list_unknown(ids, event.page_ids))
    return TurnCitations(page_ids=tuple(cited), unknown=tuple(unknown), erased=erased)
