"""Requests about keys of working memory that must be refused."""

from __future__ import annotations

from tests.api.bad_bodies import CANARY, Case
from tests.api.bad_memory import LONG, T, asked, read

KEY = f"{T}/keys/k"


def _set(row: str, code: str, status: int = 422, **fields: object) -> Case:
    return Case(
        row=row,
        method="PUT",
        target=KEY,
        body={"value": CANARY, **fields},
        status=status,
        code=code,
    )


def _build_batch_case(row: str, items: object, code: str, status: int = 422) -> Case:
    return asked(row, "POST /keys:batch", {"items": items}, code, status)


_TTLS: list[tuple[object, str]] = [
    *((ttl, "value") for ttl in (0, -1, 31_536_001, 2**62)),
    *((ttl, "type") for ttl in (1.5, 1.0, "60", True, 1e308, [60])),
]
_INSTANTS = [
    ("2020-01-01T00:00:00Z", "expiry_in_past"),
    ("2027-01-01T00:00:00", "time"),
    ("2027-01-01", "time"),
    (1_800_000_000, "time"),
    ("2027-02-30T00:00:00Z", "time"),
    ("2201-01-01T00:00:00Z", "time_range"),
    ("1969-12-31T23:59:59Z", "time_range"),
]

_KEYS = [
    *(
        case
        for name, code in (
            ("_x", "reserved_key"),
            ("mh.x", "reserved_key"),
            (LONG, "name"),
            ("-x", "name"),
            ("a%20b", "name"),
            ("%C3%A9", "name"),
            ("%2e%2e", "name"),
        )
        for case in (
            read(f"55.get.{name}", f"/keys/{name}", code),
            asked(f"55.put.{name}", f"PUT /keys/{name}", {"value": 1}, code),
            asked(f"55.patch.{name}", f"PATCH /keys/{name}", {"ttl_seconds": 1}, code),
            asked(f"55.delete.{name}", f"DELETE /keys/{name}", None, code),
        )
    ),
    read("47.key", "/keys/", "not_found", 404),
    read("50.key", "/keys/a/b", "not_found", 404),
    asked("100.missing", "PUT /keys/k", {}, "missing"),
    asked("100.ttl-only", "PUT /keys/k", {"ttl_seconds": 60}, "missing"),
    _set("100.size", "value_too_large", 413, value="x" * (256 * 1024 - 1)),
    _set("100.bytes", "value_too_large", 413, value="ä" * (128 * 1024)),
    _set("100.extra", "extra_field", ttl=60),
    _set("100.seq", "extra_field", seq=1),
    asked("100.list", "PUT /keys/k", [], "object_expected"),
    *(_set(f"101.{ttl}", code, ttl_seconds=ttl) for ttl, code in _TTLS),
    *(
        asked(f"101.patch.{ttl}", "PATCH /keys/k", {"ttl_seconds": ttl}, code)
        for ttl, code in _TTLS
    ),
    *(
        asked(f"101.two.{method}.{ttl}.{at}", f"{method} /keys/k", body, "value")
        for method in ("PUT", "PATCH")
        for ttl in (60, None)
        for at in ("2027-01-01T00:00:00Z", None)
        for body in [
            {
                **({"value": 1} if method == "PUT" else {}),
                "ttl_seconds": ttl,
                "expires_at": at,
            }
        ]
    ),
    *(_set(f"102.{at}", code, expires_at=at) for at, code in _INSTANTS),
    *(
        asked(f"102.patch.{at}", "PATCH /keys/kept", {"expires_at": at}, code)
        for at, code in _INSTANTS
    ),
    asked("102.none", "PATCH /keys/k", {}, "missing"),
    asked("102.value", "PATCH /keys/k", {"value": 1, "ttl_seconds": 1}, "extra_field"),
    read("103.absent", "/keys/none", "key_not_found", 404),
    read("104.long", f"/keys?glob={LONG}", "glob_too_complex"),
    read("104.many", f"/keys?glob={'*' * 9}", "glob_too_complex"),
    read("104.mixed", "/keys?glob=" + "*?[a]" * 3, "glob_too_complex"),
    read("104.reserved", "/keys?glob=_*", "reserved_key"),
    read("104.reserved.dot", "/keys?glob=mh.*", "reserved_key"),
    read("keys.values", "/keys?values=1", "value"),
    read("keys.sort", "/keys?sort=size", "value"),
    read("keys.prefix", "/keys?prefix=a", "extra_parameter"),
    read("keys.order", "/keys?order=desc", "extra_parameter"),
    *(
        Case(
            row=f"81.{method}.{match}",
            method=method,
            target=KEY,
            body=body,
            headers=(("if-match", match),),
            status=400,
            code="bad_precondition",
        )
        for match in (
            *("*", '"x"', 'W/"3"', "abc", "", "3,4", "1.0", "+3", "-0", "03"),
            "9" * 20,
        )
        for method, body in (("PUT", {"value": 1}), ("DELETE", None))
    ),
    *(
        Case(
            row=f"81.none.{none}",
            method="PUT",
            target=KEY,
            body={"value": 1},
            headers=(("if-none-match", none), *more),
            status=400,
            code="bad_precondition",
        )
        for none, more in (("3", ()), ("", ()), ("*", (("if-match", "3"),)))
    ),
    Case(
        row="82.key",
        method="PUT",
        target=KEY,
        body={"value": 1},
        headers=(("if-match", "1"),),
        status=409,
        code="stale",
    ),
]

_ONE = {"op": "set", "key": "a", "value": 1}
_BATCHES = [
    _build_batch_case("87.none", [], "batch_size"),
    _build_batch_case(
        "87.many", [{**_ONE, "key": f"k{n}"} for n in range(201)], "batch_size"
    ),
    _build_batch_case("87.twice", [_ONE, {"op": "delete", "key": "a"}], "value"),
    _build_batch_case(
        "87.bad", [_ONE, {**_ONE, "key": "b", "ttl_seconds": 0}], "value"
    ),
    _build_batch_case("87.reserved", [_ONE, {**_ONE, "key": "_b"}], "reserved_key"),
    _build_batch_case("87.value", [{"op": "set", "key": "a"}], "missing"),
    _build_batch_case("87.key", [{"op": "set", "value": 1}], "missing"),
    _build_batch_case("87.op", [{**_ONE, "op": CANARY}], "value"),
    _build_batch_case("87.no-op", [{"key": "a", "value": 1}], "missing"),
    _build_batch_case("87.delete", [{**_ONE, "op": "delete"}], "extra_field"),
    _build_batch_case(
        "87.timed", [{"op": "delete", "key": "a", "ttl_seconds": 1}], "extra_field"
    ),
    _build_batch_case(
        "87.two", [{**_ONE, "if_match": 1, "if_none_match": "*"}], "value"
    ),
    _build_batch_case("87.match", [{**_ONE, "if_match": "1"}], "type"),
    _build_batch_case("87.match.bool", [{**_ONE, "if_match": True}], "type"),
    _build_batch_case("87.none-match", [{**_ONE, "if_none_match": "a"}], "value"),
    _build_batch_case("87.item", [7], "type"),
    _build_batch_case("87.items", {}, "type"),
    _build_batch_case(
        "87.expiry", [_ONE, {**_ONE, "key": "b", "expires_at": "x"}], "time"
    ),
    _build_batch_case(
        "87.past",
        [_ONE, {**_ONE, "key": "b", "expires_at": "2020-01-01T00:00:00Z"}],
        "expiry_in_past",
    ),
    asked("87.missing", "POST /keys:batch", {}, "missing"),
    asked("87.clear", "POST /keys:clear", {"glob": "*"}, "extra_field"),
    asked("87.clear.notes", "POST /notes:clear", {"before": 1}, "extra_field"),
]

_DEEP = b"[" * 32 + b"]" * 32
#: JSON that no route takes, wherever a client's own values stand.
_RAW = [
    (b"NaN", "non_finite", 400),
    (b"01", "invalid_json", 400),
    (b"1" * 5_000, "number_too_long", 400),
    (b'{"a": 1, "a": 2}', "duplicate_key", 400),
    (b'"\\u0000"', "nul", 422),
    (b'{"a\\u0000": 1}', "nul", 422),
    (b'"\\ud800"', "surrogate", 422),
    (_DEEP, "too_deep", 422),
    (b"[" + b"1," * 10_000 + b"1]", "too_many_nodes", 422),
    (b'{"' + b"k" * 257 + b'": 1}', "key_too_long", 422),
    (b'"\xff"', "encoding", 400),
]
_BYTES = [
    asked(f"raw.{where}.{n}", where, before + raw + after, code, status)
    for where, before, after in (
        ("PUT /keys/k", b'{"value": ', b"}"),
        ("POST /keys:batch", b'{"items": [{"op": "set", "key": "k", "value": ', b"}]}"),
        ("PUT /task", b'{"data": {"a": ', b"}}"),
        ("PATCH /task", b'{"data": {"a": ', b"}}"),
        ("POST /notes", b'{"text": ', b"}"),
        ("POST /checkpoints", b'{"description": ', b"}"),
    )
    for n, (raw, code, status) in enumerate(_RAW)
]
_EMPTY = [
    asked(f"1.{where}", where, b"", "empty_body", 400)
    for where in (
        *("PUT /keys/k", "PATCH /keys/k", "POST /keys:batch", "POST /keys:clear"),
        *("PUT /task", "PATCH /task", "POST /notes", "POST /notes:clear"),
        *("POST /checkpoints", "POST /checkpoints/here:restore"),
    )
]

KEYS = [*_KEYS, *_BATCHES, *_BYTES, *_EMPTY]
