"""API routes about people for the matrix: permitted scopes and expected refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Refused = tuple[int, str]
GONE: Refused = (410, "subject_erased")
RESTRICTED: Refused = (409, "subject_restricted")
ABSENT: Refused = (404, "not_found")
FACT = {"entity": "user", "predicate": "tier", "value": "Gold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation: target, body, and expected refusals by the state of a subject.

    `{s}` stands for a subject's id, `{e}` for an open plan's, `{d}` for an erasure that
    is done; in a body `{u}` for a `user_id`.
    """

    target: str
    body: dict[str, Any] | None = None
    #: Refusal for a foreign or an absent subject; None: the
    #: route names nobody.
    absent: Refused | None = ABSENT
    #: Refusal for a restricted or an erased person; None: as for others.
    restricted: Refused | None = None
    erased: Refused | None = GONE
    #: Refusal by the state of the person, after access was granted.
    conflict: Refused | None = None


PEOPLE: dict[str, Row] = {
    "post /api/v1/subjects:resolve": Row(
        target="/subjects:resolve", body={"user_id": "{u}"}
    ),
    "post /api/v1/subjects:readmit": Row(
        target="/subjects:readmit",
        body={"user_id": "{u}"},
        absent=(409, "not_erased"),
        conflict=(409, "not_erased"),
        erased=None,
    ),
    "get /api/v1/learning": Row(target="/learning", absent=None, erased=None),
    "put /api/v1/learning": Row(
        target="/learning", body={"ask": False}, absent=None, erased=None
    ),
    "get /api/v1/subjects/{subject}": Row(
        target="/subjects/{s}", restricted=(409, "subject_restricted")
    ),
    "get /api/v1/subjects/{subject}/episodes": Row(
        target="/subjects/{s}/episodes", restricted=(409, "subject_restricted")
    ),
    "post /api/v1/subjects/{subject}/episodes": Row(
        target="/subjects/{s}/episodes",
        body={"thread": "ann-1", "input": "Hello.", "output": "Hello, Ann."},
        restricted=(409, "subject_restricted"),
    ),
    "post /api/v1/subjects/{subject}/episodes:consolidate": Row(
        target="/subjects/{s}/episodes:consolidate",
        # No model is configured here.
        conflict=(409, "no_model"),
        body={},
        restricted=(409, "subject_restricted"),
    ),
    "post /api/v1/subjects/{subject}/episodes:consolidated": Row(
        target="/subjects/{s}/episodes:consolidated",
        body={"thread": "ann-1", "index": 0},
        restricted=(409, "subject_restricted"),
    ),
    "get /api/v1/subjects/{subject}/memory": Row(
        target="/subjects/{s}/memory", restricted=(409, "subject_restricted")
    ),
    "post /api/v1/subjects/{subject}/recall": Row(
        target="/subjects/{s}/recall",
        body={"query": "hello"},
        restricted=(409, "subject_restricted"),
    ),
    "post /api/v1/subjects/{subject}:restrict": Row(
        target="/subjects/{s}:restrict", body={"basis": "claims"}
    ),
    "post /api/v1/subjects/{subject}:unrestrict": Row(
        target="/subjects/{s}:unrestrict", body={}
    ),
    "post /api/v1/subjects/{subject}/export": Row(
        target="/subjects/{s}/export", body={}
    ),
    "post /api/v1/subjects/{subject}/erasures": Row(
        target="/subjects/{s}/erasures",
        body={"scope": "subject", "reason": "test"},
        conflict=(409, "erasure_in_progress"),
    ),
    "post /api/v1/subjects/{subject}/facts": Row(
        target="/subjects/{s}/facts", body=FACT, restricted=RESTRICTED
    ),
    "post /api/v1/subjects/{subject}/facts:batch": Row(
        target="/subjects/{s}/facts:batch",
        body={"items": [FACT]},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/facts": Row(
        target="/subjects/{s}/facts", restricted=RESTRICTED
    ),
    "post /api/v1/subjects/{subject}/facts:search": Row(
        target="/subjects/{s}/facts:search",
        body={"predicate": "tier"},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/facts:review": Row(
        target="/subjects/{s}/facts:review", restricted=RESTRICTED
    ),
    "post /api/v1/subjects/{subject}/facts:configure": Row(
        target="/subjects/{s}/facts:configure",
        body={"entity": "user", "predicate": "tier", "cardinality": "multi"},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/facts/{fact}": Row(
        target="/subjects/{s}/facts/2", restricted=RESTRICTED
    ),
    "post /api/v1/subjects/{subject}/facts/{fact}:end": Row(
        target="/subjects/{s}/facts/2:end",
        body={"at": "2030-01-01T00:00:00Z"},
        restricted=RESTRICTED,
    ),
    "post /api/v1/subjects/{subject}/facts/{fact}:retract": Row(
        target="/subjects/{s}/facts/2:retract",
        body={"reason": "wrong"},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/blocks": Row(
        target="/subjects/{s}/blocks", restricted=RESTRICTED
    ),
    "get /api/v1/subjects/{subject}/blocks/{block}": Row(
        target="/subjects/{s}/blocks/persona", restricted=RESTRICTED
    ),
    "put /api/v1/subjects/{subject}/blocks/{block}": Row(
        target="/subjects/{s}/blocks/persona",
        body={"text": "Ann."},
        restricted=RESTRICTED,
    ),
    "post /api/v1/subjects/{subject}/blocks/{block}/append": Row(
        target="/subjects/{s}/blocks/persona/append",
        body={"text": " Flies."},
        restricted=RESTRICTED,
    ),
    "post /api/v1/subjects/{subject}/blocks/{block}/insert": Row(
        target="/subjects/{s}/blocks/persona/insert",
        body={"line": 0, "text": "Flies."},
        restricted=RESTRICTED,
    ),
    "post /api/v1/subjects/{subject}/blocks/{block}/rename": Row(
        target="/subjects/{s}/blocks/gone/rename",
        body={"name": "people/ann"},
        restricted=RESTRICTED,
        conflict=(404, "page_unknown"),
    ),
    "post /api/v1/subjects/{subject}/blocks/{block}/replace": Row(
        target="/subjects/{s}/blocks/persona/replace",
        body={"old": "Ann", "new": "Ann"},
        restricted=RESTRICTED,
    ),
    "post /api/v1/subjects/{subject}/blocks/{block}/revert": Row(
        target="/subjects/{s}/blocks/persona/revert",
        body={"version": 1},
        restricted=RESTRICTED,
    ),
    "delete /api/v1/subjects/{subject}/blocks/{block}": Row(
        target="/subjects/{s}/blocks/gone",
        restricted=RESTRICTED,
        conflict=(404, "page_unknown"),
    ),
    "put /api/v1/subjects/{subject}/items/{namespace}/{key}": Row(
        target="/subjects/{s}/items/trips:oslo/seat",
        body={"value": "12A"},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/items/{namespace}/{key}": Row(
        target="/subjects/{s}/items/trips:oslo/seat", restricted=RESTRICTED
    ),
    "get /api/v1/subjects/{subject}/items": Row(
        target="/subjects/{s}/items", restricted=RESTRICTED
    ),
    "post /api/v1/subjects/{subject}/items:search": Row(
        target="/subjects/{s}/items:search",
        body={"where": [{"member": "row", "value": 12}]},
        restricted=RESTRICTED,
    ),
    "get /api/v1/subjects/{subject}/namespaces": Row(
        target="/subjects/{s}/namespaces", restricted=RESTRICTED
    ),
    "delete /api/v1/subjects/{subject}/items/{namespace}/{key}": Row(
        target="/subjects/{s}/items/trips:oslo/gone", restricted=RESTRICTED
    ),
    "get /api/v1/erasures": Row(target="/erasures", absent=None, erased=None),
    "get /api/v1/erasures/{erasure}": Row(target="/erasures/{e}", erased=None),
    "get /api/v1/erasures/{erasure}/receipt": Row(
        target="/erasures/{d}/receipt", erased=None
    ),
    "get /api/v1/erasures/{erasure}/addenda": Row(
        target="/erasures/{d}/addenda", erased=None
    ),
    "post /api/v1/erasures/{erasure}:cancel": Row(
        target="/erasures/{e}:cancel", body={}, erased=None
    ),
    "post /api/v1/erasures/{erasure}:confirm": Row(
        target="/erasures/{e}:confirm",
        body={"plan_token": "none", "count": 0},
        # The token is checked after the plan was found.
        conflict=(422, "value"),
        erased=(422, "value"),
    ),
    "post /api/v1/receipts:verify": Row(
        target="/receipts:verify", body={"receipt": {}}, absent=None, erased=None
    ),
    "get /api/v1/receipt-keys": Row(target="/receipt-keys", absent=None, erased=None),
}
