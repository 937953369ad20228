"""Turn diffs: what became of the working set from one recorded turn to another.

Never writes, and looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from memoryhub.errors import NotFoundError
from memoryhub.journal.log import log
from memoryhub.kernel.state.paging import Frame, Paging
from memoryhub.kernel.turns import turn_diffs
from memoryhub.kernel.turns.turn_diffs import FRAMING, Change, ChangeKind, Happened
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.turns import contexts
from memoryhub.queries.turns.contexts import Recorded

_TYPES = [event.event_type for event in FRAMING]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A recorded turn, and the working set that its request was packed from."""

    turn: int
    recorded: Recorded
    paging: Paging

    @property
    def seq(self) -> int:
        """The state that was packed is that of this event of `thread`."""
        return self.recorded.event.as_of_seq

    @property
    def thread(self) -> UUID:
        return self.recorded.home.id

    @property
    def shown(self) -> dict[str, Frame]:
        """The frames that its request shows; a result that is only named is none."""
        return {page_id: frame for page_id, (frame, _) in self._shown().items()}

    @property
    def cuts(self) -> dict[str, int]:
        """Characters kept of those that it shows in part."""
        return {page_id: cut for page_id, (_, cut) in self._shown().items() if cut}

    def _shown(self) -> dict[str, tuple[Frame, int | None]]:
        refs = (ref for each in self.recorded.record.sections for ref in each.refs)
        cuts = {ref.location(self.thread)[:2]: ref.cut for ref in refs if ref.cut != 0}
        return {
            page_id: (frame, cuts[place])
            for page_id, frame in self.paging.frames.items()
            for held in frame.entry.levels
            if held and (place := held.location[:2]) in cuts
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDiff:
    """Every page that either request shows, and what became of it."""

    base: Side
    now: Side
    #: Those that left first, then as they stand in the context of the later turn.
    changes: tuple[Change, ...]

    @property
    def counts(self) -> dict[ChangeKind, int]:
        return turn_diffs.counts(self.changes)

    @property
    def delta(self) -> int:
        """Tokens of the pages that are shown."""
        return sum(change.delta for change in self.changes)

    @property
    def request_delta(self) -> int:
        """Tokens of the requests."""
        return self.now.recorded.record.tokens - self.base.recorded.record.tokens


def get_diff(thread: Thread, turn: int, *, base: int) -> TurnDiff:
    """Compare turn `base` with the later `turn`.

    A constant number of queries a lineage. `thread` comes with its subject. Raises
    NotFoundError for a turn that has not begun and for a base that is not before the
    turn, NotRecordedError for one whose request was not packed here.
    """
    if base >= turn:
        raise NotFoundError
    before, now = get_side(thread, base), get_side(thread, turn)
    between = iter_between(before, now)
    changes = turn_diffs.changes(before.shown, now.shown, between)
    shortened = turn_diffs.shortened(changes, before.cuts, now.cuts)
    return TurnDiff(base=before, now=now, changes=shortened)


def get_side(thread: Thread, turn: int) -> Side:
    """Return a recorded turn with its working set. Raises as `get_diff`."""
    found = contexts.recorded(thread, turn)
    state = replay.state_at(found.home, found.event.as_of_seq).state
    return Side(turn=turn, recorded=found, paging=state.paging)


def iter_between(before: Side, now: Side) -> Iterator[Happened]:
    """Yield the events that changed frames between two turns, oldest first.

    One query for each thread of the lineage that it leads through.
    """
    home, up_to = now.recorded.home, now.seq
    spans = list[tuple[UUID, int, int]]()
    while home.id != before.thread:
        spans.append((home.id, 0, up_to))
        parent, forked = home.parent, home.fork_seq
        # The base is an ancestor's: turns of a fork come after all that it inherits.
        assert parent is not None
        assert forked is not None
        home, up_to = parent, forked
    spans.append((home.id, before.seq, up_to))
    for thread, after, last in reversed(spans):
        rows = Event.objects.filter(thread_id=thread, seq__gt=after, seq__lte=last)
        rows = rows.filter(type__in=_TYPES).defer("payload").order_by("seq")
        for row in rows.iterator():
            yield Happened(thread, row.seq, log.recorded(row).event)
