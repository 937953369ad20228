"""The canonical form of the paging state: plain JSON values, all sorted.

A snapshot holds thousands of pages, so each page is an array and is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.state import tlb
from memoryhub.kernel.state.pages import FULL, HINT, LevelEntry, Location, PageEntry
from memoryhub.kernel.state.paging import (
    ClaimUse,
    Exchanges,
    FaultSpend,
    Frame,
    Hot,
    OwnTools,
    PagePart,
    Paging,
    Past,
    RecalledPage,
    ToolReads,
    UserSlot,
    list_items,
)
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.tlb import Tlb

#: Number of fields of an entry's row, with the name.
_ENTRY = len(PageEntry._fields)


def to_json(paging: Paging, *, thread: UUID) -> dict[str, Any]:
    """Convert paging to JSON, without the settings, which the config determines."""
    return {
        "frames": [
            build_page_row(frame, thread)
            for _, frame in sorted(list_items(paging.frames))
        ],
        "used": paging.used,
        "hot": [
            build_page_row(hot, thread) for _, hot in sorted(list_items(paging.hot))
        ],
        "pins": sorted(paging.pins),
        "tlb": {
            "entries": [
                _build_tlb_row(entry, paging, thread)
                for entry in paging.tlb.list_oldest_first()
            ],
            "hits": paging.tlb.hits,
            "misses": paging.tlb.misses,
        },
        "history": [[name, *past] for name, past in sorted(list_items(paging.history))],
        "spent": list(paging.spent),
        "last_user": list(paging.last_user) if paging.last_user else None,
        "users_since_turn": paging.users_since_turn,
        "packed": list(paging.packed),
        "pages": paging.pages,
        "evicted_tokens": paging.evicted_tokens,
        "refaults": [list(each) for each in paging.refaults],
        "thrashing": dict(sorted(list_items(paging.thrashing))),
        "counts": dict(sorted(list_items(paging.counts))),
        "turn_counts": dict(sorted(list_items(paging.turn_counts))),
        "turn_lookups": list(paging.turn_lookups),
        **_build_loop_json(paging, thread),
    }


def _build_loop_json(paging: Paging, thread: UUID) -> dict[str, Any]:
    """Build the JSON fields that only a thread in a model's tool loop has."""
    calls = [
        [call, page_id, *_build_place_row(place, thread), place.level]
        for call, (page_id, place) in paging.calls
    ]
    begun, faulted, last = paging.exchanges
    own = paging.own_tools
    fields = {
        "tools": [*_build_place_row(own.place, thread), own.digest, own.tokens]
        if own
        else [],
        "calls": calls,
        "asking": list(paging.asking),
        "blocks": paging.settings.blocks_tokens,
        "promised": paging.settings.promised_tokens,
        "exchanges": [begun, faulted, *last] if begun else [],
        "brought": [list(each) for each in paging.brought],
        "in_recall": list(paging.in_recall),
        "tool_uses": [[use.digest, *map(list, use.pages)] for use in paging.tools],
        "read_since": list(paging.read_since),
        "learns": paging.learns,
        "claims": [list(each) for each in paging.claims],
        "counts_claims": paging.counts_claims,
        "hand": paging.hand,
    }
    return {name: value for name, value in fields.items() if value}


def from_json(
    plain: dict[str, Any], *, settings: PagingSettings, thread: UUID
) -> Paging:
    """Build the paging state from the result of `to_json`; an empty state from {}."""
    if not plain:
        return Paging(settings=settings)
    frames = {row[0][0]: build_frame(row, thread) for row in plain["frames"]}
    hot = {row[0][0]: build_hot_page(row, thread) for row in plain["hot"]}
    own = _build_own_tools(plain.get("tools"), thread)
    return Paging(
        settings=_build_settings(settings, own, plain),
        own_tools=own,
        frames=HashTrieMap(frames),
        used=plain["used"],
        hot=HashTrieMap(hot),
        pins=HashTrieMap(dict.fromkeys(plain["pins"], True)),
        tlb=_build_tlb(plain["tlb"], {**frames, **hot}, thread),
        history=HashTrieMap({row[0]: Past(*row[1:]) for row in plain["history"]}),
        spent=FaultSpend(*plain["spent"]),
        last_user=UserSlot(*plain["last_user"]) if plain["last_user"] else None,
        users_since_turn=plain["users_since_turn"],
        packed=tuple(plain["packed"]),
        pages=plain["pages"],
        evicted_tokens=plain["evicted_tokens"],
        refaults=tuple((turn, n) for turn, n in plain["refaults"]),
        thrashing=HashTrieMap(plain["thrashing"]),
        counts=HashTrieMap(plain["counts"]),
        turn_counts=HashTrieMap(plain["turn_counts"]),
        turn_lookups=(plain["turn_lookups"][0], plain["turn_lookups"][1]),
        calls=_build_calls(plain.get("calls", ()), thread),
        asking=tuple(plain.get("asking", ())),
        exchanges=_build_exchanges(plain.get("exchanges", (0, 0))),
        brought=tuple(RecalledPage(*row) for row in plain.get("brought", ())),
        in_recall=tuple(plain.get("in_recall", ())),
        tools=tuple(_build_tool_reads(*row) for row in plain.get("tool_uses", ())),
        read_since=tuple(plain.get("read_since", ())),
        learns=plain.get("learns", False),
        claims=tuple(ClaimUse(*row) for row in plain.get("claims", ())),
        counts_claims=plain.get("counts_claims", False),
        hand=plain.get("hand", 0),
    )


def _build_settings(
    settings: PagingSettings, own: OwnTools | None, plain: dict[str, Any]
) -> PagingSettings:
    return replace(
        settings,
        tools_tokens=own.tokens if own else 0,
        blocks_tokens=plain.get("blocks", 0),
        promised_tokens=plain.get("promised", 0),
    )


def _build_own_tools(row: Sequence[Any] | None, thread: UUID) -> OwnTools | None:
    if not row:
        return None
    seq, source, digest, tokens = row
    return OwnTools(_build_location(seq, source, FULL, thread), digest, tokens)


def _build_tool_reads(digest: str, *pages: Sequence[Any]) -> ToolReads:
    return ToolReads(digest, tuple((page_id, count) for page_id, count in pages))


def _build_calls(
    rows: Iterable[Sequence[Any]], thread: UUID
) -> tuple[tuple[str, tuple[str, Location]], ...]:
    return tuple(
        (call, (page_id, _build_location(seq, source, level, thread)))
        for call, page_id, seq, source, level in rows
    )


def _build_exchanges(row: Sequence[Any]) -> Exchanges:
    begun, faulted, *last = row
    return Exchanges(begun, faulted, tuple(last))


def _build_tlb(
    plain: dict[str, Any], resident: dict[str, Frame | Hot], thread: UUID
) -> Tlb:
    entries = [
        resident[row].entry if isinstance(row, str) else _build_entry(row, thread)
        for row in plain["entries"]
    ]
    return tlb.build_tlb(entries, hits=plain["hits"], misses=plain["misses"])


def build_page_row(page: Frame | Hot, thread: UUID) -> list[Any]:
    """Build the array of a frame or of a page of the hot list."""
    row = [_build_entry_row(page.entry, thread), *page[1:]]
    if isinstance(page, Frame):
        row[-2:] = [[list(part) for part in page.parts]] if page.parts else []
        row += [True] if page.visited else []
    return row


def build_frame(row: list[Any], thread: UUID) -> Frame:
    *rest, last = row
    if last is True:
        return build_frame(rest, thread)._replace(visited=True)
    if isinstance(last, list):
        return build_frame(rest, thread)._replace(
            parts=tuple(PagePart(*each) for each in last)
        )
    return Frame(_build_entry(row[0], thread), *row[1:])


def build_hot_page(row: list[Any], thread: UUID) -> Hot:
    return Hot(_build_entry(row[0], thread), *row[1:])


def _build_tlb_row(entry: PageEntry, paging: Paging, thread: UUID) -> Any:
    """Build the row of a TLB entry: its id alone if a frame or hot page holds it."""
    page_id = entry.page_id
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page_id if page and page.entry == entry else _build_entry_row(entry, thread)


def _build_entry_row(entry: PageEntry, thread: UUID) -> list[Any]:
    """Build the array of an entry's fields in order, its own thread left out."""
    *plain, levels, role, slot, home, hint, name = entry
    texts = [
        None
        if level is None
        else [*_build_place_row(level.location, thread), level.tokens, level.cost]
        for level in levels
    ]
    hinted = None if hint is None else _build_place_row(hint, thread)
    # Only a block can have a name: without one the row is as it always was.
    return [*plain, texts, role, slot, home, hinted, *([name] if name else ())]


def _build_place_row(place: Location, thread: UUID) -> list[Any]:
    home = place.find_home(thread)
    return [place.seq, home and str(home)]


def _build_entry(row: list[Any], thread: UUID) -> PageEntry:
    *plain, texts, role, slot, home, hinted, name = [*row, None][:_ENTRY]
    levels = tuple(
        None
        if text is None
        else LevelEntry(
            _build_location(text[0], text[1], number, thread), text[2], text[3]
        )
        for number, text in enumerate(texts)
    )
    hint = (
        None if hinted is None else _build_location(hinted[0], hinted[1], HINT, thread)
    )
    return PageEntry._make([*plain, levels, role, slot, home, hint, name])


def _build_location(seq: int, source: str | None, level: int, thread: UUID) -> Location:
    return Location(UUID(source) if source else thread, seq, level)
