"""Presence of pages in the working set, and turns of their moves. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives
from memoryhub.queries.paging.lives import PageLife
from memoryhub.queries.replay import states
from memoryhub.queries.threads.forks import get_segments

StandingKind = Literal["in", "shortened", "back", "left", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStanding:
    """A page's presence in the working set of a thread."""

    kind: StandingKind
    #: The turn in which the page left or came back; 0 for other kinds.
    turn: int = 0


def get_standings(
    thread: Thread, page_ids: Collection[str], *, seq: int | None = None
) -> dict[str, PageStanding]:
    """Return the standings of these pages, now or as of an event.

    One query beside those for the state, however many pages; no query without pages.
    `thread` comes with its subject. Raises SeqUnknownError.
    """
    if not page_ids:
        return {}
    state, parts = states.load_state(thread, seq), get_segments(thread, up_to=seq)
    frames = state.paging.frames
    levels = {page: frames[page].level for page in page_ids if page in frames}
    # Standings do not need the time of creation, so entries are not read.
    found = lives.get_lives(parts, dict.fromkeys(page_ids), frames)
    return {page: _build_standing(found[page], levels.get(page)) for page in page_ids}


def _build_standing(life: PageLife, level: int | None) -> PageStanding:
    moved = [step for step in life.steps if step.is_move]
    last = moved[-1] if moved else None
    if level is None:
        if last is not None and last.presence == "out":
            return PageStanding(kind="left", turn=last.turn)
        return PageStanding(kind="out")
    if level:
        return PageStanding(kind="shortened")
    if last is not None and last.kind == "fetched":
        return PageStanding(kind="back", turn=last.turn)
    return PageStanding(kind="in")
