"""An example of each body, by the name of its schema. A test validates them all."""

from __future__ import annotations

from typing import Any

from memoryhub.api import erasure_examples, memory_examples, page_examples

_THREAD_ID = "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a47"
_SUBJECT_ID = "01939d5e-6bf2-7e08-b6aa-5f0c1d2e3f40"
_AT = "2026-03-01T09:30:00.250000+00:00"

_SLOT_IN = {
    "from": "user",
    "to": "assistant",
    "type": "chat.user",
    "content": {"role": "user", "content": "Is seat 12A free?"},
}
_DESCRIBED = {
    "scope": {"agent_type": "booking", "session": "s-204"},
    "labels": {"channel": "web", "trial": 1},
    "config": {"max_slots": 50000},
}
_APPENDED = {
    "thread": "booking:204",
    "thread_id": _THREAD_ID,
    "seq": 3,
    "index": 1,
    "turn": 0,
    "at": _AT,
    "page_id": "slot-1",
    "mapped": True,
}
_HANDLER = {
    "own_name": "assistant",
    "is_self_call": False,
    "usage_instructions": "",
    "todo_nudge": "",
}
_SLOT = {
    **_SLOT_IN,
    "thread": "booking:204",
    "thread_id": _THREAD_ID,
    "index": 0,
    "seq": 2,
    "at": _AT,
    "turn": 0,
    "role": "user",
    "tokens": 12,
    "bytes": 46,
    "agent_at": None,
    "inherited": False,
    "erased": False,
    "handler": _HANDLER,
}
_THREAD = {
    "thread": "booking:204",
    "thread_id": _THREAD_ID,
    "status": "open",
    "seq": 3,
    "scope": {"agent_type": "booking", "agent_instance": None, "session": "s-204"},
    "labels": {"channel": "web", "trial": 1},
    "config": {
        "max_slots": 50000,
        "retention_idle_days": None,
        **memory_examples.LIMITS,
        **page_examples.PAGING,
    },
    "subject_id": _SUBJECT_ID,
    "parent_id": None,
    "fork_seq": None,
    "lineage": [],
    "slots": 2,
    "inherited": 0,
    "turns": 0,
    "tokens": 31,
    "bytes": 120,
    "created_at": _AT,
    "last_event_at": _AT,
    "last_active_at": _AT,
}
_EVENT = {
    "seq": 2,
    "at": _AT,
    "type": "slot.appended",
    "actor": "agent:Zk3fW0aB",
    "body": {"index": 0, "from": "user", "to": "assistant", "tokens": 12, "bytes": 46},
    "sealed": True,
    "erased": False,
    "payload": {"content": _SLOT_IN["content"]},
    "chain": "9f" * 32,
}
_SUBJECT = {"id": _SUBJECT_ID, "state": "active", "generation": 1}
_USE = {
    "prefix": "Zk3fW0aB",
    "first_day": "2026-03-01",
    "last_day": "2026-03-01",
    "reads": 12,
    "writes": 3,
}
_PROFILE = {
    **_SUBJECT,
    "anonymous": False,
    "basis": None,
    "epoch": 1,
    "created_at": _AT,
    "first_seen": _AT,
    "last_seen": _AT,
    "threads": {"open": 1},
    "events": 3,
    "kinds": {
        "thread.created": {"events": 1, "sealed": 0, "erased": 0, "bytes": 0},
        "slot.appended": {"events": 2, "sealed": 2, "erased": 0, "bytes": 182},
    },
    "bytes": 182,
    "turns": 0,
    "slots": 2,
    "pages": 2,
    "deleted_pages": 0,
    "levels": {"1": 1},
    "keys": 0,
    "notes": 0,
    "checkpoints": 0,
    "tombstones": {},
    "uses": [_USE],
    "days": [_USE],
    "holds": [],
    "erasures": [],
    "retention_due_at": None,
}
_TALLY = {"top": {"chat.user": 1, "chat.assistant": 1}, "other": 0}

EXAMPLES: dict[str, Any] = {
    **page_examples.EXAMPLES,
    **memory_examples.EXAMPLES,
    **erasure_examples.EXAMPLES,
    "UserIdIn": {"user_id": "customer-7"},
    "BasisIn": {"basis": "accuracy_contested"},
    "UnrestrictIn": {},
    "ExportIn": {},
    "SubjectOut": _SUBJECT,
    "ProfileOut": _PROFILE,
    "SlotIn": _SLOT_IN,
    "SlotsIn": {"items": [_SLOT_IN]},
    "ThreadIn": {"user_id": "customer-7", **_DESCRIBED},
    "ThreadPatch": _DESCRIBED,
    "ForkIn": {"thread": "booking:204-retry", "seq": 3},
    "CloseIn": {"reason": "completed"},
    "ReopenIn": {},
    "SearchIn": {"user_id": "customer-7", "status": "open"},
    "AppendedOut": _APPENDED,
    "AppendedBatchOut": {"items": [_APPENDED]},
    "SlotOut": _SLOT,
    "SlotsOut": {"items": [_SLOT], "next": None},
    "HandlerViewOut": {
        **{n: _SLOT[n] for n in ("thread", "index", "seq", "at", "from", "to")},
        "type": "chat.user",
        **_HANDLER,
        "content": _SLOT_IN["content"],
    },
    "ThreadOut": _THREAD,
    "ThreadsOut": {"items": [_THREAD], "next": None},
    "ClosedOut": {
        "thread": "booking:204",
        "thread_id": _THREAD_ID,
        "seq": 4,
        "status": "closed",
    },
    "EventsOut": {"items": [_EVENT], "next": "2"},
    "ThreadStatsOut": {
        "thread": "booking:204",
        "seq": 3,
        "slots": 2,
        "inherited": 0,
        "turns": 0,
        "events": 3,
        "tokens": 31,
        "bytes": 120,
        "max_slots": 50000,
        "headroom": 49998,
        "first_at": _AT,
        "last_at": _AT,
        "idle_seconds": 12.5,
        "types": _TALLY,
        "senders": _TALLY,
        "forks": 0,
        "scope": _THREAD["scope"],
        "created_at": _AT,
        **memory_examples.STATS,
    },
    "ReceiptIn": {
        "receipt": {
            "v": "memoryhub.receipt/2",
            "receipt": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a48",
            "status": "verified_with_residue",
            "root": "3f" * 32,
            "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
            "sig": "5f…",
        }
    },
    "ReceiptVerdictOut": {"valid": False, "reason": "bad_signature"},
    "PublicKeysOut": {
        "format": "memoryhub.public-keys/2",
        "root": "3f" * 32,
        "keys": {
            "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49": {
                "public": "ab" * 32,
                "by": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
                "sig": "cd" * 64,
            }
        },
    },
    "ProjectStatsOut": {
        "taken_at": _AT,
        "age_seconds": 4.2,
        "threads": {"open": 3, "closed": 1, "retired": 0, "erased": 0},
        "max_threads": 100000,
        "nearly_full_threads": 0,
        "slots": 9,
        "tokens": 310,
        "bytes": 1200,
    },
}
