"""Requests that must be refused for their address, headers or fields of threads."""

from __future__ import annotations

from tests.api.bad_bodies import CANARY, Case, build_message

#: Paths that uvicorn would hand on, each of which must end in a refusal.
_PATHS: list[tuple[str | bytes, int, str]] = [
    ("/threads/" + "x" * 129, 422, "name"),
    ("/threads/-x", 422, "name"),
    ("/threads/a%20b", 422, "name"),
    ("/threads/%2e%2e", 422, "name"),
    ("/threads/..%2f..%2fetc", 404, "not_found"),
    ("/threads/t-1%2Fslots", 404, "not_found"),
    ("/threads/t-1%252Fslots", 422, "name"),
    ("/threads/a/b/c", 404, "not_found"),
    ("/threads/%0d%0aX-A:1", 422, "name"),
    ("/threads/%C3%A9", 422, "name"),
    ("/threads/~0a1b", 422, "name"),
    ("/threads/_x", 422, "reserved_name"),
    ("/threads/mh.x", 422, "reserved_name"),
    ("/threads/" + "x" * 9_000, 414, "uri_too_long"),
    ("/threads/%ff", 400, "encoding"),
    ("/threads/%ED%A0%80", 400, "encoding"),
    ("/threads/a%00", 400, "encoding"),
    ("/threads?type=%ff", 400, "encoding"),
    ("/threads?session=%00", 400, "encoding"),
    (b"/threads?session=\xff", 400, "encoding"),
    ("/threads/t-1/slots/01939d5e-6c0f", 404, "not_found"),
    ("/threads/t-1/slots/{0}", 404, "not_found"),
    ("/threads/t-1/slots/-2", 404, "not_found"),
    ("/threads/t-1/slots/--1", 404, "not_found"),
    ("/threads/t-1/slots/1", 404, "not_found"),
    ("/threads/t-1/slots/" + "9" * 5_000, 404, "not_found"),
    ("/threads/t-1/slots/9223372036854775808", 404, "not_found"),
    ("/threads/t-1/", 404, "not_found"),
    ("//threads", 404, "not_found"),
    ("/threads//slots", 404, "not_found"),
    ("/api/v1", 404, "not_found"),
    ("/api/v1/", 404, "not_found"),
    ("/api", 404, "not_found"),
    ("/api/v2/threads", 404, "not_found"),
    ("/nothing", 404, "not_found"),
    ("/threads?session=" + "x" * 9_000, 414, "uri_too_long"),
]
PATHS = [
    Case(row=f"path.{n}", method="GET", target=target, status=status, code=code)
    for n, (target, status, code) in enumerate(_PATHS)
]

_MANY = [f"p{n}=1" for n in range(101)]

QUERIES = [
    Case(row=f"query.{n}", method="GET", target=target, status=status, code=code)
    for n, (target, status, code) in enumerate(
        [
            *(
                (f"/{noun}?limit={value}", 422, "limit")
                for noun in ("threads", "threads/t-1/slots", "threads/t-1/events")
                for value in (
                    *("-1", "0", "201", "999999999", "100000000000000000000"),
                    *("1.0", "%2B5", "", "%EF%BC%90", "x"),
                )
            ),
            ("/threads?limit=1&limit=2", 422, "duplicate_parameter"),
            ("/threads?session=a&session=a", 422, "duplicate_parameter"),
            ("/threads/t-1?at_seq=1&at_seq=1", 422, "duplicate_parameter"),
            (f"/threads?{CANARY}=1", 422, "extra_parameter"),
            ("/threads/t-1/slots?offset=1", 422, "extra_parameter"),
            ("/threads?page=1", 422, "extra_parameter"),
            ("/threads?cursor_before=x", 422, "extra_parameter"),
            ("/stats?x=1", 422, "extra_parameter"),
            ("/threads?labels=x", 422, "extra_parameter"),
            ("/threads?subject=x", 422, "extra_parameter"),
            ("/threads?status__in=open", 422, "extra_parameter"),
            (
                "/threads?" + "&".join(f"p{n}=1" for n in range(101)),
                422,
                "extra_parameter",
            ),
            (f"/threads?after={CANARY}", 400, "bad_cursor"),
            ("/threads/t-1/slots?after=1", 400, "bad_cursor"),
            ("/threads/t-1/slots?after=" + "x" * 2_000, 400, "bad_cursor"),
            ("/threads/t-1/events?after=x", 400, "bad_cursor"),
            ("/threads/t-1/events?after=-1", 400, "bad_cursor"),
            ("/threads/t-1/events?after=" + "9" * 30, 400, "bad_cursor"),
            *(
                (f"/threads/t-1{part}?at_seq={value}", 422, "at")
                for part in ("", "/slots", "/slots/0", "/stats", "/events")
                for value in ("-1", "x", "9223372036854775808", "")
            ),
            ("/threads/t-1?at_turn=-1", 422, "at"),
            ("/threads/t-1?at_seq=1&at_turn=0", 422, "at"),
            ("/threads/t-1/slots?at_seq=1&at_turn=0", 422, "at"),
            *(
                (f"/threads/t-1{part}?{name}=99", 404, "seq_unknown")
                for part in ("", "/slots", "/slots/0", "/stats", "/events")
                for name in ("at_seq", "at_turn")
            ),
            ("/threads/t-1/slots?start=x", 422, "value"),
            ("/threads/t-1/slots?start=1.5", 422, "value"),
            ("/threads/t-1/slots?end=%2B1", 422, "value"),
            ("/threads/t-1/slots?turn=-1", 422, "value"),
            ("/threads/t-1/slots?order=up", 422, "value"),
            ("/threads/t-1/slots?content=some", 422, "value"),
            ("/threads/t-1/slots?type=a__b", 422, "type_not_qualified"),
            ("/threads/t-1/slots?from=')%20OR%201=1--", 422, "name"),
            ("/threads/t-1/slots?from=a;to=b", 422, "name"),
            ("/threads/t-1/slots/0?view=x", 422, "value"),
            ("/threads?sort=name", 422, "value"),
            ("/threads?status=gone", 422, "value"),
            ("/threads?session=a+b", 422, "name"),
            ("/threads?label.=x", 422, "name"),
            ("/threads?label.trial=a%20b", 422, "name"),
            ("/threads?active_after=2026-01-01", 422, "time"),
            ("/threads?created_after=1969-01-01T00:00:00Z", 422, "time_range"),
        ]
    )
]

REQUESTS = [
    Case(
        row="71h",
        method="GET",
        target="/threads",
        headers=(("x-a", "x" * 100_000),),
        status=431,
        code="headers_too_large",
    ),
    Case(
        row="71n",
        method="GET",
        target="/threads",
        headers=tuple((f"x-{n}", "1") for n in range(1_000)),
        status=431,
        code="headers_too_large",
    ),
    *(
        Case(
            row=f"72.{method}.{n}",
            method=method,
            target=target,
            status=405,
            code="method_not_allowed",
        )
        for method in ("TRACE", "CONNECT", "FOO", "DELETE", "OPTIONS")
        for n, target in enumerate(("/threads", "/threads/t-1", "/threads/t-1:close"))
    ),
    Case(
        row="72.post",
        target="/stats",
        body={},
        status=405,
        code="method_not_allowed",
    ),
    *(
        Case(
            row=f"75.{n}",
            method="GET",
            target="/threads",
            options={"host": hosts},
            status=400,
            code="host",
        )
        for n, hosts in enumerate(
            [
                ("evil",),
                (),
                ("127.0.0.1", "127.0.0.1"),
                ("127.0.0.1/x",),
                ("localhost.",),
                ("user@localhost",),
                ("localhost:port",),
                ("",),
            ]
        )
    ),
    *(
        Case(
            row=f"81.{n}",
            body=build_message(),
            headers=(("if-match", value),),
            status=400,
            code="bad_precondition",
        )
        for n, value in enumerate(
            ("*", '"x"', 'W/"1"', "abc", "-1", "1, 2", "", "01", "9" * 19)
        )
    ),
    Case(
        row="82",
        body=build_message(),
        headers=(("if-match", "1"),),
        status=409,
        code="stale",
    ),
    *(
        Case(
            row=f"83.{n}",
            body=build_message(),
            headers=(("idempotency-key", value),),
            status=422,
            code="idempotency_key",
        )
        for n, value in enumerate(("", "x" * 256, "é", "a b", "a\rb"))
    ),
    *(
        Case(
            row=f"87.{n}",
            target="/threads/t-1/slots:batch",
            body={"items": items},
            status=422,
            code=code,
        )
        for n, (items, code) in enumerate(
            [
                ([], "batch_size"),
                ([build_message()] * 201, "batch_size"),
                (
                    [build_message()] * 199 + [build_message(type="bare")],
                    "type_not_qualified",
                ),
                ("x", "type"),
                ([1], "type"),
            ]
        )
    ),
    Case(
        row="90q",
        method="GET",
        target="/threads?after=mh_live_" + "a" * 8 + "_" + "b" * 49,
        status=400,
        code="key_in_url",
    ),
    Case(
        row="90p",
        method="GET",
        target="/threads/mh%5Flive_" + "a" * 8 + "_" + "b" * 49,
        status=400,
        code="key_in_url",
    ),
]


def _build_thread_case(row: str, code: str, body: object, *, status: int = 422) -> Case:
    return Case(
        row=row,
        method="PUT",
        target="/threads/t-2",
        body=body,
        status=status,
        code=code,
    )


def _fork(row: str, code: str, body: object, *, status: int = 422) -> Case:
    return Case(
        row=row, target="/threads/t-1:fork", body=body, status=status, code=code
    )


THREADS = [
    *(
        _build_thread_case(f"99.{name}.{value}", "value", {"config": {name: value}})
        for name in ("max_slots", "retention_idle_days")
        for value in (0, -1, 10**9)
    ),
    _build_thread_case("30", "type", {"config": {"max_slots": "5"}}),
    _build_thread_case("30b", "type", {"config": {"max_slots": True}}),
    _build_thread_case("30f", "type", {"config": {"max_slots": 5.0}}),
    _build_thread_case("34", "extra_field", {"config": {CANARY: 1}}),
    _build_thread_case("34s", "extra_field", {"scope": {CANARY: "x"}}),
    _build_thread_case("34t", "extra_field", {CANARY: "x"}),
    _build_thread_case("51", "name", {"scope": {"session": "a b"}}),
    _build_thread_case("labels-name", "name", {"labels": {f"{CANARY} x": 1}}),
    _build_thread_case("labels-value", "name", {"labels": {"a": f"{CANARY} x"}}),
    _build_thread_case("labels-type", "type", {"labels": {"a": [CANARY]}}),
    _build_thread_case("labels-null", "type", {"labels": {"a": None}}),
    _build_thread_case(
        "labels-many", "value", {"labels": {f"n{n}": n for n in range(17)}}
    ),
    _build_thread_case("user-empty", "value", {"user_id": ""}),
    _build_thread_case("user-long", "value", {"user_id": "x" * 257}),
    _build_thread_case("user-type", "type", {"user_id": 7}),
    _fork("98.head", "beyond_head", {"thread": "f", "seq": 99}),
    _fork("98.turn", "beyond_head", {"thread": "f", "turn": 99}),
    _fork("98.two", "value", {"thread": "f", "seq": 1, "turn": 0}),
    _fork("98.zero", "value", {"thread": "f", "seq": 0}),
    _fork("98.taken", "name_taken", {"thread": "t-1"}, status=409),
    _fork("98.reserved", "reserved_name", {"thread": "mh.f"}),
    _fork("98.name", "name", {"thread": f"{CANARY} f"}),
    _fork("98.nameless", "missing", {}),
    _fork("98.checkpoint", "not_found", {"thread": "f", "checkpoint": "c"}, status=404),
    Case(
        row="close",
        target="/threads/t-1:close",
        body={"reason": CANARY},
        status=422,
        code="value",
    ),
    Case(
        row="search-limit",
        target="/threads:search",
        body={"limit": 0},
        status=422,
        code="limit",
    ),
    Case(
        row="patch",
        method="PATCH",
        target="/threads/absent",
        body={"labels": {}},
        status=404,
        code="not_found",
    ),
]
