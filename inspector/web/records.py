"""Records: lines as JSON with the names of the agent API. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.queries.export.imports import ImportSource
from memoryhub.queries.threads.events import ThreadEventLine
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.threads.threads import ThreadLine

Record = dict[str, Any]

#: Fields of each kind of record, in the order of CSV headings.
THREAD = (
    "thread", "id", "subject", "status", "agent_type", "agent_instance", "session",
    "labels", "parent", "fork_seq", "head_seq", "slots", "max_slots", "turns", "tokens",
    "bytes", "created_at", "last_event_at", "last_active_at",
)  # fmt: skip
SOURCE = (
    "source", "runs", "slots", "turns", "rewards", "reward_mean", "reward_min",
    "reward_max", "first_at", "last_at",
)  # fmt: skip
EVENT = ("thread", "seq", "at", "type", "actor", "body", "chain", "erased")
SLOT = (
    "thread", "index", "seq", "at", "turn", "from", "to", "type", "role", "tokens",
    "bytes", "agent_at", "own_name", "is_self_call", "inherited", "erased",
)  # fmt: skip
#: Fields added to a record when its content is asked for.
EVENT_CONTENT = ("payload",)
SLOT_CONTENT = ("content", "usage_instructions", "todo_nudge")


def build_thread_record(line: ThreadLine) -> Record:
    return {
        "thread": line.name,
        "id": str(line.id),
        "subject": str(line.subject),
        "status": line.status,
        "agent_type": line.agent_type,
        "agent_instance": line.agent_instance,
        "session": line.session,
        "labels": dict(line.labels),
        "parent": str(line.parent) if line.parent else None,
        "fork_seq": line.fork_seq,
        "head_seq": line.head_seq,
        "slots": line.slots,
        "max_slots": line.max_slots,
        "turns": line.turns,
        "tokens": line.tokens,
        "bytes": line.bytes,
        "created_at": line.created_at.isoformat(),
        "last_event_at": line.last_event_at.isoformat(),
        "last_active_at": line.last_active_at.isoformat()
        if line.last_active_at
        else None,
    }


def build_source_record(line: ImportSource) -> Record:
    rewards = line.rewards
    return {
        "source": line.name,
        "runs": line.runs,
        "slots": line.slots,
        "turns": line.turns,
        "rewards": rewards.count if rewards else 0,
        "reward_mean": rewards.mean if rewards else None,
        "reward_min": rewards.least if rewards else None,
        "reward_max": rewards.most if rewards else None,
        "first_at": line.first_at.isoformat(),
        "last_at": line.last_at.isoformat(),
    }


def build_event_record(name: str, line: ThreadEventLine) -> Record:
    return {
        "thread": name,
        "seq": line.seq,
        "at": line.at.isoformat(),
        "type": line.type,
        "actor": line.actor,
        "body": dict(line.body),
        "chain": line.chain,
        "erased": line.erased,
        "payload": line.payload,
    }


def build_slot_record(name: str, line: SlotLine) -> Record:
    return {
        "thread": name,
        "index": line.index,
        "seq": line.seq,
        "at": line.at.isoformat(),
        "turn": line.turn,
        "from": line.from_name,
        "to": line.to_name,
        "type": line.type,
        "role": line.role,
        "tokens": line.tokens,
        "bytes": line.bytes,
        "agent_at": line.agent_at.isoformat() if line.agent_at else None,
        "own_name": line.own_name,
        "is_self_call": line.is_self_call,
        "inherited": line.inherited,
        "erased": line.erased,
        **_build_content_fields(line),
    }


def build_handler_record(name: str, line: SlotLine) -> Record:
    """Build the record of the slot as the receiving handler got it."""
    return {
        "thread": name,
        "index": line.index,
        "seq": line.seq,
        "at": line.at.isoformat(),
        "from": line.from_name,
        "to": line.to_name,
        "type": line.type,
        "own_name": line.own_name,
        "is_self_call": line.is_self_call,
        **_build_content_fields(line),
    }


def _build_content_fields(line: SlotLine) -> Record:
    """Build the fields that an erasure takes; empty for an erased slot."""
    return {
        "content": None if line.erased else line.content,
        "usage_instructions": "" if line.erased else line.usage_instructions,
        "todo_nudge": "" if line.erased else line.todo_nudge,
    }
