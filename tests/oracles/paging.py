"""Thread without a database: commands in, events out, the page table in a dict.

`Rows` keeps the table by rules of its own, so that a TLB entry can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from memoryhub.kernel import replay, state_json
from memoryhub.kernel.commands import (
    CreateThread,
    EventDraft,
    ForkThread,
    MadeLevels,
    NewSlot,
)
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    NewPage,
    UpdatePage,
)
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.events import (
    ThreadConfig,
)
from memoryhub.kernel.state.page_events import LevelMade, split_event
from memoryhub.kernel.state.pages import HINT, LevelEntry, Location, PageEntry
from memoryhub.kernel.state.paging import Frame, Hot, Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.threads import inherit_state

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
#: 1,600 tokens are usable: a page of up to 640 can be mapped, pins may hold 960.
SMALL: dict[str, Any] = {"budget_tokens": 2_400, "reserved_tokens": 800}
#: Nothing is pinned but what a test pins.
BARE: dict[str, Any] = {**SMALL, "auto_pin_turns": 0, "auto_pin_claims": False}
#: Nothing but what is asked for is pinned; pages of up to 1,440 tokens can be mapped.
LOOSE: dict[str, Any] = {
    "budget_tokens": 4_400,
    "reserved_tokens": 800,
    "auto_pin_turns": 0,
    "auto_pin_claims": False,
}
EventType = TypeVar("EventType", bound=EventBody)


class Rows:
    """Page table of one thread, kept without the kernel's folding."""

    def __init__(self) -> None:
        self.live: dict[str, PageEntry] = {}
        self.gone: set[str] = set()
        #: Seqs of slots that are not struck, by index.
        self.slots: dict[int, int] = {}
        #: Page ids that were read.
        self.read: list[str] = []
        #: Expiries given to each value, by its seq; None for never.
        self.given: dict[int, list[datetime | None]] = {}
        #: Where payloads stand, and of what the texts at a place were made.
        self.payloads: set[tuple[UUID, int]] = set()
        self.made_of: dict[tuple[UUID, int], list[Location]] = {}

    def find_entry(self, page_id: str) -> PageEntry | None:
        self.read.append(page_id)
        return self.live.get(page_id)

    def is_deleted(self, page_id: str) -> bool:
        return page_id in self.gone

    def find_named(self, name: str) -> tuple[str, bool] | None:
        found = (each.page_id for each in self.live.values() if each.name == name)
        return next(((page_id, True) for page_id in found), None)

    def count_pages(self) -> int:
        return len(self.live)

    def digest(self, text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def list_entries(self, page_ids: Collection[str]) -> dict[str, PageEntry]:
        return {each: self.live[each] for each in page_ids if each in self.live}

    def list_sources(self, place: Location) -> list[Location]:
        return self.made_of.get(place[:2], [])

    def list_within(self, ranges: Sequence[Range]) -> list[PageEntry]:
        return [
            entry
            for entry in self.live.values()
            if any(
                place.thread == thread and first <= place.seq <= last
                for place in list_places(entry)
                for thread, first, last in ranges
            )
        ]

    def list_unstruck(self, indexes: Collection[int]) -> dict[int, int]:
        return {each: seq for each, seq in self.slots.items() if each in indexes}

    def has_payload(self, ranges: Sequence[Range]) -> bool:
        held = self.payloads
        return any(
            a <= seq <= b and t == here for here, seq in held for t, a, b in ranges
        )

    def count_fullest(self, timelines: Iterable[tuple[str, str]]) -> int:
        return 0

    def list_dues(self, seqs: Collection[int]) -> dict[int, datetime]:
        found = {}
        for seq in seqs:
            given = [at for at in self.given.get(seq, [None]) if at is not None]
            if given and len(given) == len(self.given[seq]):
                found[seq] = max(given)
        return found

    def apply(self, before: ThreadState, event: Any, began: int) -> None:
        if event.sealed:
            self.payloads.add((before.id, before.seq + 1))
        if sources := getattr(event, "sources", None):
            self.made_of[before.id, before.seq + 1] = [
                Location(UUID(each.thread) if each.thread else before.id, each.seq, 0)
                for each in sources
            ]
        if write := getattr(self, "_" + event.event_type.replace(".", "_"), None):
            write(before, event, Location(before.id, before.seq + 1, 0), began)

    def _slot_appended(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        self.slots[event.index] = place.seq
        page = event.page
        if page is None:
            return
        self.live[f"slot-{event.index}"] = PageEntry(
            page_id=f"slot-{event.index}",
            version=1,
            type=page.type,
            modality=page.modality,
            importance=page.importance,
            created_seq=began + place.seq,
            created_turn=before.turn_count,
            levels=(LevelEntry(place, event.tokens, page.cost), None, None, None),
            role=event.role,
            slot=event.index,
        )

    def _page_created(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        assert event.page_id not in self.live
        assert event.page_id not in self.gone
        self.live[event.page_id] = PageEntry(
            page_id=event.page_id,
            version=1,
            type=event.type,
            modality=event.modality,
            importance=event.importance,
            created_seq=began + place.seq,
            created_turn=before.turn_count,
            levels=(LevelEntry(place, event.tokens, event.cost), None, None, None),
            role=event.role,
            hint=place._replace(level=HINT) if event.hinted else None,
            name=event.name,
        )

    def _page_updated(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        entry = self.live[event.page_id]._replace(
            version=event.version,
            type=event.type,
            modality=event.modality,
            importance=event.importance,
            name=event.name,
        )
        if event.tokens is not None:
            full = LevelEntry(place, event.tokens, event.cost)
            entry = entry._replace(levels=(full, None, None, None))
        if event.hinted:
            entry = entry._replace(hint=place._replace(level=HINT))
        self.live[event.page_id] = entry

    def _page_compressed(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        entry = self.live[event.page_id]
        assert event.version == entry.version
        levels: list[Any] = [*entry.levels]
        for made in event.levels:
            assert levels[made.level] is None
            there = place._replace(level=made.level)
            levels[made.level] = LevelEntry(there, made.tokens, made.cost)
        self.live[event.page_id] = entry._replace(levels=tuple(levels))

    def _key_set(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        self.given[place.seq] = [event.expires_at]

    def _key_retimed(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        value = before.memory.contents.keys[event.key].value - began
        self.given[value].append(event.expires_at)

    def _values_erased(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        for seq in event.seqs:
            del self.given[seq]

    def _page_deleted(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        del self.live[event.page_id]
        self.gone.add(event.page_id)

    def _slot_struck(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        del self.slots[event.index]
        if event.lookup is not None:
            self._page_deleted(before, event, place, began)

    def _records_erased(
        self, before: ThreadState, event: Any, place: Location, began: int
    ) -> None:
        def is_gone(at: Location) -> bool:
            return any(
                at.thread == thread and first <= at.seq <= last
                for thread, first, last in event.ranges
            )

        self.payloads = {at for at in self.payloads if not is_gone(Location(*at, 0))}
        for page_id, entry in [*self.live.items()]:
            levels: list[Any] = [
                None if e and is_gone(e.location) else e for e in entry.levels
            ]
            if levels[0] is None:
                del self.live[page_id]
                self.gone.add(page_id)
                continue
            hint = None if entry.hint and is_gone(entry.hint) else entry.hint
            self.live[page_id] = entry._replace(levels=tuple(levels), hint=hint)


def list_places(entry: PageEntry) -> list[Location]:
    """Return the locations of a page's texts."""
    found = [level.location for level in entry.levels if level is not None]
    return [*found, entry.hint] if entry.hint else found


class Bench:
    """Thread with its state, its rows, and all of its events."""

    def __init__(self, *, thread: int = 1, **config: Any) -> None:
        origin = ThreadState(
            id=UUID(int=thread), project=UUID(int=2), subject=UUID(int=3)
        )
        self._begin(origin, Rows())
        self.do(CreateThread(config=ThreadConfig(**config)))

    def _begin(self, origin: ThreadState, rows: Rows) -> None:
        self.origin = self.state = origin
        self.rows = rows
        self.log: list[replay.RecordedEvent] = []
        #: The instant of the next command; each takes a second.
        self.at = BEGAN
        #: Called with the state after each event.
        self.watch: Callable[[ThreadState], None] = lambda state: None

    def do(self, command: Any) -> list[Any]:
        """Run a command and return its events. A refusal leaves the bench unchanged."""
        drafts = replay.decide(self.state, command, self.rows, at=self.at)
        events = [self._record(draft) for draft in drafts]
        self.at += timedelta(seconds=1)
        return events

    def _record(self, draft: EventDraft) -> Any:
        assert (draft.payload is not None) == draft.event.sealed
        if draft.payload is not None:
            json.loads(draft.payload)
        text = draft.event.model_dump_json(by_alias=True, exclude_none=True)
        event = TYPES[draft.event.event_type].model_validate_json(text)
        assert event == draft.event
        seq = self.state.seq + 1
        recorded = replay.RecordedEvent(
            seq=seq, at=self.at, actor="agent:k", event=event
        )
        self.rows.apply(self.state, event, self.state.clock - self.state.seq)
        self.state = replay.evolve(self.state, recorded)
        self.log.append(recorded)
        self.watch(self.state)
        return event

    def fork(self, *, thread: int, **config: Any) -> Bench:
        """Fork a child at the head, with the page table as its parent left it."""
        child = Bench.__new__(Bench)
        blank = ThreadState(
            id=UUID(int=thread), project=self.state.project, subject=self.state.subject
        )
        rows = Rows()
        rows.live, rows.gone = dict(self.rows.live), set(self.rows.gone)
        rows.made_of = dict(self.rows.made_of)
        child._begin(inherit_state(self.state, blank), rows)
        command = ForkThread(
            parent=self.state, parent_chain="00", config=ThreadConfig(**config)
        )
        child.do(command)
        return child

    def refolded(self) -> ThreadState:
        """Fold the state from the first event on."""
        state = self.origin
        for recorded in self.log:
            state = replay.evolve(state, recorded)
        return state

    def restart(self) -> None:
        """Go on from a snapshot."""
        kept = json.loads(json.dumps(state_json.to_json(self.state)))
        self.state = state_json.from_json(kept)
        assert state_json.to_json(self.state) == kept

    @property
    def paging(self) -> Paging:
        return self.state.paging

    def frame(self, page_id: str) -> Frame:
        return self.paging.frames[page_id]

    def hot(self, page_id: str) -> Hot:
        return self.paging.hot[page_id]

    @property
    def mapped(self) -> list[str]:
        """Ids as they stand in the context."""
        return [frame.page_id for frame in self.paging.list_in_context_order()]


def list_of_kind(events: list[Any], kind: type[EventType]) -> list[EventType]:
    return [event for event in split_events(events) if isinstance(event, kind)]


def split_events(events: Iterable[Any]) -> list[Any]:
    """Split events, so that each page that left has its own."""
    return [one for event in events for one in split_event(event)]


def build_prose(tokens: int, word: str = "abcdefg") -> str:
    """Build a text of about that many tokens, in sentences."""
    sentence = " ".join([word] * 6).capitalize() + ". "
    return (sentence * (tokens // estimate_tokens(sentence) + 1))[: tokens * 16 // 5]


def build_slot(tokens: int, role: str = "user", cost: int | None = None) -> NewSlot:
    """Build a message of exactly so many tokens, at that cost unless told otherwise."""
    return NewSlot(
        from_name="a",
        to_name="b",
        type=f"chat.{role}",
        content=json.dumps(build_prose(tokens)).encode(),
        tokens=tokens,
        cost=tokens if cost is None else cost,
    )


def bare(page_id: str, tokens: int, level: int = 0) -> int:
    """Return the cost of a text that takes at most so many tokens of a working set."""
    if page_id.startswith("slot-"):
        return tokens - (16 if level else 0)
    return max(1, tokens - weights.weigh_call(page_id))


def build_page(page_id: str, tokens: int = 100, **fields: Any) -> NewPage:
    """Build a page that takes exactly so many tokens of a working set."""
    given: dict[str, Any] = {
        "type": "artifact",
        "modality": "text",
        "payload": json.dumps({"text": build_prose(tokens)}).encode(),
        "tokens": tokens,
        "cost": bare(page_id, tokens),
        "bytes": tokens * 4,
        **fields,
    }
    return NewPage(page_id=page_id, **given)


def make(bench: Bench, *pages: NewPage) -> list[Any]:
    return bench.do(CreatePages(pages=pages))


def rewrite(page_id: str, tokens: int) -> UpdatePage:
    return UpdatePage(
        page_id=page_id,
        payload=json.dumps({"text": build_prose(tokens)}).encode(),
        tokens=tokens,
        cost=bare(page_id, tokens),
        bytes=tokens * 4,
    )


def build_levels(
    page_id: str, *tokens: int | None, version: int = 1, producer: str = "extract/1"
) -> MadeLevels:
    """Build levels 1, 2, 3 of so many tokens each; None stands for one not made."""
    levels = [
        LevelMade(level=level, tokens=each, cost=bare(page_id, each, level))  # type: ignore[arg-type]  # 1 to 3
        for level, each in enumerate(tokens, start=1)
        if each is not None
    ]
    return MadeLevels(
        page_id=page_id,
        version=version,
        producer=producer,
        levels=tuple(levels),
        payload=b'{"levels":{}}',
    )
