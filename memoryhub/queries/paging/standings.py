"""Standings: whether pages are in the working set, or when they left. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives
from memoryhub.queries.paging.lives import Life
from memoryhub.queries.replay import states
from memoryhub.queries.threads.forks import get_segments

StandingKind = Literal["in", "shortened", "back", "left", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a page stands in the working set of a thread."""

    kind: StandingKind
    #: In which it left, or came back; 0 where that is not told.
    turn: int = 0


def get_standings(
    thread: Thread, page_ids: Collection[str], *, seq: int | None = None
) -> dict[str, Standing]:
    """Return how these pages stand, now or as of an event.

    One query beside those for the state, however many pages; none without any. `thread`
    comes with its subject. Raises SeqUnknownError.
    """
    if not page_ids:
        return {}
    state, parts = states.state_of(thread, seq), get_segments(thread, up_to=seq)
    frames = state.paging.frames
    levels = {page: frames[page].level for page in page_ids if page in frames}
    # When they were made is of no interest here.
    found = lives.get_lives(parts, dict.fromkeys(page_ids), frames)
    return {page: _standing(found[page], levels.get(page)) for page in page_ids}


def _standing(life: Life, level: int | None) -> Standing:
    moved = [step for step in life.steps if step.moves]
    last = moved[-1] if moved else None
    if level is None:
        if last is not None and last.presence == "out":
            return Standing(kind="left", turn=last.turn)
        return Standing(kind="out")
    if level:
        return Standing(kind="shortened")
    if last is not None and last.kind == "fetched":
        return Standing(kind="back", turn=last.turn)
    return Standing(kind="in")
