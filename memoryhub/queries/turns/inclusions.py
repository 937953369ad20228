"""Inclusions: why a recorded request holds a text, by the state of its packing.

Never writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import orjson

from memoryhub.kernel.context.contexts import Ref
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.paging import Frame
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.queries.paging.residency import to_own_seq
from memoryhub.queries.replay import replay
from memoryhub.queries.turns.contexts import RecordedTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion:
    """Why a text is in a request."""

    page_id: str
    #: `newest` (the user's own message), the rule that pinned it, `recalled`, `mapped`.
    why: str
    #: The event that put the page at its level; None when the event is an ancestor's.
    cause_seq: int | None
    #: The page's keep score, which orders evictions.
    score: float
    #: Tokens of the page's whole text, and the turn in which the page was created.
    full_tokens: int
    #: Tokens of the text itself, as counted by the thread; None for another version.
    cost: int | None
    created_turn: int


class Inclusions:
    """Inclusions by one packed state. Three queries and a bounded fold.

    One query where the state is cached.
    """

    def __init__(self, recorded: RecordedTurn) -> None:
        self.own = recorded.home.id
        self.state: ThreadState = replay.load_state_at(
            recorded.home, recorded.event.as_of_seq
        ).state
        self.rules = pins.list_pinned(self.state)
        self._scores = policies.score_frames(
            self.state.paging, turn=self.state.turn_count
        )
        self._frames: dict[tuple[UUID, int], Frame] = {
            held.location[:2]: frame
            for frame in self.state.paging.frames.values()
            for held in frame.entry.levels
            if held is not None
        }

    def find_inclusion(self, ref: Ref) -> Inclusion | None:
        """Return a text's inclusion; None if no page in the working set has it."""
        place = ref.get_location(self.own)
        frame = self._frames.get(place[:2])
        if frame is None:
            return None
        held = frame.entry.levels[ref.level]
        return Inclusion(
            page_id=frame.page_id,
            why=self._find_reason(frame),
            cause_seq=to_own_seq(self.state, frame.cause_seq),
            score=self._scores[frame.page_id],
            full_tokens=frame.entry.full.cost,
            cost=held.cost if held is not None and held.location == place else None,
            created_turn=frame.entry.created_turn,
        )

    def _find_reason(self, frame: Frame) -> str:
        user = self.state.paging.last_user
        if user is not None and frame.entry.slot == user.slot:
            return "newest"
        if rule := self.rules.get(frame.page_id):
            return rule
        return "recalled" if frame.recalled else "mapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCause:
    """The event that put a page at its level."""

    type: str
    #: The turn of the event; None where the event has no turn.
    turn: int | None


def get_causes(home: UUID, seqs: Iterable[int]) -> dict[int, FrameCause]:
    """Return these events of a journal, by seq. One query."""
    rows = Event.objects.filter(thread_id=home, seq__in=sorted(set(seqs)))
    return {
        seq: FrameCause(type=kind, turn=orjson.loads(body).get("turn"))
        for seq, kind, body in rows.values_list("seq", "type", "body")
    }
