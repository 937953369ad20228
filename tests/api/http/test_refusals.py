"""Details of a 422 beyond those of the schema."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import PAGE, SLOT, Client

pytestmark = pytest.mark.django_db
T = "/threads/t-1"
CANARY = "canary-7Q"
CONFIG: dict[str, Any] = {"budget_tokens": 2_400, "reserved_tokens": 800}


def _build_page(modality: str, content: object) -> dict[str, Any]:
    return {**PAGE, "modality": modality, "content": content}


#: A request, the place that is named, and words of the answer.
Case = tuple[str, str, Any, list[Any], list[str]]
CASES: list[Case] = [
    # Fields that the kernel and services check.
    ("PATCH", T, {"config": {"evict_to": 0.9}}, ["config", "evict_to"], ["`evict_at`"]),
    (
        *("PATCH", T, {"config": {"reserved_tokens": 5}}),
        ["config", "reserved_tokens"],
        ["from 800 to 1200"],
    ),
    (
        *("PUT", "/threads/t-9", {"config": {"tokenizer": CANARY}}),
        ["config", "tokenizer"],
        ["`est/1`, `o200k_base`"],
    ),
    (
        *("PATCH", T, {"config": {"tokenizer": "o200k_base"}}),
        ["config", "tokenizer"],
        ["fixed"],
    ),
    (
        *("GET", f"{T}/keys?glob={'*' * 9}", None),
        ["query", "glob"],
        ["at most 128 characters, and 8 of"],
    ),
    (
        *("PUT", f"{T}/keys/k", {"value": 1, "expires_at": "2020-01-01T00:00:00Z"}),
        ["expires_at"],
        ["still to come"],
    ),
    # Parts that are checked beside the schema.
    (
        "PUT",
        f"{T}/pages/p",
        _build_page("text", {}),
        ["content", "text"],
        ["a text"],
    ),
    (
        *("PUT", f"{T}/pages/p", _build_page("text", {"text": "x", CANARY: 1})),
        ["content", 1],
        ["only `text`"],
    ),
    (
        *("PUT", f"{T}/pages/p", _build_page("image", {"base64": "-"})),
        ["content", "base64"],
        ["base64"],
    ),
    (
        "PUT",
        f"{T}/pages/p",
        _build_page("image", {}),
        ["content", "caption"],
        ["`url`"],
    ),
    (
        *("PUT", f"{T}/pages/p", _build_page("audio", {"timestamps": [{"text": "x"}]})),
        ["content", "timestamps", 0, "at_seconds"],
        ["a number"],
    ),
    (
        *("PUT", f"{T}/pages/p", {**PAGE, "meta": {"dimensions": [1]}}),
        ["meta", "dimensions"],
        ["width and height"],
    ),
    ("PUT", f"{T}/pages/slot-9", PAGE, ["path", "page_id"], ["`slot-`"]),
    ("PUT", "/threads/_x", {}, ["path", "thread"], ["reserved"]),
    ("PUT", T, {"labels": {CANARY: " "}}, ["labels", 0], ["a name"]),
    ("PUT", T, {"labels": {"a": "b", f" {CANARY}": 1}}, ["labels", 1], ["a name"]),
    ("GET", f"{T}?at_seq=1&at_turn=1", None, ["query", "at_turn"], ["`at_seq`"]),
    ("GET", f"{T}?at_seq=1&at_seq=1", None, ["query", "at_seq"], ["once"]),
    ("GET", f"{T}?{CANARY}=1&{CANARY}=1", None, ["query", 1], ["once"]),
    ("GET", f"/receipt-keys?{CANARY}=1", None, ["query", 0], ["takes none"]),
    # Parts that the parser checks.
    ("POST", f"{T}/slots", b"7", ["body"], ["a JSON object"]),
    ("POST", f"{T}/slots", b"[" * 40 + b"]" * 40, ["body"], ["32 levels"]),
    ("POST", f"{T}/slots", {**SLOT, "tokens": 2**63}, ["tokens"], ["64 bits"]),
    (
        *("POST", f"{T}/slots", b'{"content": {"%s": "\\u0000"}}' % CANARY.encode()),
        ["content", 0],
        ["U+0000"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[3]}")
async def test_refusal_names_the_field_and_what_it_takes(
    api: Client, case: Case
) -> None:
    method, target, body, loc, says = case
    await api.put(T, {"config": CONFIG})
    answer = await api.send(method, target, body)
    assert answer.status == 422, answer.body
    assert answer.json["errors"][0]["loc"] == loc, answer.body
    place = ".".join(map(str, loc))
    assert answer.json["detail"].startswith(f"`{place}` "), answer.body
    for words in says:
        assert words in answer.json["detail"], answer.body
    assert CANARY not in answer.body.decode()


async def test_idempotency_key_is_told_its_form(api: Client) -> None:
    headers = [("idempotency-key", "a b")]
    answer = await api.post(f"{T}/slots", SLOT, headers=headers)
    assert answer.json["errors"][0]["loc"] == ["Idempotency-Key"]
    assert "1 to 255 visible ASCII characters" in answer.json["detail"]


async def test_refusal_of_many_errors_tells_the_first_five(api: Client) -> None:
    answer = await api.post(f"{T}/slots:batch", {"items": [{}] * 3})
    assert len(answer.json["errors"]) == 12
    assert answer.json["detail"].count(" is missing: ") == 5
    assert answer.json["detail"].endswith(" And 7 more.")


async def test_misspelt_member_is_told_the_nearest(api: Client) -> None:
    answer = await api.post(f"{T}/slots", {**SLOT, "contents": CANARY})
    assert answer.json["errors"] == [{"loc": [4], "code": "extra_field"}]
    assert "nearest is `content`" in answer.json["detail"]
    assert CANARY not in answer.body.decode()
