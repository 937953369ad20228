"""Routes that name a thread or a subject, and with what to ask them of anybody."""

from __future__ import annotations

import re
from typing import Any

from tests.api.client import PAGE, SLOT
from tests.matrix import routes

SAID = {**SLOT, "content": "I like {w}, says {me}."}
KEPT = {**PAGE, "content": {"text": "{w} of the town."}}
FACT = {"entity": "user", "predicate": "likes", "value": "{w}"}
KEY = {"op": "set", "key": "seat", "value": "{w}"}
NOTE = {"text": "{w} again"}
#: Under the name of a thread, and under the id of its subject.
OF_BOTH: dict[str, Any] = {
    "put /blocks/{block}": {"text": "Likes {w}."},
    "post /blocks/{block}/append": {"text": " And {w}."},
    "post /blocks/{block}/insert": {"line": 0, "text": "First {w}."},
    "post /blocks/{block}/replace": {"old": "And", "new": "Or"},
    "post /blocks/{block}/revert": {"version": 1},
    "delete /blocks/{block}": None,
    "post /facts": FACT,
    "post /facts:batch": {"items": [FACT]},
}
#: What writes, in an order in which each finds what it needs. In bodies `{w}` is a word
#: and `{me}` whose it is; `{p}` is what the key says before names of threads.
OF_A_THREAD: dict[str, Any] = {
    "put ": {"config": {"auto_pin_turns": 0}},
    "patch ": {"labels": {"drink": "{w}"}, "config": {"observe": True}},
    "post /slots": SAID,
    "post /slots:batch": {"items": [SAID, SAID]},
    "post /slots:strike": {"indexes": [2]},
    "post /observations": {
        "from": 0,
        "to": 1,
        "epoch": 0,
        # So much that it can be condensed.
        "lines": [
            {"mark": mark, "text": f"{{w}}, says {{me}}.{' And again.' * 20}"}
            for mark in ("low", "medium")
        ],
    },
    "patch /observer": {"observer": "Keep {w}.", "reflector": "Join {w}."},
    "post /observer:resume": {},
    "post /observer:run": {},
    "post /observer:activate": {},
    "post /observer:reflect": {},
    "post /observer:abort": {},
    "put /system-prompt": {"text": "Offer {w}."},
    "put /tools": {"items": []},
    "put /pages/{page_id}": KEPT,
    "post /pages": {**KEPT, "page_id": "other"},
    "post /pages:batch": {"items": [{**KEPT, "page_id": "third"}]},
    "patch /pages/{page_id}": {"importance": 0.9},
    "post /pages/{page_id}/fault": {},
    "post /pages/{page_id}/map": {},
    "post /pages/{page_id}/reference": {},
    "post /pages/{page_id}/pin": {},
    "post /turns": {},
    "post /turns/{turn}/feedback": {"corrected": True},
    "put /turns/{turn}/mark": {"mark": "wrong", "comment": "{w}"},
    "delete /turns/{turn}/mark": None,
    "post /tool-calls": {},
    "post /tool-calls:record": {
        "name": "look",
        "arguments": {"for": "{w}"},
        "outcome": "success",
        "result": "{w}",
    },
    "post /prefetch:clear": {},
    "post /tlb:flush": {},
    "post /tlb:invalidate": {"tier": "L0"},
    "post /pages/{page_id}/unpin": {},
    "post /pages/{page_id}/evict": {},
    "delete /pages/{page_id}": None,
    "put /keys/{key}": {"value": "{w}"},
    "post /keys:batch": {"items": [KEY]},
    "patch /keys/{key}": {"ttl_seconds": 86_400},
    "put /task": {"status": "running"},
    "patch /task": {"current_step": 1},
    "post /notes": NOTE,
    "post /notes:batch": {"items": [NOTE]},
    "post /checkpoints": {"name": "{w}"},
    "delete /keys/{key}": None,
    "post /keys:clear": {},
    "post /notes:clear": {},
    "delete /task": None,
    "post /checkpoints/{checkpoint}:restore": {},
    "delete /checkpoints/{checkpoint}": None,
    "post :fork": {"thread": "{p}{w}"},
    "post :close": {},
    "post :reopen": {},
    **OF_BOTH,
}
OF_A_SUBJECT: dict[str, Any] = {
    **OF_BOTH,
    "put /items/{namespace}/{key}": {"value": {"drink": "{w}"}},
    "delete /items/{namespace}/{key}": None,
    "post /facts:configure": {
        "entity": "user",
        "predicate": "likes",
        "cardinality": "multi",
    },
    "post /facts/{fact}:end": {"at": "2031-01-01T00:00:00Z"},
    "post /facts/{fact}:retract": {"reason": "wrong"},
    "post /episodes": {"thread": "{p}t-1", "input": "{w}?", "output": "{w}, {me}."},
    "post /episodes:consolidate": {"thread": "{p}t-1"},
    "post /episodes:consolidated": {"thread": "{p}t-1", "index": 0},
    "post :restrict": {"basis": "claims"},
    "post :unrestrict": {},
}
WRITES = {
    label.replace(" ", f" /{place}", 1): body
    for place, bodies in (
        ("threads/{thread}", OF_A_THREAD),
        ("subjects/{subject}", OF_A_SUBJECT),
    )
    for label, body in bodies.items()
}
ASKED = {"query": "tea rye jazz Bergen likes town", "limit": 50, "explain": True}
#: Routes that read by a POST.
READS: dict[str, Any] = {
    "post /threads/{thread}/search": {"query": "tea rye jazz Bergen likes town"},
    "post /threads/{thread}/recall": ASKED,
    "post /threads/{thread}/tool-calls:check": {
        "name": "look",
        "arguments": {"for": "$v1"},
    },
    "post /subjects/{subject}/recall": ASKED,
    "post /subjects/{subject}/facts:search": {"predicate": "likes", "ended": True},
    "post /subjects/{subject}/items:search": {"namespace": "trips"},
}
#: Routes in neither list, with the reasons.
OTHERWISE = {
    **dict.fromkeys(
        (
            "post /threads/{thread}/blocks/{block}/rename",
            "post /subjects/{subject}/blocks/{block}/rename",
        ),
        "later acts would not find the block",
    ),
    "post /subjects/{subject}/erasures": "rules plan and confirm them",
    "post /subjects/{subject}/export": "is compared file by file",
}
OPERATIONS = {
    label.replace(" /api/v1", " "): each for label, each in routes.OPERATIONS.items()
}
NAMING = {label for label in OPERATIONS if re.search("{(thread|subject)}", label)}
READS |= dict.fromkeys(filter(re.compile("get ").match, sorted(NAMING)))
#: By the key of a person, to which nobody else is there.
LISTS: dict[str, Any] = {
    "get /threads": None,
    "post /threads:search": {},
    "get /erasures": None,
    "get /turns:marked": None,
}
