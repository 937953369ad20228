"""What was made of what: rows that follow from events alone."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from memoryhub.journal.rows.rows import DerivationRow
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.levels.contexts import Ref
from memoryhub.kernel.memory.key_events import KeySet
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageUpdated,
    PlaceBody,
    TurnPacked,
)


def made(thread: UUID, recorded: Recorded) -> list[DerivationRow]:
    """Return the rows that an event of a thread leads to, in their order."""
    rows = {
        DerivationRow(
            thread_id=UUID(place.thread) if place.thread else thread,
            source_seq=place.seq,
            derived_thread=thread,
            derived_seq=recorded.seq,
        )
        for place in _sources(recorded)
    }
    return sorted(rows)


def _sources(recorded: Recorded) -> Collection[PlaceBody]:
    event = recorded.event
    if isinstance(event, PageCreated | PageUpdated):
        return event.sources or ()
    if isinstance(event, TurnPacked):
        # What a request carried of blocks goes with them.
        names = ("blocks", "added")
        carried = (each for each in event.sections if each.name in names)
        refs = [Ref.of(ref) for section in carried for ref in section.refs]
        return [PlaceBody(seq=ref.seq, thread=str(ref.thread)) for ref in refs]
    if isinstance(event, PageCompressed | KeySet | SlotAppended | FactAsserted):
        return (event.source,) if event.source else ()
    return ()
