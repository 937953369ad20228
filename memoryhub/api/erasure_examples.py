"""Examples of the bodies of erasures, by the names of their schemas."""

from __future__ import annotations

from typing import Any

_SUBJECT_ID = "01939d5e-6bf2-7e08-b6aa-5f0c1d2e3f40"
_ERASURE_ID = "01939d60-11c4-7d2b-8f53-9a7c0b1e2d34"
_AT = "2026-03-01T09:30:00.250000+00:00"
_LATER = "2026-03-01T09:45:00.250000+00:00"

_EVENTS = {
    "place": "events",
    "erase": 2,
    "derive": 0,
    "keep": 0,
    "why": None,
    "method": "nulled",
    "fenced": None,
    "erased": None,
}
_ERASURE = {
    "id": _ERASURE_ID,
    "subject_id": _SUBJECT_ID,
    "scope": "subject",
    "reason": "consent_withdrawn",
    "ticket": "LEGAL-42",
    "before": None,
    "record": None,
    "restrict": False,
    "state": "planned",
    "waiting_on": None,
    "count": 2,
    "threads": 1,
    "forks": 0,
    "unlinked": 0,
    "holds": 0,
    "residue": ["backups", "key_backups", "process_memory"],
    "places": [_EVENTS],
    "times": {"planned": _AT},
    "expires_at": _LATER,
}
_FENCED = {
    **_ERASURE,
    "state": "fenced",
    "places": [{**_EVENTS, "fenced": 2, "erased": 0}],
    "times": {"planned": _AT, "fenced": _LATER},
}

EXAMPLES: dict[str, Any] = {
    "ErasureIn": {
        "scope": "subject",
        "reason": "consent_withdrawn",
        "ticket": "LEGAL-42",
        "restrict": True,
    },
    "ConfirmIn": {"plan_token": "5f" * 32, "count": 2},
    "CancelIn": {},
    "PlanOut": {**_ERASURE, "plan_token": "5f" * 32},
    "ErasureOut": _FENCED,
    "ErasuresOut": {"items": [_FENCED], "next": None},
    "ReceiptOut": {
        "v": "memoryhub.receipt/2",
        "receipt": "01939d60-77aa-7c1e-a111-0f1e2d3c4b5a",
        "erasure": _ERASURE_ID,
        "scope": "subject",
        "status": "verified_with_residue",
        "planned": {"events": 2},
        "fenced": {"events": 2},
        "residue": [
            {
                "what": "backups",
                "until": "2026-03-31",
                "control": "contents_sealed",
                "names": ["threads", "keys", "pages"],
            }
        ],
        "root": "3f" * 32,
        "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
        "sig": "ab" * 64,
    },
    "AddendaOut": {
        "items": [
            {
                "v": "memoryhub.receipt-addendum/1",
                "receipt": "01939d61-90b2-7f4c-8c05-6e7d8c9b0a12",
                "erasure": _ERASURE_ID,
                "to": "01939d60-77aa-7c1e-a111-0f1e2d3c4b5a",
                "to_sha256": "cd" * 32,
                "what": "rewritten",
                "numbers": {},
                "issued_at": _LATER,
                "root": "3f" * 32,
                "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
                "sig": "ab" * 64,
            }
        ]
    },
}
