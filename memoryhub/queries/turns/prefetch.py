"""Prefetch: pages that the next turn brings whatever its message, and use counts.

The kernel begins the turn and packs its request as for the writer; nothing is written.
See decision 86.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from memoryhub.errors import ObservationsWantedError, Refusal
from memoryhub.journal import texts
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.commands import EventDraft, NewSlot
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.recalls import PREFETCHED
from memoryhub.kernel.levels import levels
from memoryhub.kernel.packing import prefetching, selection
from memoryhub.kernel.packing.packing import Packed, PackingInput
from memoryhub.kernel.packing.prefetching import Prefetchable
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging import claim_uses
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.replay import RecordedEvent, decide, evolve
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names, prompts, strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.search import recalls
from memoryhub.queries.turns import contexts, own_tools
from memoryhub.vault.keys import blind_index, keys

#: Why a page does not come: the request shows the page whole anyway; recall is off;
#: the page is larger than all that a turn may prefetch, or than what is left; five
#: pages or three claims are better; its text was erased; the thread takes no turn.
Reason: TypeAlias = Literal[
    "shown", "recall_off", "too_large", "no_room", "limit", "erased", "no_turn"
]
_EMPTY: Final = ""


class ComingPage(NamedTuple):
    """A page that the next turn prefetches."""

    page_id: str
    #: A word of `recalls.PREFETCHED`.
    why: str
    level: int


class StayingPage(NamedTuple):
    """A page that the next turn could prefetch but does not."""

    page_id: str
    why: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """Pages that the next turn prefetches, and those that it does not."""

    coming: tuple[ComingPage, ...] = ()
    staying: tuple[StayingPage, ...] = ()


def get_prefetch(
    thread: Thread, state: ThreadState, command: BeginTurn
) -> dict[str, Any]:
    """Return use counts of tools and claims, and what the next turn prefetches.

    A tool that the thread no longer defines has no name. The queries of `foresee`, and
    one if the thread defines any tools; `thread` comes with its subject.
    """
    named = _map_names(thread, state)
    found = foresee(thread, state, command)
    return {
        "thread": names.remove_subject(thread.name, thread.subject_id),
        "turn": state.turn_count,
        "tool_uses": [
            {
                "tool": named.get(tool.digest),
                "pages": [{"page_id": page, "reads": n} for page, n in tool.pages],
            }
            for tool in reversed(state.paging.tools)
        ],
        "claim_uses": [
            {"page_id": each.page_id, "references": each.uses}
            for each in claim_uses.list_most_used(state.paging)
        ],
        "coming": [each._asdict() for each in found.coming],
        "staying": [each._asdict() for each in found.staying],
    }


def foresee(thread: Thread, state: ThreadState, command: BeginTurn) -> Foresight:
    """Foresee which pages a turn that begins now prefetches, and why others stay.

    The queries of a decision and of a packed request. `thread` comes with its subject.
    Raises ObservationsWantedError for a command that lacks observations.
    """
    try:
        after, unwritten = _begin_turn(state, command)
    except ObservationsWantedError:
        raise
    except Refusal:
        pages = recalls.list_prefetchable(state)
        staying = tuple(_build_staying(each, "no_turn") for each in pages)
        return Foresight(staying=staying)
    options = PackingOptions(
        name=names.remove_subject(thread.name, thread.subject_id),
        turn=after.turn_count,
        mode=command.mode,
        blocks=command.blocks or (),
        now=clock.now(),
    )
    before = contexts.find_previous(thread, options.turn)
    try:
        packed = contexts.pack_request(
            thread, after, options, before=before, unwritten=unwritten
        )
    except TooSmallError:
        packed = None
    wanted = selection.build_packing_input(after, options, home=())
    return _explain(wanted, recalls.list_prefetchable(after), packed)


def add_message(thread: Thread, state: ThreadState, command: BeginTurn) -> BeginTurn:
    """Return the command, with an empty message unless one of the user waits."""
    if state.paging.users_since_turn:
        return command
    slot = NewSlot(
        from_name="user",
        to_name="memory",
        type="chat.user",
        role="user",
        content=strict_json.dump_stored(_EMPTY),
        tokens=0,
        counted_by="est/1",
    )
    tokenizer = tokenizers.get_for_thread(thread)
    measured = measuring.measure_slot(slot, _EMPTY)
    slot = measuring.recount_slot(measured, tokenizer, largest=math.inf)
    return replace(command, slots=(slot,))


def _begin_turn(
    state: ThreadState, command: BeginTurn
) -> tuple[ThreadState, dict[Location, OpenedPage]]:
    """Return the state after the turn began, and the texts that it would write."""
    at = states.compute_instant(state)
    pages, found = StoredPageTable(state, ProjectedRows()), dict[Location, OpenedPage]()
    for draft in decide(state, command, pages, at=at):
        seq = state.seq + 1
        recorded = RecordedEvent(seq=seq, at=at, actor="", event=draft.event)
        state = evolve(state, recorded)
        found |= _build_texts(draft, recorded, thread=state.id)
    return state, found


def _build_texts(
    draft: EventDraft, recorded: RecordedEvent, *, thread: UUID
) -> dict[Location, OpenedPage]:
    """Build the texts of an event that is not written, by their places."""
    if draft.payload is None:
        return {}
    payload = strict_json.parse_stored(draft.payload)
    built = {
        Location(thread, recorded.seq, level): texts.build_event_text(
            recorded.event, payload, seq=recorded.seq, at=recorded.at, level=level
        )
        for level in (FULL, *levels.MADE)
    }
    return {at: text for at, text in built.items() if text is not None}


def _explain(
    wanted: PackingInput, pages: Sequence[Prefetchable], packed: Packed | None
) -> Foresight:
    """Sort pages into those that the packed turn prefetches and those that stay."""
    shown, record = selection.list_shown_places(wanted), packed and packed.record
    recall = record.recall if record else None
    refs = record.get_refs("recall") if record else ()
    brought = zip(recall.pages, recall.sources, refs, strict=True) if recall else ()
    coming = tuple(
        ComingPage(page_id or "", source, ref.level)
        for page_id, source, ref in brought
        if source in PREFETCHED
    )
    there = {each.page_id for each in coming}
    chosen = {each.place for each in prefetching.choose_pages(pages, shown)}
    off = not wanted.recall_tokens or prompts.CURRENT[wanted.mode] is None
    staying = list[StayingPage]()
    for each in pages:
        reason: Reason = "no_room"
        if each.entry.page_id in there:
            continue
        if each.place in shown:
            reason = "shown"
        elif off:
            reason = "recall_off"
        elif each.place not in chosen:
            reason = "limit"
        elif packed is not None and each.place in packed.unfit:
            reason = packed.unfit[each.place]
        elif refs:
            reason = "erased"
        staying.append(_build_staying(each, reason))
    return Foresight(coming=coming, staying=tuple(staying))


def _build_staying(page: Prefetchable, reason: Reason) -> StayingPage:
    return StayingPage(page.entry.page_id, page.source, reason)


def _map_names(thread: Thread, state: ThreadState) -> dict[str, str]:
    """Map the digest of each tool's name to the name, for the thread's tools."""
    if not state.paging.tools:
        return {}
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    defined = own_tools.get_own_tools(thread, state).definitions
    found = (str(each["function"]["name"]) for each in defined)
    return {blind_index.digest_lookup(key, "call", name).hex(): name for name in found}
