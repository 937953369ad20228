"""Bodies that must be refused, by the row of the bad-input catalogue they come from.

Each case is what is sent and the only right answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

#: Stands in what is sent and must stand in no answer and no log.
CANARY = "canary-7Q"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and its answer."""

    row: str
    status: int
    code: str
    method: str = "POST"
    target: str | bytes = "/threads/t-1/slots"
    body: object = None
    headers: Headers = ()
    options: dict[str, Any] = field(default_factory=dict)


def build_message(**fields: object) -> dict[str, object]:
    """Build a valid message with these changes."""
    return {
        "from": "user",
        "to": "assistant",
        "type": "chat.user",
        "content": CANARY,
        **fields,
    }


def raw(content: str) -> bytes:
    """Build a message whose content is this JSON text, sent unchanged."""
    head = json.dumps({**build_message(), "content": None}).replace("null}", "")
    return head.encode() + content.encode("utf-8", "surrogatepass") + b"}"


def _cases(row: str, status: int, code: str, *bodies: object) -> list[Case]:
    return [
        Case(row=f"{row}.{n}", status=status, code=code, body=body)
        for n, body in enumerate(bodies)
    ]


def _nested(depth: int, opening: str, closing: str, inner: str = "1") -> bytes:
    # The body itself is the first level.
    return raw(opening * (depth - 1) + inner + closing * (depth - 1))


_TEXT = json.dumps(build_message())

BYTES = [
    *_cases("1", 400, "empty_body", b""),
    *_cases(
        "2",
        400,
        "invalid_json",
        b"{",
        f"{_TEXT} x".encode(),
        f"{_TEXT}{_TEXT}".encode(),
        f"/* {CANARY} */ {_TEXT}".encode(),
        _TEXT.replace('"', "'").encode(),
        _TEXT.replace("}", ",}").encode(),
    ),
    *_cases("3", 422, "object_expected", b"null", b"[]", b'"canary-7Q"', b"7"),
    *_cases("4", 400, "encoding", b"\xef\xbb\xbf" + _TEXT.encode()),
    *_cases(
        "5",
        400,
        "encoding",
        _TEXT.encode("utf-16"),
        _TEXT.encode("utf-16-le"),
        _TEXT.encode("utf-16-be"),
        _TEXT.encode("utf-32-le"),
    ),
    *_cases(
        "6",
        400,
        "encoding",
        _TEXT.encode().replace(b"user", b"us\xffr", 1),
        _TEXT.encode().replace(b"user", b"us\xc0\xafr", 1),
        _TEXT.encode().replace(b"user", b"us\xed\xa0\x80r", 1),
    ),
    *_cases("7", 400, "invalid_json", raw('"a\0b"'), raw('"a\nb"'), raw('"a\x1fb"')),
    *_cases("8", 400, "non_finite", *map(raw, ("NaN", "[Infinity]", "-Infinity"))),
    # Content keeps the digits; what is counted must be a number.
    *_cases("9", 400, "non_finite", f'{_TEXT[:-1]}, "tokens": 1e999}}'.encode()),
    *_cases("10", 400, "number_too_long", raw("9" * 5000)),
    *_cases("11", 400, "invalid_json", *map(raw, ("01", "+1", ".5", "1.", "0x1"))),
    *_cases(
        "12",
        400,
        "duplicate_key",
        _TEXT.replace('"to"', '"from"').encode(),
        raw('{"a": 1, "a": 1}'),
        raw('[[{"a": {"b": 1, "b": 2}}]]'),
    ),
    *_cases(
        "13",
        422,
        "too_deep",
        *(
            _nested(depth, *marks)
            for depth in (33, 500, 2_000, 100_000)
            for marks in (("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"))
        ),
    ),
    *_cases(
        "14",
        422,
        "too_many_nodes",
        raw("[" + "1," * 9_999 + "1]"),
        raw("{" + ",".join(f'"k{n}":1' for n in range(70_000)) + "}"),
    ),
    *_cases("15", 422, "key_too_long", raw(json.dumps({"k" * 257: 1}))),
    *_cases("16", 413, "body_too_large", *(b" " * n for n in (2**20 + 1, 3_000_000))),
    Case(
        row="17",
        status=413,
        code="body_too_large",
        body=b"",
        options={"chunks": [b" " * 65_536] * 64},
    ),
    *(
        Case(
            row=f"18.{encoding}",
            status=415,
            code="content_encoding",
            body=build_message(),
            headers=(("content-encoding", encoding),),
        )
        for encoding in ("gzip", "br", "deflate, identity")
    ),
    *(
        Case(
            row=f"19.{n}",
            status=415,
            code="content_type",
            body=_TEXT.encode(),
            headers=(("content-type", kind),),
        )
        for n, kind in enumerate(
            (
                "",
                "application/x-www-form-urlencoded",
                "text/plain",
                "application/json; charset=utf-16",
                "application/jsonp",
                "application/json, text/plain",
            )
        )
    ),
]

_FIELDS = ("from", "to", "type")
_LONG = "x" * 129

VALUES = [
    *_cases(
        "24",
        422,
        "nul",
        raw('"a\\u0000b"'),
        raw('{"a\\u0000": 1}'),
        _TEXT.replace("user", "us\\u0000r", 1).encode(),
    ),
    *_cases(
        "25",
        422,
        "surrogate",
        raw('"\\ud800"'),
        raw('{"\\udc00": 1}'),
        raw('"\\udc00\\ud800"'),
        _TEXT.replace("user", "us\\ud800r", 1).encode(),
    ),
    *_cases(
        "28",
        422,
        "integer_range",
        build_message(tokens=2**63),
        build_message(agent_at=-(2**63)),
        _TEXT.replace('"user"', str(2**64)).encode(),
    ),
    *_cases(
        "30",
        422,
        "type",
        *(build_message(tokens=value) for value in (True, 1.0, "1", "1_000", " 1 ")),
    ),
    *_cases("31", 422, "type", build_message(tokens=1.5), build_message(tokens="٣")),
    *_cases("33", 422, "type", *(build_message(**{name: None}) for name in _FIELDS)),
    *_cases(
        "33m",
        422,
        "missing",
        *(
            {key: value for key, value in build_message().items() if key != name}
            for name in (*_FIELDS, "content")
        ),
    ),
    *_cases(
        "34",
        422,
        "extra_field",
        build_message(**{CANARY: 1}),
        build_message(contents=1),
        build_message(handler={CANARY: 1}),
    ),
    *_cases(
        "35",
        422,
        "extra_field",
        *(
            build_message(**{n: 1})
            for n in ("index", "at", "seq", "updated_at", "chain")
        ),
    ),
    *_cases(
        "44",
        422,
        "time",
        *(
            build_message(agent_at=value)
            for value in (
                "2026-01-01T00:00:00",
                "2026-01-01",
                1_700_000_000,
                "2026-01-01T24:00:00Z",
                "2026-01-01T23:59:60Z",
                "2024-02-30T00:00:00Z",
                "2026-01-01 00:00:00Z",
                "٢٠٢٦-01-01T00:00:00Z",
            )
        ),
    ),
    *_cases(
        "45",
        422,
        "time_range",
        *(
            build_message(agent_at=value)
            for value in (
                "0001-01-01T00:00:00+14:00",
                "9999-12-31T23:59:59-14:00",
                "1969-12-31T23:59:59Z",
                "2201-01-01T00:00:00Z",
                "1970-01-01T00:00:00+01:00",
            )
        ),
    ),
    *_cases("handler", 422, "value", build_message(handler={"is_self_call": True})),
    *_cases(
        "handler-text", 422, "value", build_message(handler={"todo_nudge": "é" * 8_193})
    ),
    *_cases(
        "role", 422, "value", build_message(role="robot"), build_message(role=CANARY)
    ),
    *_cases(
        "tokens", 422, "value", build_message(tokens=-1), build_message(tokens=2**31)
    ),
]

BAD_NAMES = (
    *("", "   ", " a", "a ", "a\t", _LONG, "x" * 200),
    *("a\r", "a\n", "a\r\nX-Injected: 1", "a\tb", "a\x7f"),
    *("../../etc/passwd", ".", "..", "a/b", "a\\b", "c:\\x"),
    *("*", "a?", "[a]", "asgi:group:*", "'", '"', "$", "{}"),
    *("a\u202eb", "a\u200bb", "\u2066a", "a\u00adb"),
    *("é", "e\u0301", "\u0430", "\uff41"),
    *("~0a1b", "-x", ".x"),
)

_NO_TEXTS: tuple[object, ...] = (7, True, ["a"], {})

NAMES = [
    *_cases(
        "47-55", 422, "name", *(build_message(**{"from": name}) for name in BAD_NAMES)
    ),
    *_cases("48", 413, "body_too_large", build_message(**{"from": "x" * 1_100_000})),
    *_cases("58", 422, "type", *(build_message(to=value) for value in _NO_TEXTS)),
    *_cases(
        "60",
        422,
        "type_not_qualified",
        *(build_message(type=kind) for kind in ("Greeting", ".a", "a.", "a..b", ".")),
    ),
    *_cases(
        "60n",
        422,
        "name",
        build_message(type="a b.c"),
        build_message(type=f"a.{_LONG}"),
    ),
]
