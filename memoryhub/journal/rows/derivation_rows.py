"""Rows of derivations: which record was made of which. Built from events alone.

See decision 29.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from memoryhub.journal.rows.rows import DerivationRow
from memoryhub.kernel.context.contexts import Ref
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.memory.key_events import KeySet
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageUpdated,
    PlaceBody,
    TurnPacked,
)


def build_rows(thread: UUID, recorded: RecordedEvent) -> list[DerivationRow]:
    """Return the derivations that an event of a thread leads to, sorted."""
    rows = {
        DerivationRow(
            thread_id=UUID(place.thread) if place.thread else thread,
            source_seq=place.seq,
            derived_thread=thread,
            derived_seq=recorded.seq,
        )
        for place in _list_sources(recorded)
    }
    return sorted(rows)


def _list_sources(recorded: RecordedEvent) -> Collection[PlaceBody]:
    event = recorded.event
    if isinstance(event, PageCreated | PageUpdated):
        return event.sources or ()
    if isinstance(event, TurnPacked):
        # The blocks that a request carried are erased together with the request.
        names = ("blocks", "added")
        carried = (each for each in event.sections if each.name in names)
        refs = [Ref.from_json(ref) for section in carried for ref in section.refs]
        return [PlaceBody(seq=ref.seq, thread=str(ref.thread)) for ref in refs]
    if isinstance(event, PageCompressed | KeySet | SlotAppended | FactAsserted):
        return (event.source,) if event.source else ()
    return ()
