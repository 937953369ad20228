"""The canonical form of the paging state: plain JSON values, everything sorted.

A snapshot holds thousands of pages, so each is an array, and stands there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.state import tlb
from memoryhub.kernel.state.pages import FULL, HINT, Entry, LevelEntry, Location
from memoryhub.kernel.state.paging import (
    Brought,
    Exchanges,
    Frame,
    Hot,
    OwnTools,
    PagePart,
    Paging,
    Past,
    Spent,
    ToolUse,
    UserSlot,
    listed,
)
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.tlb import Tlb


def to_json(paging: Paging, *, thread: UUID) -> dict[str, Any]:
    """Return all but the settings, which follow from the thread's config."""
    return {
        "frames": [
            page_row(frame, thread) for _, frame in sorted(listed(paging.frames))
        ],
        "used": paging.used,
        "hot": [page_row(hot, thread) for _, hot in sorted(listed(paging.hot))],
        "pins": sorted(paging.pins),
        "tlb": {
            "entries": [
                _kept(entry, paging, thread) for entry in paging.tlb.oldest_first()
            ],
            "hits": paging.tlb.hits,
            "misses": paging.tlb.misses,
        },
        "history": [[name, *past] for name, past in sorted(listed(paging.history))],
        "spent": list(paging.spent),
        "last_user": list(paging.last_user) if paging.last_user else None,
        "users_since_turn": paging.users_since_turn,
        "packed": list(paging.packed),
        "pages": paging.pages,
        "evicted_tokens": paging.evicted_tokens,
        "refaults": [list(each) for each in paging.refaults],
        "thrashing": dict(sorted(listed(paging.thrashing))),
        "counts": dict(sorted(listed(paging.counts))),
        "turn_counts": dict(sorted(listed(paging.turn_counts))),
        "turn_lookups": list(paging.turn_lookups),
        **_loop_json(paging, thread),
    }


def _loop_json(paging: Paging, thread: UUID) -> dict[str, Any]:
    """What only a thread has that a model's loop is at."""
    calls = [
        [call, page_id, *_place(place, thread), place.level]
        for call, (page_id, place) in paging.calls
    ]
    begun, faulted, last = paging.exchanges
    own = paging.own_tools
    fields = {
        "tools": [*_place(own.place, thread), own.digest, own.tokens] if own else [],
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
    }
    return {name: value for name, value in fields.items() if value}


def from_json(plain: dict[str, Any], *, settings: Settings, thread: UUID) -> Paging:
    """Return the paging state of a `to_json`; an empty one from before paging."""
    if not plain:
        return Paging(settings=settings)
    frames = {row[0][0]: frame_of(row, thread) for row in plain["frames"]}
    hot = {row[0][0]: hot_of(row, thread) for row in plain["hot"]}
    own = _own_tools(plain.get("tools"), thread)
    return Paging(
        settings=_set_up(settings, own, plain),
        own_tools=own,
        frames=HashTrieMap(frames),
        used=plain["used"],
        hot=HashTrieMap(hot),
        pins=HashTrieMap(dict.fromkeys(plain["pins"], True)),
        tlb=_tlb(plain["tlb"], {**frames, **hot}, thread),
        history=HashTrieMap({row[0]: Past(*row[1:]) for row in plain["history"]}),
        spent=Spent(*plain["spent"]),
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
        calls=_calls(plain.get("calls", ()), thread),
        asking=tuple(plain.get("asking", ())),
        exchanges=_exchanges(plain.get("exchanges", (0, 0))),
        brought=tuple(Brought(*row) for row in plain.get("brought", ())),
        in_recall=tuple(plain.get("in_recall", ())),
        tools=tuple(_tool_use(*row) for row in plain.get("tool_uses", ())),
        read_since=tuple(plain.get("read_since", ())),
        learns=plain.get("learns", False),
    )


def _set_up(
    settings: Settings, own: OwnTools | None, plain: dict[str, Any]
) -> Settings:
    return replace(
        settings,
        tools_tokens=own.tokens if own else 0,
        blocks_tokens=plain.get("blocks", 0),
        promised_tokens=plain.get("promised", 0),
    )


def _own_tools(row: Sequence[Any] | None, thread: UUID) -> OwnTools | None:
    if not row:
        return None
    seq, source, digest, tokens = row
    return OwnTools(_location(seq, source, FULL, thread), digest, tokens)


def _tool_use(digest: str, *pages: Sequence[Any]) -> ToolUse:
    return ToolUse(digest, tuple((page_id, count) for page_id, count in pages))


def _calls(
    rows: Iterable[Sequence[Any]], thread: UUID
) -> tuple[tuple[str, tuple[str, Location]], ...]:
    return tuple(
        (call, (page_id, _location(seq, source, level, thread)))
        for call, page_id, seq, source, level in rows
    )


def _exchanges(row: Sequence[Any]) -> Exchanges:
    begun, faulted, *last = row
    return Exchanges(begun, faulted, tuple(last))


def _tlb(plain: dict[str, Any], resident: dict[str, Frame | Hot], thread: UUID) -> Tlb:
    entries = [
        resident[row].entry if isinstance(row, str) else _entry(row, thread)
        for row in plain["entries"]
    ]
    return tlb.holding(entries, hits=plain["hits"], misses=plain["misses"])


def page_row(page: Frame | Hot, thread: UUID) -> list[Any]:
    """Return a frame, or a page of the hot list, as an array."""
    row = [_row(page.entry, thread), *page[1:]]
    if isinstance(page, Frame):
        row[-1:] = [[list(part) for part in page.parts]] if page.parts else []
    return row


def frame_of(row: list[Any], thread: UUID) -> Frame:
    *rest, last = row
    if isinstance(last, list):
        return frame_of(rest, thread)._replace(
            parts=tuple(PagePart(*each) for each in last)
        )
    return Frame(_entry(row[0], thread), *row[1:])


def hot_of(row: list[Any], thread: UUID) -> Hot:
    return Hot(_entry(row[0], thread), *row[1:])


def _kept(entry: Entry, paging: Paging, thread: UUID) -> Any:
    """An entry of the TLB: its id alone if its frame or hot place holds the same."""
    page_id = entry.page_id
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page_id if page and page.entry == entry else _row(entry, thread)


def _row(entry: Entry, thread: UUID) -> list[Any]:
    """The fields of an entry in their order; this thread itself is not named."""
    *plain, levels, role, slot, home, hint = entry
    texts = [
        None
        if level is None
        else [*_place(level.location, thread), level.tokens, level.cost]
        for level in levels
    ]
    hinted = None if hint is None else _place(hint, thread)
    return [*plain, texts, role, slot, home, hinted]


def _place(place: Location, thread: UUID) -> list[Any]:
    home = place.elsewhere(thread)
    return [place.seq, home and str(home)]


def _entry(row: list[Any], thread: UUID) -> Entry:
    *plain, texts, role, slot, home, hinted = row
    levels = tuple(
        None
        if text is None
        else LevelEntry(_location(text[0], text[1], number, thread), text[2], text[3])
        for number, text in enumerate(texts)
    )
    hint = None if hinted is None else _location(hinted[0], hinted[1], HINT, thread)
    return Entry._make([*plain, levels, role, slot, home, hint])


def _location(seq: int, source: str | None, level: int, thread: UUID) -> Location:
    return Location(UUID(source) if source else thread, seq, level)
