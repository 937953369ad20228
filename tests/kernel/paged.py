"""Comparison of the kernel's paging with its plain model."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from memoryhub.kernel.commands import AmendThread, MadeLevels, NewSlot
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.levels import making
from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    FaultPage,
    MapPage,
    UpdatePage,
)
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import ThreadState
from tests.oracles.paging import Bench, build_levels
from tests.oracles.paging_model import Model

#: What an event has to say, beside its word and its page, for the model to agree.
OUTLINES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "page.created": ("created", "page_id", ("mapped", "displaced")),
    "page.updated": ("updated", "page_id", ("lookup",)),
    "page.compressed": ("compressed", "page_id", ()),
    "page.mapped": ("mapped", "page_id", ("level", "lookup")),
    "page.faulted": (
        "faulted",
        "page_id",
        ("level", "tokens", "tier_before", "promoted", "displaced", "lookup"),
    ),
    "fault.refused": ("refused", "page_id", ("refusal", "lookup")),
    "page.referenced": ("referenced", "page_id", ("lookup",)),
    "page.evicted": ("evicted", "page_id", ("tier_after", "displaced", "lookup")),
    "page.lowered": ("lowered", "page_id", ("level",)),
    "page.pinned": ("pinned", "page_id", ("lookup",)),
    "page.unpinned": ("unpinned", "page_id", ("lookup",)),
    "page.deleted": ("deleted", "page_id", ("lookup",)),
    "slot.struck": ("struck", "page_id", ("lookup",)),
    "turn.began": ("began", "n", ("continues",)),
    "thread.configured": ("configured", "", ()),
    "thread.forked": ("forked", "", ()),
    "tlb.invalidated": ("invalidated", "", ("dropped",)),
    "tlb.flushed": ("flushed", "", ("dropped",)),
}


def outlined(event: Any) -> tuple[Any, ...]:
    if event.event_type == "slot.appended":
        page = event.page
        return "appended", f"slot-{event.index}", page.mapped, page.displaced
    word, name, rest = OUTLINES[event.event_type]
    subject = getattr(event, name) if name else None
    return word, subject, *(getattr(event, each) for each in rest)


def levels_of(new: NewSlot, index: int) -> MadeLevels:
    """Return levels of a slot that is too large to be mapped whole."""
    role = new.type.removeprefix("chat.")
    opened = OpenedPage(
        page_id=f"slot-{index}",
        type="artifact" if role == "tool" else "transcript",
        modality="text",
        content=json.loads(new.content),
        role=role,
        slot=index,
    )
    return making.make_levels(opened, version=1)


def thirds(page_id: str, version: int, tokens: int) -> MadeLevels:
    """Return levels that each have a third of the tokens of the one before."""
    sizes = [tokens // 3, tokens // 9, tokens // 27]
    return build_levels(page_id, *(each or None for each in sizes), version=version)


def compress_page(model: Model, *, page_id: str, levels: MadeLevels) -> None:
    model.compress(page_id, levels)


def append_slots(model: Model, new: tuple[NewSlot, ...]) -> None:
    for each in new:
        model.append(each, levels_of(each, model.slots))


def frames_of(paging: Paging) -> dict[str, dict[str, Any]]:
    return {
        frame.page_id: {
            "level": frame.level,
            "at": frame.mapped_seq,
            "joined": frame.joined_seq,
            "referenced": frame.referenced_seq,
            "turn": frame.referenced_turn,
            "references": frame.references,
            "recalled": frame.recalled,
            "visited": frame.visited,
        }
        for frame in paging.frames.values()
    }


def hot_of(paging: Paging) -> dict[str, dict[str, Any]]:
    return {
        page.page_id: {
            "since": page.since_seq,
            "referenced": page.referenced_seq,
            "turn": page.referenced_turn,
            "references": page.references,
        }
        for page in paging.hot.values()
    }


def assert_bounded(state: ThreadState) -> None:
    """Assert invariants 1 to 4 and 7, which hold after all events but a birth."""
    paging, chosen = state.paging, state.paging.settings
    if state.seq == 1:
        return
    total = sum(frame.tokens for frame in paging.frames.values())
    assert paging.used == total <= chosen.usable
    for frame in paging.frames.values():
        weighs = weights.weigh_page(frame.entry, frame.level, recalled=frame.recalled)
        assert frame.tokens == weighs
    held = [
        frame
        for frame in paging.frames.values()
        if frame.page_id in paging.pins
        or (frame.page_id == "system-prompt" and chosen.auto_pin_system)
    ]
    assert sum(frame.tokens for frame in held) <= chosen.pin_share * chosen.usable
    assert not {*paging.frames} & {*paging.hot}
    assert len(paging.hot) <= chosen.l1_pages
    assert len(paging.tlb.held) <= chosen.tlb_entries
    assert paging.spent.faults <= chosen.max_faults_per_turn
    assert paging.spent.tokens <= chosen.max_fault_tokens_per_turn
    assert paging.spent.refusals <= 10


def rows_agree(bench: Bench) -> None:
    """Assert invariants 5 and 6."""
    paging, live = bench.paging, bench.rows.live
    for entry in paging.tlb.list_oldest_first():
        assert entry == live[entry.page_id]
    for tier in (paging.frames, paging.hot):
        for page_id, held in tier.items():
            assert held.entry == live[page_id]
    assert paging.pages == len(live)
    assert {*paging.pins} <= {*paging.frames}
    assert {*paging.history, *paging.thrashing} <= {*live}


def full_is_written_once(bench: Bench) -> None:
    """Assert invariant 9; and 8, that turns never fall."""
    written = Counter[tuple[str, int]]()
    turn = bench.origin.turn_count
    for recorded in bench.log:
        event: Any = recorded.event
        if event.event_type == "page.created":
            written[event.page_id, 1] += 1
        elif event.event_type == "page.updated" and event.tokens is not None:
            written[event.page_id, event.version] += 1
        elif event.event_type == "turn.began":
            assert event.n == turn + 1
            turn = event.n
    assert all(times == 1 for times in written.values())


def no_victim_was_pinned(events: list[EventBody], before: Model, command: Any) -> None:
    """Assert invariant 10.

    Computed pins have what is left of the share. They give way when a page that pins
    hold grows, or the share shrinks; only other commands tell what they were. What was
    lowered may have taken the room of another's since.
    """
    pressing = (CreatePages, UpdatePage, MapPage, FaultPage, AmendThread)
    grows = isinstance(command, pressing)
    kept = before.pins if grows else before.pinned()
    for event in events:
        if event.event_type not in ("page.evicted", "page.lowered"):
            return
        victim: Any = event
        if victim.score is not None:
            assert victim.page_id not in kept
        if event.event_type == "page.lowered":
            kept = before.pins
