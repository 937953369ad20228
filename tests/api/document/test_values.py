"""Values kept unchanged: any JSON, any text, any name that the charset allows."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.padding import pad_size
from tests.api.client import SLOT, Client

pytestmark = pytest.mark.django_db

TEXTS = [
    "👩‍👩‍👧‍👦",
    "e" + "\u0301" * 1_000,
    "\u202eabc \u2066x\u2069 مرحبا",
    "\ufffe\uffff\ue000\U0010ffff",
    "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)>",
    "{{7*7}}{% load x %}</pre>",
    "<div hx-get=/x hx-trigger=load hx-swap-oob=true hx-on:click=x>",
    "[x](javascript:alert(1)) ![](http://example.com/x) http://example.com",
    "\x1b[31mred\x1b[0m\u200b",
    "=cmd|' /C calc'!A0",
    "",
    "x" * 300_000,
]
VALUES: list[object] = [
    2**63 - 1,
    -(2**63) + 1,
    1e-320,
    0.1,
    1e16,
    None,
    True,
    [],
    {},
    {"b": 1, "a": {"z": [1, 1.0, "1"]}},
    {"__proto__": 1, "constructor": 2, "toString": 3, "__class__": 4},
]


@pytest.mark.parametrize("content", [*TEXTS, *VALUES])
async def test_content_comes_back_as_it_was(api: Client, content: object) -> None:
    (made,) = await api.append("t-1", content)
    assert made.status == 201, made.body
    read = await api.get("/threads/t-1/slots/0")
    assert strict_json.dump_stored(read.json["content"]) == strict_json.dump_stored(
        content
    )
    assert read.json["bytes"] == pad_size(len(strict_json.dump_stored(content)))


async def test_minus_zero_keeps_its_sign(api: Client) -> None:
    await api.append("t-1", -0.0)
    read = await api.get("/threads/t-1/slots/0")
    assert math.copysign(1, read.json["content"]) == -1


@pytest.mark.parametrize("value", [*TEXTS[:-1], *VALUES, -0.0])
async def test_key_gives_its_value_back_as_it_was(api: Client, value: object) -> None:
    made = await api.put("/threads/t-1/keys/k", {"value": value})
    assert made.status == 201, made.body
    read = (await api.get("/threads/t-1/keys/k")).json
    (listed,) = (await api.get("/threads/t-1/keys?values=true")).json["items"]
    for found in (read["value"], listed["value"]):
        assert strict_json.dump_stored(found) == strict_json.dump_stored(value)
    assert read["bytes"] == pad_size(len(strict_json.dump_canonical(value)))


@pytest.mark.parametrize("text", [text for text in TEXTS if 0 < len(text) < 1_000])
async def test_texts_of_working_memory_come_back_as_they_were(
    api: Client, text: str
) -> None:
    await api.post("/threads/t-1/notes", {"text": text})
    (note,) = (await api.get("/threads/t-1/notes")).json["items"]
    assert note["text"] == text
    await api.put("/threads/t-1/task", {"description": text, "data": {text: text}})
    task = (await api.get("/threads/t-1/task")).json
    assert (task["description"], task["data"]) == (text, {text: text})
    await api.post("/threads/t-1/checkpoints", {"name": "c", "description": text})
    taken = (await api.get("/threads/t-1/checkpoints/c")).json
    assert taken["description"] == text


async def test_body_may_say_that_it_is_utf_8(api: Client) -> None:
    kinds = ("application/json; charset=UTF-8", 'Application/JSON ;charset="utf-8"')
    for kind in kinds:
        headers = [("content-type", kind)]
        made = await api.post("/threads/t-1/slots", SLOT, headers=headers)
        assert made.status == 201


@pytest.mark.parametrize("content", [1, {"a": [1]}, "x"])
async def test_body_of_a_get_is_ignored(api: Client, content: object) -> None:
    await api.append("t-1", "hello")
    for method in ("GET", "HEAD"):
        answer = await api.send(method, "/threads/t-1", content)
        assert answer.status == 200


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00Z", "2199-12-31T23:59:59.5+02:00"])
async def test_agents_clock_orders_nothing(api: Client, at: str) -> None:
    await api.append("t-1", "first", agent_at="2026-01-01T00:00:00Z")
    await api.append("t-1", "second", agent_at=at)
    listed = await api.get("/threads/t-1/slots")
    assert [item["content"] for item in listed.json["items"]] == ["first", "second"]
    assert listed.json["items"][1]["agent_at"] is not None


@pytest.mark.parametrize(
    "name", ["CON", "nul", "a:b", "x@y", "x" * 128, "0", "a.b_c-d"]
)
async def test_name_of_the_charset_is_taken(api: Client, name: str) -> None:
    assert (await api.put(f"/threads/{name}")).status == 201
    assert (await api.get(f"/threads/{name}")).json["thread"] == name


@pytest.mark.parametrize("action", ["close", "reopen", "fork"])
async def test_thread_may_be_named_like_an_action(api: Client, action: str) -> None:
    name = f"x:{action}"
    assert (await api.put(f"/threads/{name}")).status == 201
    assert (await api.get(f"/threads/{name}")).json["thread"] == name
    labels = await api.patch(f"/threads/{name}", {"labels": {"a": 1}})
    assert labels.json["labels"] == {"a": 1}
    assert (await api.get("/threads/x")).status == 404
    too_long = "x" * 122
    assert (await api.get(f"/threads/{too_long}:reopen")).code == "name"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(strict_json.MIN_INTEGER, strict_json.MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.text(
                st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
                max_size=20,
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
