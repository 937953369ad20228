"""Turn diffs: changes of the working set between two recorded turns.

Never writes, and makes no look-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from memoryhub.errors import NotFoundError
from memoryhub.journal.log import log
from memoryhub.kernel.state.paging import Frame, Paging
from memoryhub.kernel.turns import turn_diffs
from memoryhub.kernel.turns.turn_diffs import (
    FRAMING,
    ChangeKind,
    FrameChange,
    LocatedEvent,
)
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.turns import contexts
from memoryhub.queries.turns.contexts import RecordedTurn

_TYPES = [event.event_type for event in FRAMING]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSide:
    """A recorded turn, and the working set from which its request was packed."""

    turn: int
    recorded: RecordedTurn
    paging: Paging

    @property
    def seq(self) -> int:
        """Return the seq in `thread` whose state was packed."""
        return self.recorded.event.as_of_seq

    @property
    def thread(self) -> UUID:
        return self.recorded.home.id

    @property
    def shown(self) -> dict[str, Frame]:
        """Return the frames that the request shows; a result only named is left out."""
        return {page_id: frame for page_id, (frame, _) in self._map_shown().items()}

    @property
    def cuts(self) -> dict[str, int]:
        """Return the characters kept, for pages that the request shows in part."""
        return {page_id: cut for page_id, (_, cut) in self._map_shown().items() if cut}

    def _map_shown(self) -> dict[str, tuple[Frame, int | None]]:
        refs = (ref for each in self.recorded.record.sections for ref in each.refs)
        cuts = {
            ref.get_location(self.thread)[:2]: ref.cut for ref in refs if ref.cut != 0
        }
        return {
            page_id: (frame, cuts[place])
            for page_id, frame in self.paging.frames.items()
            for held in frame.entry.levels
            if held and (place := held.location[:2]) in cuts
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDiff:
    """Changes of every page that either request shows."""

    base: TurnSide
    now: TurnSide
    #: Pages that left come first, then pages in the later turn's context order.
    changes: tuple[FrameChange, ...]

    @property
    def counts(self) -> dict[ChangeKind, int]:
        return turn_diffs.count_changes(self.changes)

    @property
    def delta(self) -> int:
        """Return the difference in tokens of the shown pages."""
        return sum(change.delta for change in self.changes)

    @property
    def request_delta(self) -> int:
        """Return the difference in tokens of the requests."""
        return self.now.recorded.record.tokens - self.base.recorded.record.tokens


def get_diff(thread: Thread, turn: int, *, base: int) -> TurnDiff:
    """Compare turn `base` with the later `turn`.

    A constant number of queries per lineage. `thread` comes with its subject. Raises
    NotFoundError for a turn that has not begun and for a base that is not before the
    turn, NotRecordedError for a turn whose request was not packed by this server.
    """
    if base >= turn:
        raise NotFoundError
    before, now = get_side(thread, base), get_side(thread, turn)
    between = iter_between(before, now)
    changes = turn_diffs.list_changes(before.shown, now.shown, between)
    shortened = turn_diffs.mark_shortened(changes, before.cuts, now.cuts)
    return TurnDiff(base=before, now=now, changes=shortened)


def get_side(thread: Thread, turn: int) -> TurnSide:
    """Return a recorded turn with its working set. Raises as `get_diff` does."""
    found = contexts.get_recorded_turn(thread, turn)
    state = replay.load_state_at(found.home, found.event.as_of_seq).state
    return TurnSide(turn=turn, recorded=found, paging=state.paging)


def iter_between(before: TurnSide, now: TurnSide) -> Iterator[LocatedEvent]:
    """Yield the events that changed frames between two turns, oldest first.

    One query for each thread of the lineage between the turns.
    """
    home, up_to = now.recorded.home, now.seq
    spans = list[tuple[UUID, int, int]]()
    while home.id != before.thread:
        spans.append((home.id, 0, up_to))
        parent, forked = home.parent, home.fork_seq
        # The base is an ancestor's: turns of a fork come after all inherited turns.
        assert parent is not None
        assert forked is not None
        home, up_to = parent, forked
    spans.append((home.id, before.seq, up_to))
    for thread, after, last in reversed(spans):
        rows = Event.objects.filter(thread_id=thread, seq__gt=after, seq__lte=last)
        rows = rows.filter(type__in=_TYPES).defer("payload").order_by("seq")
        for row in rows.iterator():
            yield LocatedEvent(thread, row.seq, log.to_recorded(row).event)
