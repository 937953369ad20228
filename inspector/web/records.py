"""Records: lines as JSON, as the agent API words them. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.queries.export.imports import Source
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.threads.threads import ThreadLine

Record = dict[str, Any]

#: The fields of each kind of record, in order: the headings of a table.
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
#: What is added to each when its content is asked for.
EVENT_CONTENT = ("payload",)
SLOT_CONTENT = ("content", "usage_instructions", "todo_nudge")


def thread(line: ThreadLine) -> Record:
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


def source(line: Source) -> Record:
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


def event(name: str, line: EventLine) -> Record:
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


def slot(name: str, line: SlotLine) -> Record:
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
        **_sealed(line),
    }


def handler_view(name: str, line: SlotLine) -> Record:
    """Word what the receiving handler was given."""
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
        **_sealed(line),
    }


def _sealed(line: SlotLine) -> Record:
    """Word what an erasure takes; an erased slot shows none of it."""
    return {
        "content": None if line.erased else line.content,
        "usage_instructions": "" if line.erased else line.usage_instructions,
        "todo_nudge": "" if line.erased else line.todo_nudge,
    }
