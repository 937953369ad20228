"""Requests about working memory that must be refused."""

from __future__ import annotations

from typing import Any

from tests.api.bad_bodies import CANARY, Case

T = "/threads/t-1"
LONG = "x" * 129


def asked(row: str, where: str, body: object, code: str, status: int = 422) -> Case:
    """Build a case; `where` is the method, and the path below the thread."""
    method, _, path = where.partition(" ")
    return Case(
        row=row, method=method, target=T + path, body=body, status=status, code=code
    )


def read(row: str, path: str, code: str, status: int = 422) -> Case:
    return asked(row, f"GET {path}", None, code, status)


_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"progress_percent": 101}, "value"),
    ({"progress_percent": -5}, "value"),
    ({"progress_percent": "50%"}, "type"),
    ({"progress_percent": True}, "type"),
    ({"status": "done"}, "value"),
    ({"status": None}, "value"),
    ({"status": 1}, "value"),
    ({"current_step": 1.0}, "type"),
    ({"current_step": "1"}, "type"),
    ({"current_step": -1}, "value"),
    ({"current_step": 1_000_001}, "value"),
    ({CANARY: 1}, "extra_field"),
    ({"updated_at": "2026-01-01T00:00:00Z"}, "extra_field"),
    ({"version": 1}, "extra_field"),
    ({"started_at": "2026-01-01"}, "time"),
    ({"started_at": "2201-01-01T00:00:00Z"}, "time_range"),
    ({"description": "x" * 4_097}, "value"),
    ({"description": ["x"]}, "type"),
    ({"data": []}, "type"),
    ({"data": {"a": "x" * 65_536}}, "value"),
]
_TASKS = [
    *(
        asked(f"105.{method}.{n}", f"{method} /task", sent, code)
        for method in ("PUT", "PATCH")
        for n, (sent, code) in enumerate(_FIELDS)
    ),
    *(
        asked(f"105.{method}.nan", f"{method} /task", raw, "non_finite", 400)
        for method in ("PUT", "PATCH")
        for raw in (b'{"progress_percent": NaN}',)
    ),
    read("105.get", "/task", "task_not_found", 404),
    asked("105.absent", "PATCH /task", {"current_step": 1}, "task_not_found", 404),
    Case(
        row="105.match",
        method="PUT",
        target=f"{T}/task",
        body={},
        headers=(("if-match", "7"),),
        status=409,
        code="stale",
    ),
]

_NOTES = [
    asked("106.empty", "POST /notes", {"text": ""}, "value"),
    asked("106.long", "POST /notes", {"text": "x" * 16_385}, "value"),
    asked("106.type", "POST /notes", {"text": 7}, "type"),
    asked("106.null", "POST /notes", {"text": None}, "type"),
    asked("106.missing", "POST /notes", {}, "missing"),
    asked("106.extra", "POST /notes", {"text": CANARY, "seq": 1}, "extra_field"),
    asked("106.none", "POST /notes:batch", {"items": []}, "batch_size"),
    asked(
        "106.many",
        "POST /notes:batch",
        {"items": [{"text": "x"}] * 201},
        "batch_size",
    ),
    asked(
        "106.one-of",
        "POST /notes:batch",
        {"items": [{"text": "x"}] * 199 + [{"text": ""}]},
        "value",
    ),
    read("106.order", "/notes?order=up", "value"),
    read("106.content", "/notes?content=some", "value"),
]

_CHECKPOINTS = [
    *(
        asked(f"107.{name}", "POST /checkpoints", {"name": name}, code)
        for name, code in (
            ("412", "name"),
            ("0", "name"),
            ("head", "name"),
            ("", "name"),
            ("a b", "name"),
            (LONG, "name"),
            ("٤١٢", "name"),
            (412, "type"),
        )
    ),
    asked("107.taken", "POST /checkpoints", {"name": "here"}, "name_taken", 409),
    asked("107.described", "POST /checkpoints", {"description": "x" * 1_025}, "value"),
    asked("107.extra", "POST /checkpoints", {"auto": True}, "extra_field"),
    *(
        asked(
            f"108.{verb}.{target}", f"{verb} /checkpoints/{target}{rest}", body, *code
        )
        for target in ("99", "none", "-3", "0", "2", "1e3", "%20", "9" * 30)
        for verb, rest, body, code in (
            ("POST", ":restore", {}, ("not_found", 404)),
            ("GET", "", None, ("not_found", 404)),
        )
    ),
    *(
        asked(f"108.parts.{n}", "POST /checkpoints/here:restore", sent, code)
        for n, (sent, code) in enumerate(
            [
                ({"parts": []}, "value"),
                ({"parts": [CANARY]}, "value"),
                ({"parts": ["keys", "keys"]}, "value"),
                ({"parts": "keys"}, "type"),
                ({"parts": None}, "type"),
                ({"dry_run": 1}, "type"),
                ({"target": 1}, "extra_field"),
            ]
        )
    ),
    Case(
        row="108.stale",
        target=f"{T}/checkpoints/here:restore",
        body={},
        headers=(("if-match", "1"),),
        status=409,
        code="stale",
    ),
    Case(
        row="108.match",
        target=f"{T}/checkpoints/here:restore",
        body={},
        headers=(("if-match", "-1"),),
        status=400,
        code="bad_precondition",
    ),
    read("compare.none", "/checkpoints:compare", "missing"),
    read("compare.unknown", "/checkpoints:compare?a=99", "not_found", 404),
    read("compare.other", "/checkpoints:compare?a=here&b=none", "not_found", 404),
    read("compare.values", "/checkpoints:compare?a=here&values=yes", "value"),
    read("compare.limit", "/checkpoints:compare?a=here&limit=201", "limit"),
    read("checkpoints.auto", "/checkpoints?auto=yes", "value"),
    read("checkpoints.name", "/checkpoints?name=a%20b", "name"),
    read("memory.keys", "/working-memory?keys=201", "limit"),
    read("memory.notes", "/working-memory?notes=-1", "limit"),
]
_ORIGINS: list[tuple[dict[str, object], str, int]] = [
    ({"checkpoint": 99}, "not_found", 404),
    ({"checkpoint": "none"}, "not_found", 404),
    ({"checkpoint": 1.5}, "type", 422),
    ({"checkpoint": True}, "type", 422),
    ({"checkpoint": "here", "seq": 1}, "value", 422),
    ({"checkpoint": "here", "turn": 0}, "value", 422),
]
_FORKS = [
    asked(f"98.{n}", "POST :fork", {"thread": "f", **said}, code, status)
    for n, (said, code, status) in enumerate(_ORIGINS)
]

#: Reads of working memory, each below the thread.
_READS = (
    *("/keys?", "/keys/kept?", "/task?", "/notes?", "/checkpoints?"),
    *("/checkpoints/here?", "/checkpoints:compare?a=here&", "/working-memory?"),
)
_ANYWHERE = [
    read(
        f"any{path}{query}", f"{path}{'&' if '?' in path else '?'}{query}", code, status
    )
    for path in _READS
    for query, code, status in (
        ("at_seq=-1", "at", 422),
        ("at_seq=x", "at", 422),
        ("at_seq=9223372036854775808", "at", 422),
        ("at_seq=99", "seq_unknown", 404),
        ("at_turn=99", "seq_unknown", 404),
        ("at_seq=1&at_turn=0", "at", 422),
        ("at_seq=1&at_seq=1", "duplicate_parameter", 422),
        ("x=1", "extra_parameter", 422),
    )
]
_LISTS = [
    read(f"list{path}{query}", f"{path}?{query}", code, status)
    for path in ("/keys", "/notes", "/checkpoints")
    for query, code, status in (
        ("limit=0", "limit", 422),
        ("limit=201", "limit", 422),
        ("limit=1.0", "limit", 422),
        ("after=x", "bad_cursor", 400),
        ("after=" + "x" * 2_000, "bad_cursor", 400),
        ("offset=1", "extra_parameter", 422),
    )
]
_METHODS = [
    Case(
        row=f"72{path}.{method}",
        method=method,
        target=T + path,
        body={},
        status=405,
        code="method_not_allowed",
    )
    for path, methods in (
        ("/keys/k", ("POST", "OPTIONS")),
        ("/keys", ("POST", "DELETE")),
        ("/keys:batch", ("GET", "PUT")),
        ("/keys:clear", ("GET", "DELETE")),
        ("/task", ("POST",)),
        ("/notes", ("PUT", "DELETE")),
        ("/checkpoints/here", ("PUT", "PATCH", "POST")),
        ("/checkpoints/here:restore", ("PUT", "PATCH")),
        ("/working-memory", ("POST", "PUT")),
    )
    for method in methods
]
_CONFIGS = [
    Case(
        row=f"99.{name}.{value}",
        method=method,
        target=target,
        body={"config": {name: value}},
        status=422,
        code=code,
    )
    for method, target in (("PATCH", T), ("PUT", "/threads/t-2"))
    for name, value, code in (
        ("max_keys", 0, "value"),
        ("max_keys", 100_001, "value"),
        ("max_keys", "9", "type"),
        ("max_key_bytes", 1_023, "value"),
        ("max_key_bytes", 2**30 + 1, "value"),
        ("max_notes", 0, "value"),
        ("max_notes", 10_001, "value"),
        ("max_notes", True, "type"),
        ("default_ttl_seconds", 0, "value"),
        ("default_ttl_seconds", -1, "value"),
        ("default_ttl_seconds", 31_536_001, "value"),
        ("default_ttl_seconds", 1.5, "type"),
    )
]
_REPEATS = [
    Case(
        row=f"83{path}.{n}",
        target=T + path,
        body=body,
        headers=(("idempotency-key", key),),
        status=422,
        code="idempotency_key",
    )
    for path, body in (
        ("/keys:clear", {}),
        ("/notes", {"text": "x"}),
        ("/checkpoints", {}),
        ("/checkpoints/here:restore", {}),
    )
    for n, key in enumerate(("", "k" * 256, "a b", "é"))
]

MEMORY = [
    *_TASKS,
    *_NOTES,
    *_CHECKPOINTS,
    *_FORKS,
    *_ANYWHERE,
    *_LISTS,
    *_METHODS,
    *_CONFIGS,
    *_REPEATS,
]
