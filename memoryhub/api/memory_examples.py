"""An example of each body about working memory, by the name of its schema."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.notes import DEFAULT_MAX_NOTES
from memoryhub.kernel.working_memory import DEFAULT_MAX_KEY_BYTES, DEFAULT_MAX_KEYS

_THREAD = "booking:204"
_THREAD_ID = "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a47"
_AT = "2026-03-01T09:30:00.250000+00:00"
_UNTIL = "2026-03-01T10:30:00.250000+00:00"
_PLACE = {"thread": _THREAD, "thread_id": _THREAD_ID}

_KEY = {
    "key": "seat",
    "seq": 41,
    "set_at": _AT,
    "expires_at": _UNTIL,
    "bytes": 64,
}
_KEY_VALUE = {**_KEY, "value": {"letter": "A", "row": 12}, "erased": False}
_CHANGES = [
    {"op": "set", "key": "seat", "value": "12B", "if_match": 41},
    {"op": "delete", "key": "hold"},
]
_TASK_IN = {
    "status": "running",
    "description": "Rebook the customer to Saturday.",
    "current_step": 3,
    "progress_percent": 60.0,
    "data": {"flight": "LH 432"},
}
_TASK = {**_TASK_IN, "started_at": _AT, "updated_at": _AT, "version": 42}
_NOTE = {"seq": 43, "at": _AT, "bytes": 64, "text": "The fare allows one free change."}
_CHECKPOINT_IN = {"name": "before-payment", "description": "The seat is held."}
_CHECKPOINT = {
    **_CHECKPOINT_IN,
    "seq": 44,
    "at": _AT,
    "auto": False,
    "parent": None,
    "keys": 2,
    "notes": 1,
    "has_task": True,
    "touched": None,
}
_SIDE = {"seq": 41, "expires_at": _UNTIL, "bytes": 64}
_COMPARISON = {
    "seq": 52,
    "keys": [
        {
            "key": "seat",
            "kind": "changed",
            "before": {**_SIDE, "value": None, "erased": False},
            "after": {
                "seq": 50,
                "expires_at": None,
                "bytes": 64,
                "value": None,
                "erased": False,
            },
        }
    ],
    "next": None,
    "task": ["status", "current_step"],
    "notes_added": [51],
    "notes_removed": [],
    "frames_in": ["slot-9"],
    "frames_out": ["slot-2"],
    "pins_in": [],
    "pins_out": [],
}

#: Of a thread where nothing was said.
LIMITS = {
    "max_keys": DEFAULT_MAX_KEYS,
    "max_key_bytes": DEFAULT_MAX_KEY_BYTES,
    "max_notes": DEFAULT_MAX_NOTES,
    "default_ttl_seconds": None,
}
#: As they stand in the counts of a thread.
STATS = {
    "keys": 2,
    "key_bytes": 28,
    "expiring": 1,
    "next_expiry_at": _UNTIL,
    "default_ttl_seconds": None,
    "notes": 1,
    "note_bytes": 32,
    "has_task": True,
    "checkpoints": 1,
    "automatic": 0,
}

EXAMPLES: dict[str, Any] = {
    "KeyIn": {"value": {"letter": "A", "row": 12}, "ttl_seconds": 3600},
    "RetimeIn": {"expires_at": _UNTIL},
    "KeyChangesIn": {"items": _CHANGES},
    "EmptyIn": {},
    "SetOut": {**_PLACE, "seq": 41, "key": "seat", "expires_at": _UNTIL},
    "KeyValueOut": _KEY_VALUE,
    "KeysOut": {"items": [_KEY], "next": None},
    "ExistedOut": {"existed": True, "seq": 45},
    "ChangesOut": {
        **_PLACE,
        "items": [
            {"key": "seat", "seq": 50, "expires_at": None, "existed": None},
            {"key": "hold", "seq": None, "expires_at": None, "existed": False},
        ],
    },
    "ClearedOut": {"cleared": 2, "seq": 46},
    "TaskIn": _TASK_IN,
    "TaskPatch": {"current_step": 4, "progress_percent": 80.0},
    "TaskOut": _TASK,
    "CheckpointIn": _CHECKPOINT_IN,
    "CheckpointOut": _CHECKPOINT,
    "CheckpointsOut": {"items": [_CHECKPOINT], "next": None},
    "CompareOut": _COMPARISON,
    "RestoreIn": {"parts": ["keys", "task"], "dry_run": False},
    "RestoredOut": {
        "seq": 54,
        "parts": ["keys", "task"],
        "before": 53,
        "set": 1,
        "removed": 0,
        "expired": 0,
        "notes": 0,
        "left_out": [],
        "comparison": None,
    },
    "MemoryOut": {
        **_PLACE,
        "seq": 44,
        "task": _TASK,
        "keys": [_KEY_VALUE],
        "notes": [_NOTE],
        "checkpoints": [_CHECKPOINT],
        "stats": STATS,
    },
}
