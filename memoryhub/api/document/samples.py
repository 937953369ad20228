"""Example values that schemas share."""

from __future__ import annotations

from typing import Any, Final

import orjson

from memoryhub.kernel.memory.nouns import LIMITS, build_measured_fields
from memoryhub.kernel.slices import MeasurePlace
from memoryhub.kernel.state.bodies import Flag
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.tools import tools


def build_measures(place: MeasurePlace) -> dict[str, Any]:
    """Build an example of the reported measures of a place, one field of each noun."""
    return {
        name: kind is Flag or 1 for name, kind in build_measured_fields(place).items()
    }


AT: Final = "2026-03-01T09:30:00+00:00"
UNTIL: Final = "2026-03-01T10:30:00+00:00"
THREAD_ID: Final = "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a47"
THREAD_NAME: Final = "booking:204"
#: Name and id of a thread in answers.
PLACE: Final = {"thread": THREAD_NAME, "thread_id": THREAD_ID}

SUBJECT_ID: Final = "01939d5e-6bf2-7e08-b6aa-5f0c1d2e3f40"
_SETTINGS = PagingSettings()

#: Default settings of a thread.
PAGING: Final = {
    **{name: getattr(_SETTINGS, name) for name in _SETTINGS.__slots__},
    "recall_tokens": _SETTINGS.recall_room,
}

SLOT_IN: Final = {
    "from": "user",
    "to": "assistant",
    "type": "chat.user",
    "content": {"role": "user", "content": "Is seat 12A free?"},
}

THREAD: Final[dict[str, Any]] = {
    "thread": "booking:204",
    "thread_id": THREAD_ID,
    "status": "open",
    "seq": 3,
    "scope": {"agent_type": "booking", "agent_instance": None, "session": "s-204"},
    "labels": {"channel": "web", "trial": 1},
    "config": {
        "max_slots": 50000,
        "retention_idle_days": None,
        **{name: limit.default for name, limit in LIMITS.items()},
        "default_ttl_seconds": None,
        **PAGING,
    },
    "subject_id": SUBJECT_ID,
    "parent_id": None,
    "fork_seq": None,
    "lineage": [],
    "slots": 2,
    "inherited": 0,
    "turns": 0,
    "tokens": 31,
    "bytes": 120,
    "created_at": AT,
    "last_event_at": AT,
    "last_active_at": AT,
}

PAGE: Final = {
    "page_id": "fare-rules",
    "version": 1,
    "type": "artifact",
    "modality": "text",
    "importance": 0.7,
    "role": None,
    "slot": None,
    "tokens": 16,
    "thread_id": THREAD_ID,
    "seq": 14,
    "levels": [{"level": 0, "tokens": 16}],
    "tier": "L0",
    "level": 0,
    "pinned": "recent",
}

#: Request of a passive turn, which has no tools.
REQUEST: Final = {
    "messages": [
        {"role": "system", "content": "You book flights."},
        {"role": "user", "content": "Is seat 12A free?"},
    ],
}
#: The first tool of a model.
TOOLS: Final = orjson.loads(tools.DEFINITIONS[tools.CURRENT])[:1]
