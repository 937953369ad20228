"""Thread with its texts and no database, and its next request."""

from __future__ import annotations

import json
from typing import Any

from memoryhub.kernel.commands import AppendSlots, EventDraft, NewSlot
from memoryhub.kernel.context.contexts import ContextRecord
from memoryhub.kernel.context.opened import OpenedPage, get_slot_modality
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.levels import making
from memoryhub.kernel.packing import packing, ranges, selection
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    FaultPage,
    NewPage,
    SetTools,
)
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageCompressed
from memoryhub.kernel.state.pages import Location, PageEntry, build_slot_page_id
from memoryhub.kernel.state.tool_events import ToolsSet
from memoryhub.kernel.threads import measuring
from tests.kernel.packs import as_journaled
from tests.oracles.paging import Bench
from tests.validators import require_request


class Loop(Bench):
    """Loop of commands with real texts and true costs, and of requests."""

    def __init__(self, **config: Any) -> None:
        self.texts: dict[Location, OpenedPage] = {}
        self.last: ContextRecord | None = None
        super().__init__(**config)

    def _record(self, draft: EventDraft) -> Any:
        event = super()._record(draft)
        place = Location(self.state.id, self.state.seq, 0)
        self.texts |= opened_texts(event, draft.payload, place)
        return event

    def give(self, *names: str, words: int) -> Any:
        """Set the agent's own tools, each described in so many words."""
        about = "word " * words
        tools = [
            {"type": "function", "function": {"name": name, "description": about}}
            for name in names
        ]
        definitions = json.dumps(tools).encode()
        tokens = estimate_tokens(definitions.decode())
        return self.do(SetTools(definitions=definitions, names=names, tokens=tokens))

    def say(self, role: str | None, content: Any) -> list[Any]:
        return self.do(AppendSlots(slots=(slot_of(role, content),)))

    def keep(self, page_id: str, text: str) -> None:
        """Make a page that is not mapped."""
        opened = OpenedPage(
            page_id=page_id, type="artifact", modality="text", content={"text": text}
        )
        found = measuring.measure_page(opened, sent=None)
        page = NewPage(
            page_id=page_id,
            type="artifact",
            modality="text",
            payload=json.dumps({"content": {"text": text}}).encode(),
            tokens=found.tokens,
            cost=found.cost,
            bytes=len(text.encode()),
            map=False,
        )
        self.do(CreatePages(pages=(page,)))

    def fault(self, page_id: str, level: int = 0, call_id: str | None = None) -> Any:
        entry = self.rows.live[page_id]
        full = self.texts[entry.full.location]
        made = making.make_levels(full, version=entry.version)
        command = FaultPage(
            page_id=page_id, level=level, made=made, by="model", call_id=call_id
        )
        return self.do(command)[-1]

    def part(self, page_id: str, offset: int, limit: int) -> Any:
        entry = self.rows.live[page_id]
        found = ranges.cut_range(
            self.texts[entry.full.location],
            version=entry.version,
            offset=offset,
            limit=limit,
        )
        return self.do(FaultPage(page_id=page_id, level=0, range=found, by="model"))[-1]

    def request(self, **fields: Any) -> Packed:
        """Return the next turn's request; earlier ones have told of pages."""
        asking = selection.PackingOptions(
            name="talk", turn=self.state.turn_count, **fields
        )
        wanted = selection.build_packing_input(
            self.state, asking, home=self.list_home_pages()
        )
        wanted = selection.continue_exchange(wanted, self.last)
        wanted = selection.place_parts(wanted, self.texts, lambda _: estimate_tokens)
        packed = packing.pack(wanted, self.texts)
        require_request(wanted.format, json.loads(packed.request))
        assert as_journaled(packed.record, own=self.state.id) == packed.record
        self.last = packed.record
        return packed

    def list_home_pages(self) -> list[PageEntry]:
        """Return pages that are neither mapped nor hot, newest first."""
        paging = self.state.paging
        live = self.rows.live.values()
        away = [each for each in live if not paging.find_tier(each.page_id)]
        return sorted(away, key=lambda each: -each.created_seq)[:50]


def opened_texts(
    event: Any, payload: bytes | None, place: Location
) -> dict[Location, OpenedPage]:
    """Return the texts in an event's payload, as read at `place`."""
    held = json.loads(payload) if payload else {}
    if isinstance(event, SlotAppended):
        return {place: _opened_slot(event, held["content"])} if event.page else {}
    if isinstance(event, PageCompressed):
        return {
            place._replace(level=int(level)): _opened_page(
                event, text, role=event.role, slot=event.slot
            )
            for level, text in held["levels"].items()
        }
    if isinstance(event, ToolsSet):
        tools = OpenedPage(
            page_id="tools",
            type="procedure",
            modality="structured",
            content=held["tools"],
        )
        return {place: tools}
    return {place: _opened_page(event, held["content"])} if "content" in held else {}


def _opened_page(event: Any, content: Any, **fields: Any) -> OpenedPage:
    return OpenedPage(
        page_id=event.page_id,
        type=event.type,
        modality=event.modality,
        content=content,
        **fields,
    )


def _opened_slot(event: Any, content: Any) -> OpenedPage:
    return OpenedPage(
        page_id=build_slot_page_id(event.index),
        type=event.page.type,
        modality=event.page.modality,
        content=content,
        role=event.role,
        slot=event.index,
    )


def slot_of(role: str | None, content: Any) -> NewSlot:
    """Build a slot as the services would send it."""
    slot = NewSlot(
        from_name=role or "agent",
        to_name="memory",
        type=f"chat.{role}" if role else "chat.message",
        content=json.dumps(content, ensure_ascii=False).encode(),
        tokens=measuring.count_content_tokens(content, estimate_tokens),
        modality=get_slot_modality(content),
    )
    return measuring.measure_slot(slot, content)


def asks(call_id: str, page_id: str) -> dict[str, Any]:
    """Build the message of a model that fetches a page."""
    arguments = json.dumps({"page_id": page_id, "target_level": 0})
    function = {"name": "page_fault", "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def brings(call_id: str, text: str) -> dict[str, Any]:
    """Build the message that hands back a call's result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def render_texts(request: bytes) -> str:
    """Return all texts of the messages of a request, decoded."""
    texts = [message.get("content") for message in json.loads(request)["messages"]]
    return "\n".join(text for text in texts if isinstance(text, str))
