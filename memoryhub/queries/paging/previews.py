"""Previews: what a command would do to the working set, were it given now.

The kernel decides on the state at hand, as it would for the writer; nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.journal.rows.projections import Rows
from memoryhub.journal.writing.page_table import PageTable
from memoryhub.kernel.commands import Command
from memoryhub.kernel.paging import pins
from memoryhub.kernel.replay import Recorded, decide, evolve
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.page_events import split_event
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.paging.residency import Why
from memoryhub.queries.replay import states


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An event that the command would lead to."""

    type: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """How full the working set is."""

    pages: int
    tokens: int
    #: Of those, pinned by a command or as the system prompt.
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a command would do as of `seq`."""

    seq: int
    usable: int
    before: Fill
    after: Fill
    #: In their order; none when all is so already.
    effects: tuple[Effect, ...]
    #: Why the page would stay then; None when it would not be mapped.
    why: Why | None

    @property
    def moves(self) -> bool:
        """Whether any page would be somewhere else, or at another level."""
        return any(effect.type.startswith("page.") for effect in self.effects)

    @property
    def digest(self) -> str:
        """Tells outcomes apart: which pages end up where, whatever the turn."""
        parts = [
            [effect.type, *(effect.body.get(name) for name in _TELLING)]
            for effect in self.effects
        ]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]


#: Fields of an effect that an operator decides by.
_TELLING = ("page_id", "level", "tier_after", "tokens")


def get_preview(
    thread: Thread, command: Command, *, page_id: str | None = None
) -> Preview:
    """Return what the command would do to its page, if it has one, and to others.

    Three queries, two more for a page that the TLB does not hold. `thread` comes with
    its subject. Raises the refusal that the command would get.
    """
    before = states.state_of(thread)
    at = states.now_of(before)
    drafts = decide(before, command, PageTable(before, Rows()), at=at)
    after = before
    for draft in drafts:
        after = _moved(after, draft.event)
    return Preview(
        seq=before.seq,
        usable=before.paging.settings.usable,
        before=_fill(before),
        after=_fill(after),
        effects=tuple(
            _effect(event) for draft in drafts for event in split_event(draft.event)
        ),
        why=residency.why_of(after, page_id) if page_id else None,
    )


def _moved(state: ThreadState, event: Event) -> ThreadState:
    assert state.at is not None
    recorded = Recorded(seq=state.seq + 1, at=state.at, actor="", event=event)
    return evolve(state, recorded)


def _fill(state: ThreadState) -> Fill:
    paging = state.paging
    return Fill(
        pages=len(paging.frames),
        tokens=paging.used,
        pinned=pins.pinned_tokens(paging),
    )


def _effect(event: Event) -> Effect:
    body = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Effect(type=event.event_type, body=body)
