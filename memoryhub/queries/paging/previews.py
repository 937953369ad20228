"""Previews: the effect of a command on the working set if it were submitted now.

The kernel decides the command on the given state, as for the writer; nothing is
written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.commands import Command
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.replay import RecordedEvent, decide, evolve
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.page_events import split_event
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.paging.residency import KeepReason
from memoryhub.queries.replay import states


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedEvent:
    """An event that the command would lead to."""

    type: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSetFill:
    """Number of pages and tokens in the working set."""

    pages: int
    tokens: int
    #: Tokens pinned by a command or as the system prompt.
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPreview:
    """The effects of a command as of `seq`."""

    seq: int
    usable: int
    before: WorkingSetFill
    after: WorkingSetFill
    #: Events in order; empty when the command would change nothing.
    effects: tuple[PreviewedEvent, ...]
    #: Why the page would stay afterwards; None when the page would not be mapped.
    why: KeepReason | None

    @property
    def has_moves(self) -> bool:
        """Tell whether any page would change its tier or its level."""
        return any(effect.type.startswith("page.") for effect in self.effects)

    @property
    def digest(self) -> str:
        """Return a digest of the outcome: where pages end up, whatever the turn."""
        parts = [
            [effect.type, *(effect.body.get(name) for name in _OUTCOME_FIELDS)]
            for effect in self.effects
        ]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]


#: Fields of an effect on which an operator's decision rests.
_OUTCOME_FIELDS = ("page_id", "level", "tier_after", "tokens")


def get_preview(
    thread: Thread, command: Command, *, page_id: str | None = None
) -> CommandPreview:
    """Return a command's effect on its page, if it has one, and on other pages.

    Three queries, two more for a page that the TLB does not hold. `thread` comes with
    its subject. Raises the refusal that the command would get.
    """
    before = states.load_state(thread)
    at = states.compute_instant(before)
    drafts = decide(before, command, StoredPageTable(before, ProjectedRows()), at=at)
    after = before
    for draft in drafts:
        after = _evolve_state(after, draft.event)
    return CommandPreview(
        seq=before.seq,
        usable=before.paging.settings.usable,
        before=_build_fill(before),
        after=_build_fill(after),
        effects=tuple(
            _build_effect(event)
            for draft in drafts
            for event in split_event(draft.event)
        ),
        why=residency.explain_page(after, page_id) if page_id else None,
    )


def _evolve_state(state: ThreadState, event: EventBody) -> ThreadState:
    assert state.at is not None
    recorded = RecordedEvent(seq=state.seq + 1, at=state.at, actor="", event=event)
    return evolve(state, recorded)


def _build_fill(state: ThreadState) -> WorkingSetFill:
    paging = state.paging
    return WorkingSetFill(
        pages=len(paging.frames),
        tokens=paging.used,
        pinned=pins.count_pinned_tokens(paging),
    )


def _build_effect(event: EventBody) -> PreviewedEvent:
    body = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return PreviewedEvent(type=event.event_type, body=body)
