"""The canonical form of a thread's state, which snapshots keep. Pure."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel import paging_json
from memoryhub.kernel.memory import memory_json
from memoryhub.kernel.state import calls, turn_marks
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.observing import Observing
from memoryhub.kernel.state.paging_config import build_settings
from memoryhub.kernel.state.state import LineageSegment, ScopeLabels, ThreadState


def to_json(state: ThreadState) -> dict[str, Any]:
    """Convert a state to JSON: plain values, unordered collections sorted."""
    plain = state._asdict()
    plain["scope"] = {
        each.name: getattr(state.scope, each.name) for each in fields(ScopeLabels)
    }
    plain["labels"] = [list(label) for label in state.labels]
    plain["config"] = state.config.model_dump()
    plain["lineage"] = [
        [str(part.thread), part.first, part.end, part.up_to_seq]
        for part in state.lineage
    ]
    plain["paging"] = paging_json.to_json(state.paging, thread=state.id)
    plain["memory"] = memory_json.to_json(state.memory, thread=state.id)
    if not state.home:
        # Same bytes as before home threads existed.
        del plain["home"]
    del plain["knowledge"]
    if state.knowledge:
        plain["knowledge"] = state.knowledge.to_json()
    del plain["observing"]
    if state.observing:
        plain["observing"] = state.observing.to_json()
    del plain["calls"]
    if state.calls:
        plain["calls"] = calls.to_json(state.calls)
    del plain["marks"]
    if state.marks:
        plain["marks"] = turn_marks.to_json(state.marks)
    for name in ("types", "senders"):
        # The order of persistent maps differs by process: sort them.
        plain[name] = dict(sorted(plain[name].items()))
    for name in ("id", "project", "subject"):
        plain[name] = str(plain[name])
    for name in ("at", "created_at", "active_at"):
        plain[name] = plain[name].isoformat() if plain[name] else None
    return plain


def from_json(plain: dict[str, Any]) -> ThreadState:
    """Build a state from the result of `to_json`."""
    fields = dict(plain)
    fields["scope"] = ScopeLabels(**plain["scope"])
    fields["labels"] = tuple((name, value) for name, value in plain["labels"])
    fields["config"] = ThreadConfig(**plain["config"])
    fields["lineage"] = tuple(
        LineageSegment(thread=UUID(thread), first=first, end=end, up_to_seq=up_to)
        for thread, first, end, up_to in plain["lineage"]
    )
    for name in ("types", "senders"):
        fields[name] = HashTrieMap(plain[name])
    for name in ("id", "project", "subject"):
        fields[name] = UUID(plain[name])
    for name in ("at", "created_at", "active_at"):
        fields[name] = datetime.fromisoformat(plain[name]) if plain[name] else None
    observing = Observing()
    if plain.get("observing"):
        observing = Observing.from_json(plain["observing"])
    fields["observing"] = observing
    settings = build_settings(fields["config"], log_tokens=observing.log_tokens)
    paging = plain.get("paging")
    fields["paging"] = paging_json.from_json(
        paging or {}, settings=settings, thread=fields["id"]
    )
    memory = plain.get("memory") or {}
    fields["memory"] = memory_json.from_json(memory, thread=fields["id"])
    fields["knowledge"] = Knowledge.from_json(plain.get("knowledge") or {})
    fields["calls"] = calls.from_json(plain.get("calls") or ())
    fields["marks"] = turn_marks.from_json(plain.get("marks") or ())
    return ThreadState(**fields)
