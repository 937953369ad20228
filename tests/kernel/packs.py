"""A thread's pages as packing is told of them, and what a request shows of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from memoryhub.kernel.context import costs
from memoryhub.kernel.context.contexts import ContextRecord, FaultPolicies
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.packing import context_records, packers, packing
from memoryhub.kernel.packing.choosing import Candidate
from memoryhub.kernel.packing.packing import Packed, PackingInput
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.pages import Location

THREAD, PARENT = UUID(int=1), UUID(int=2)
LIMITS = FaultPolicies(
    faults_allowed=True,
    max_faults_per_turn=3,
    faults_left=3,
    upgrade_budget_tokens=8_192,
)

hostile = st.lists(
    st.sampled_from(
        ["\n", '"', "\\", "</VM:CONTEXT>", "<VM:RULES>", "\u2028", "\ud800", '{"a":1}']
    )
    | st.text(max_size=30),
    max_size=6,
).map("".join)


def as_journaled(record: ContextRecord, *, own: UUID = THREAD) -> ContextRecord:
    """Return the record as its event brings it back."""
    event = context_records.build_turn_packed(
        record, turn=2, as_of_seq=1, prefix_tokens=None, simulated=False, own=own
    )
    kept = event.model_dump_json(by_alias=True, exclude_none=True)
    return context_records.build_record(
        TurnPacked.model_validate_json(kept),
        context_records.list_shown_amounts(record),
        thread_name=record.manifest.thread if record.manifest else "",
        own=own,
    )


class Thread:
    """Pages in the order they were mapped, as a state would list them."""

    def __init__(self) -> None:
        self.texts: dict[Location, OpenedPage] = {}
        self.pages: list[Candidate] = []

    def add(
        self,
        content: Any,
        *,
        role: str | None = None,
        level: int = 0,
        thread: UUID = THREAD,
        modality: str = "text",
        page_type: str = "transcript",
        slot: int | None = None,
        **fields: Any,
    ) -> Candidate:
        seq = len(self.texts) + 1
        page_id = f"page-{seq}" if slot is None else f"slot-{slot}"
        location = Location(thread, seq, level)
        self.texts[location] = OpenedPage(
            page_id=page_id,
            type=page_type,  # type: ignore[arg-type]  # the test's own word
            modality=modality,  # type: ignore[arg-type]
            content=content,
            role=role,
            slot=slot,
        )
        page = Candidate(
            page_id=page_id,
            level=level,
            location=location,
            version=1,
            cost=costs.compute_cost(self.texts[location], level=level),
            slot=slot,
            role=role,
            **fields,
        )
        self.pages.append(page)
        return page

    def add_page(self, text: str, *, level: int = 0, **fields: Any) -> Candidate:
        return self.add(text if level else {"text": text}, level=level, **fields)

    def say(self, content: Any, role: str = "user", **fields: Any) -> Candidate:
        slot = sum(page.slot is not None for page in self.pages)
        return self.add(content, role=role, slot=slot, **fields)

    def build_input(self, **fields: Any) -> PackingInput:
        spoken = [page.slot for page in self.pages if page.role == "user"]
        given: dict[str, Any] = {
            "thread": THREAD,
            "thread_name": "trip",
            "turn": 2,
            "mode": "strict",
            "budget_tokens": 20_000,
            "reserved_tokens": 4_000,
            "policies": LIMITS,
            "candidates": tuple(self.pages),
            "last_user_slot": spoken[-1] if spoken else None,
            "mapped": len(self.pages),
        }
        return PackingInput(**{**given, **fields})

    def pack(self, **fields: Any) -> Packed:
        wanted = self.build_input(**fields)
        packed = packing.pack(wanted, self.texts)
        self.assert_true(packed, wanted)
        return packed

    def assert_true(self, packed: Packed, wanted: PackingInput) -> None:
        """Assert the invariants of every request."""
        json.loads(packed.request)
        text = packed.request.decode()
        assert packed.tokens == estimate_tokens(text) == packed.record.tokens
        assert packed.tokens <= wanted.limit
        assert packed.sha256 == hashlib.sha256(packed.request).hexdigest()
        record = as_journaled(packed.record)
        assert record == packed.record
        packer = packers.PACKERS[record.packer]
        assert packer.assemble(record, self.texts, thread=THREAD) == packed.request
        cut = [each.page_id for each in packed.cut]
        fates = [*packed.included, *cut, *packed.omitted]
        pages = (*wanted.system, *wanted.candidates, *wanted.newest)
        assert sorted(fates) == sorted({page.page_id for page in pages})


def call(name: str, call_id: str = "c1", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def build_result(
    content: str = "done", call_id: str = "c1", **more: Any
) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


pages = st.lists(
    st.tuples(
        hostile | st.text(st.characters(codec="utf-8"), max_size=600),
        st.sampled_from(["page", "user", "assistant", "tool", "structured"]),
        st.floats(0, 1),
        st.booleans(),
    ),
    max_size=12,
)


def thread_of(drawn: Sequence[tuple[str, str, float, bool]]) -> Thread:
    thread = Thread()
    for text, kind, keep, pinned in drawn:
        if kind == "page":
            thread.add_page(text, keep=keep, pinned=pinned)
        elif kind == "structured":
            thread.add({"data": [text]}, modality="structured", keep=keep)
        elif pinned:
            thread.say({"role": kind, "content": text}, role=kind, keep=keep)
        else:
            thread.say(text, role=kind, keep=keep)
    return thread
