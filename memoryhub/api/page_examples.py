"""An example of each body about pages and turns, by the name of its schema."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from memoryhub.kernel import tools
from memoryhub.kernel.paging_config import Settings

_THREAD = "booking:204"
_THREAD_ID = "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a47"
_AT = "2026-03-01T09:30:00.250000+00:00"
_PLACE = {"thread": _THREAD, "thread_id": _THREAD_ID}
_SETTINGS = Settings()

#: What a thread is set to when nothing was said.
PAGING = {name: getattr(_SETTINGS, name) for name in _SETTINGS.__slots__}

_PAGE_IN = {
    "type": "artifact",
    "modality": "text",
    "content": {"text": "Fares of class Q can be changed once, at no cost."},
    "importance": 0.7,
    "provenance": ["slot-4"],
    "hint": "fare rules of class Q",
    "meta": {"mime_type": "text/plain"},
}
_WRITTEN = {
    **_PLACE,
    "seq": 14,
    "page_id": "fare-rules",
    "version": 1,
    "mapped": True,
    "evictions": ["slot-0"],
}
_PAGE = {
    "page_id": "fare-rules",
    "version": 1,
    "type": "artifact",
    "modality": "text",
    "importance": 0.7,
    "role": None,
    "slot": None,
    "tokens": 16,
    "thread_id": _THREAD_ID,
    "seq": 14,
    "levels": [{"level": 0, "tokens": 16}],
    "tier": "L0",
    "level": 0,
    "pinned": "recent",
}
_ENVELOPE = {
    "page_id": "fare-rules",
    "modality": "text",
    "level": 0,
    "tier": "L0",
    "content": _PAGE_IN["content"],
    "meta": {
        "source_tier": "L2",
        "mime_type": "text/plain",
        "size_bytes": 60,
        "dimensions": None,
        "duration_seconds": None,
    },
}
_EFFECTS = {
    "promoted_to_working_set": True,
    "tokens_est": 16,
    "evictions": [],
    "faults_left": 2,
    "fault_tokens_left": 8176,
    "offset": None,
    "next_offset": None,
}
_BUDGET = {
    "budget_tokens": 128000,
    "reserved_tokens": 4000,
    "usable_tokens": 124000,
    "used_tokens": 31000,
    "utilization": 0.25,
    "pinned_tokens": 1200,
    "explicit_tokens": 400,
    "protected_tokens": 0,
    "evict_at_tokens": 105400,
    "evict_to_tokens": 86800,
}
_FRAME = {
    "page_id": "fare-rules",
    "type": "artifact",
    "modality": "text",
    "role": None,
    "version": 1,
    "level": 0,
    "tokens": 24,
    "importance": 0.7,
    "recalled": False,
    "references": 1,
    "cause_seq": 14,
    "cause": "page.created",
    "rule": None,
    "protected_until": None,
    "score": 0.62,
    "terms": [
        {"name": "recency", "value": 1.0, "adds": 0.4},
        {"name": "value", "value": 0.55, "adds": 0.22},
        {"name": "penalty", "value": 0.0, "adds": 0.0},
    ],
    "rank": 1,
}
_HOT = {
    "page_id": "slot-0",
    "type": "transcript",
    "modality": "text",
    "tokens": 12,
    "references": 1,
    "score": 0.31,
    "since_seq": 13,
    "unmapped": False,
    "too_large": False,
}
_COUNTS = {
    "hits": 8,
    "misses": 2,
    "hit_rate": 0.8,
    "faults": 1,
    "faults_by_reason": {"resolve_reference": 1},
    "faults_by_tier": {"L2": 1},
    "refusals": 0,
    "refusals_by_code": {},
    "referenced": 3,
    "fault_rate": 0.25,
    "refaults": 0,
    "mapped": 2,
    "evictions": 1,
    "evictions_by_cause": {"pressure": 1},
    "lowerings": 0,
    "saved_tokens": 0,
}
_MUTATION = {
    "thread_id": _THREAD_ID,
    "inherited": False,
    "seq": 14,
    "at": _AT,
    "type": "create",
    "event": "page.created",
    "actor": "agent:Zk3fW0aB",
    "page_id": "fare-rules",
    "turn": 2,
    "cause": "command",
    "by": "tool",
    "body": {"page_id": "fare-rules", "tokens": 16, "mapped": True},
}
_REQUEST = {
    "messages": [
        {"role": "developer", "content": "You book flights."},
        {"role": "user", "content": "Is seat 12A free?"},
    ],
    "tools": orjson.loads(tools.DEFINITIONS[tools.CURRENT]),
}
_PACKED = {
    "turn": 3,
    "seq": 17,
    "request": _REQUEST,
    "sha256": hashlib.sha256(orjson.dumps(_REQUEST)).hexdigest(),
    "tokens": 131,
    "tokenizer": "est/1",
    "included": ["system-prompt", "slot-5"],
    "cut": [{"page_id": "slot-4", "tokens": 1200, "shown_tokens": 485}],
    "omitted": ["fare-rules"],
}
_TURN = {
    "turn": 3,
    "thread_id": _THREAD_ID,
    "inherited": False,
    "seq": 16,
    "at": _AT,
    "mode": "strict",
    "continues": False,
    "over_budget": False,
    "recorded": True,
    "packed_seq": 17,
    "packer": "pack/1",
    "rules": "strict/1",
    "budget": 128000,
    "tokens": 131,
    "tokenizer": "est/1",
    "bytes": 612,
    "prefix_tokens": 90,
    "pages": 2,
    "counts": {"hits": 1},
}
_REASON = {
    "thread_id": _THREAD_ID,
    "seq": 14,
    "event": "page.created",
    "cause": "command",
    "by": "tool",
}
_CALL = {"name": "page_fault", "arguments": '{"page_id": "fare-rules"}'}

_OWN_TOOL = {
    "name": "find_flight",
    "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
}

EXAMPLES: dict[str, Any] = {
    "PageIn": {"page_id": "fare-rules", **_PAGE_IN},
    "PagesIn": {"items": [{"page_id": "fare-rules", **_PAGE_IN}]},
    "PagePut": _PAGE_IN,
    "PagePatch": {"importance": 0.9, "hint": "what class Q may change"},
    "PromptIn": {"text": "You book flights."},
    "ToolsIn": {"items": [_OWN_TOOL]},
    "FaultIn": {"level": 2, "reason": "user_requested_recall"},
    "MapIn": {"level": 0},
    "ActIn": {},
    "ReferenceIn": {"how": "cited"},
    "InvalidateIn": {"tier": "L1"},
    "TurnIn": {
        "items": [
            {
                "from": "user",
                "to": "assistant",
                "type": "chat.user",
                "content": {"role": "user", "content": "Is seat 12A free?"},
            }
        ]
    },
    "CallIn": {"id": "call_7", "type": "function", "function": _CALL},
    "WrittenOut": _WRITTEN,
    "WrittenBatchOut": {"items": [_WRITTEN]},
    "PagesOut": {"tokenizer": "est/1", "items": [_PAGE], "next": None},
    "PageViewOut": {
        **_PAGE,
        "tokenizer": "est/1",
        "hint": _PAGE_IN["hint"],
        "provenance": ["slot-4"],
        "page": _ENVELOPE,
    },
    "EffectOut": {
        **_PLACE,
        "seq": 15,
        "page_id": "fare-rules",
        "tier": "L0",
        "level": 0,
        "pinned": True,
        "evictions": [],
    },
    "DeletedOut": {**_PLACE, "seq": 18, "page_id": "fare-rules"},
    "FaultOut": {"page": _ENVELOPE, "effects": _EFFECTS},
    "WorkingSetOut": {
        "thread": _THREAD,
        "seq": 17,
        "turn": 3,
        "budget": _BUDGET,
        "frames": [_FRAME],
        "hot": [_HOT],
        "over_budget": False,
        "thrash_index": 0.0,
    },
    "TlbOut": {
        "thread": _THREAD,
        "seq": 17,
        "size": 512,
        "hits": 8,
        "misses": 2,
        "hit_rate": 0.8,
        "items": [
            {
                **{n: _PAGE[n] for n in ("page_id", "version", "type", "modality")},
                "importance": 0.7,
                "tier": "L0",
                "levels": _PAGE["levels"],
            }
        ],
    },
    "PagingOut": {
        "thread": _THREAD,
        "seq": 17,
        "turn": 3,
        "budget": _BUDGET,
        "pages": 7,
        "mapped": 6,
        "hot": 1,
        "exchanges": 2,
        "resident_rate": 0.5,
        "resident_rate_in_all": 0.5,
        "total": _COUNTS,
        "this_turn": _COUNTS,
        "turns": [{"turn": 2, "resident_rate": 0.5, "counts": _COUNTS}],
        "thrash_index": 0.0,
        "over_budget": False,
        "verdict": {"thrashing": False, "reasons": [], "pages": []},
    },
    "ManifestOut": {
        "thread": _THREAD,
        "turn": 3,
        "mapped": 6,
        "tokenizer": "est/1",
        "working_set": [
            {
                "page_id": "fare-rules",
                "modality": "text",
                "level": 0,
                "tokens_est": 24,
                "importance": 0.7,
            }
        ],
        "available_pages": [
            {
                "page_id": "slot-0",
                "modality": "text",
                "tier": "L1",
                "levels": [0, 1, 2, 3],
                "hint": "[user] Is seat 12A free?",
            }
        ],
        "omitted": 0,
        "policies": {
            "faults_allowed": True,
            "max_faults_per_turn": 3,
            "faults_left": 3,
            "upgrade_budget_tokens": 8192,
            "prefer_levels": [2, 1, 0],
        },
    },
    "MutationsOut": {"items": [_MUTATION], "next": None},
    "DroppedOut": {**_PLACE, "seq": 19, "dropped": 6},
    "TurnOut": {**_PLACE, **_PACKED},
    "ContextOut": {"thread": _THREAD, "verified": True, **_PACKED},
    "TurnsOut": {"items": [_TURN], "next": None},
    "TurnLineOut": _TURN,
    "DiffOut": {
        "thread": _THREAD,
        "base": 2,
        "turn": 3,
        "counts": {"entered": 1, "unchanged": 4},
        "tokens_delta": 24,
        "request_tokens_delta": 24,
        "changes": [
            {
                "page_id": "fare-rules",
                "kind": "entered",
                "type": "artifact",
                "level_before": None,
                "level_after": 0,
                "version_before": None,
                "version_after": 1,
                "tokens_before": 0,
                "tokens_after": 24,
                "moved": False,
                "reason": _REASON,
            }
        ],
    },
    "PrefixOut": {
        "thread": _THREAD,
        "turn": 3,
        "tokens": 131,
        "bytes": 612,
        "prefix_tokens": 90,
        "prefix_bytes": 400,
        "share": 0.687,
        "order": ["system", "rules", "context", "manifest", "exchange", "tools"],
        "section": "context",
        "place": 4,
        "page_id": "fare-rules",
        "cause": "entered",
        "reason": _REASON,
        "costs": {"small": 0.00003},
    },
    "ToolMessageOut": {
        "role": "tool",
        "tool_call_id": "call_7",
        "name": "page_fault",
        "content": "page slot-0 · transcript · full · 12 tokens · 2 faults left\n\n"
        "Is seat 12A free?",
    },
    "OwnToolsOut": {"items": [_OWN_TOOL], "seq": 17, "tokens": 41},
    "ToolsOut": {"tools": _REQUEST["tools"], "version": tools.CURRENT},
}
