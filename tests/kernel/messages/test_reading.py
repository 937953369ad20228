import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import (
    Call,
    Medium,
    Message,
    MessagePart,
    PartKind,
    Result,
    Thought,
)
from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.messages.words import render_thought_words, render_words
from tests.kernel.messages.shapes import PNG, SHAPES, heard

TEXTS = st.text(max_size=12) | st.sampled_from(
    ("text", "user", "tool", "function_call")
)
NAMES = st.sampled_from(
    ("type", "role", "content", "text", "id", "name", "parts", "source", "tool_calls")
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
#: Nobody's item of a list.
JUNK = st.integers() | st.lists(st.integers()) | st.just({"type": "odd", "text": "no"})
CONTENTS = st.sampled_from([row[0] for row in SHAPES])


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """Return variants of a value: each member as is, replaced, absent, or doubled."""
    if draw(st.integers(0, 9)) == 0:
        return draw(JSON)
    if isinstance(value, list):
        return [draw(mutated(each)) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {n: v for n, v in value.items() if draw(st.integers(0, 9))}
    more = draw(st.dictionaries(NAMES, JSON, max_size=1))
    return more | {name: draw(mutated(each)) for name, each in kept.items()}


def fill_value(value: Any, found: list[str], picture: str = PNG) -> Any:
    """Put a word of its own in place of each `•`."""
    if isinstance(value, list):
        return [fill_value(each, found, picture) for each in value]
    if isinstance(value, dict):
        return {name: fill_value(each, found, picture) for name, each in value.items()}
    while isinstance(value, str) and "•" in value:
        found.append(f"word{len(found)}of")
        value = value.replace("•", found[-1], 1)
    return value.replace("◆", picture) if isinstance(value, str) else value


def render_seen(message: Message) -> str:
    return f"{render_words(message)}\n{render_thought_words(message)}"


def vendors(message: Message) -> set[str]:
    given_back = (part for result in message.results for part in result.parts)
    held: list[MessagePart | Call | Result | Thought] = [*message.parts, *given_back]
    held += [*message.calls, *message.results, *message.thoughts]
    return {each.vendor for each in held if each.vendor}


@pytest.mark.parametrize(("content", "role", "text", "vendor"), SHAPES)
def test_each_message_shape_has_its_reading(
    content: Any, role: str | None, text: str, vendor: str
) -> None:
    message = read(json.loads(json.dumps(content).replace("\\u25c6", PNG)))
    said = render_thought_words(message)
    assert render_words(message) + (f"<{said}>" if said else "") == text
    assert message.role == role
    assert vendors(message) == {vendor} - {""}


@given(JSON | CONTENTS.flatmap(mutated), TEXTS.map("chat.{}".format))
def test_reading_accepts_any_message(content: Any, type_: str) -> None:
    message = read(content, type_)
    assert isinstance(render_seen(message), str)
    assert all(media.weigh_part(part) != 0 for part in message.parts)
    assert read(content, type_, "tool").role == "tool"


MEMBERS = st.dictionaries(
    st.sampled_from(("mood", "data2", "metadata", "x")),
    st.just("•") | st.just(["•", {"at": "•"}]) | st.just({"type": "text", "of": "•"}),
)


@given(st.lists(CONTENTS, min_size=1, max_size=4), MEMBERS)
def test_no_word_is_lost(contents: list[Any], more: dict[str, Any]) -> None:
    found = list[str]()
    items = [each | more if isinstance(each, dict) else each for each in contents]
    content = fill_value(items, found)
    for each in (content, content[0]):
        text = render_seen(read(each))
        # The AI SDK's old content is said by its parts, if it is the same.
        sent = json.dumps(each)
        assert [word for word in found if word in sent and word not in text] == []
    if isinstance(items[0], dict) and "type" not in items[0] and "role" in items[0]:
        assert {*more} <= {*read(content[0]).extras}


GOOD = [
    {"type": "text", "text": "Which tram?"},
    {"type": "tool_use", "id": "a", "name": "tram", "input": {}},
    {"type": "image_url", "image_url": {"url": "https://i.example/a.png"}},
    {"type": "tool_result", "tool_use_id": "a", "content": "10:40"},
]


@given(st.lists(st.sampled_from(GOOD), min_size=1), JUNK, st.integers(0, 9))
def test_bad_item_leaves_the_other_parts_of_a_message_intact(
    good: list[Any], bad: Any, at: int
) -> None:
    whole, mixed = read(heard(*good)), read(heard(*good[:at], bad, *good[at:]))
    junk = [part for part in mixed.parts if part.kind == "data"]
    assert tuple(part for part in mixed.parts if part not in junk) == whole.parts
    assert [part.words for part in junk] == [json.dumps(bad, separators=(",", ":"))]
    assert (mixed.calls, mixed.results) == (whole.calls, whole.results)


@given(CONTENTS, st.binary(min_size=60, max_size=90))
def test_base64_is_never_text(content: Any, raw: bytes) -> None:
    encoded = base64.b64encode(raw).decode()
    assert encoded not in render_seen(read(fill_value(content, [], encoded)))
    asked = {"type": "odd", "url": f"data:a/b;base64,{encoded}", "data": encoded}
    assert encoded not in render_words(read(heard(asked, f"data:a/b;base64,{encoded}")))
    shot = json.dumps({"shot": encoded * 20})
    assert encoded not in render_words(read({"role": "tool", "content": shot}))


@pytest.mark.parametrize(
    ("type_", "role"),
    [("chat.developer", "system"), ("chat.model", "assistant"), ("note", None)],
)
def test_role_comes_from_client_then_shape_then_type(
    type_: str, role: str | None
) -> None:
    assert read("hello", type_).role == role
    assert read({"content": "hello"}, type_).role == role
    assert read({"role": "user", "content": "hello"}, type_).role == "user"
    assert read({"role": "user", "content": "hello"}, type_, "tool").role == "tool"
    assert read(heard(GOOD[1])).role == "user"


@pytest.mark.parametrize(
    ("sent", "id_"),
    [("", None), (None, None), (5, "5"), ("c", "c"), (True, None), ({"a": 1}, None)],
)
def test_message_id_is_a_text_or_none(sent: Any, id_: str | None) -> None:
    call = {"id": sent, "type": "function", "function": {"name": "f", "arguments": "7"}}
    message = read({"role": "assistant", "tool_calls": [call]})
    assert (message.calls[0].id, message.calls[0].values) == (id_, None)
    result = {"role": "tool", "tool_call_id": sent, "content": "7"}
    assert read(result).results[0].id == id_


JPEG = b"\xff\xd8\xff\xe0\x00\x10" + bytes(14) + b"\xff\xc0\x00\x11\x08\x00\x64\x01\x90"


@pytest.mark.parametrize(
    "raw",
    [
        base64.b64decode(PNG),
        JPEG + bytes(9),
        b"GIF89a\x90\x01\x64\x00" + bytes(9),
        b"RIFF0000WEBPVP8X" + bytes(8) + b"\x8f\x01\x00\x63\x00\x00",
        b"RIFF0000WEBPVP8 " + bytes(10) + b"\x90\x01\x64\x00",
        b"RIFF0000WEBPVP8L"
        + bytes(5)
        + (399 | 99 << 14).to_bytes(4, "little")
        + b"00000",
    ],
)
def test_pictures_size_is_in_its_first_bytes(raw: bytes) -> None:
    for end in range(len(raw)):
        media.find_medium("image", {"data": base64.b64encode(raw[:end]).decode()})
    medium = media.find_medium("image", {"data": base64.b64encode(raw).decode()}).medium
    assert (medium.width, medium.height) == (400, 100)


@pytest.mark.parametrize(
    ("kind", "medium", "tokens", "line"),
    [
        ("image", Medium(width=513, height=512), 425, "[image 513×512]"),
        ("image", Medium(width=513, height=9, detail="low"), 85, "[image 513×9]"),
        ("image", Medium(mime_type="image/png"), 765, "[image png]"),
        ("file", Medium(name="a.pdf", pages=12), 18_000, "[file a.pdf, 12 pages]"),
        ("file", Medium(), None, "[file]"),
        ("audio", Medium(seconds=12.0), 120, "[audio 0:12]"),
    ],
)
def test_medium_weighs_by_its_kind(
    kind: PartKind, medium: Medium, tokens: int | None, line: str
) -> None:
    part = MessagePart(kind=kind, words="", medium=medium)
    assert (media.weigh_part(part), media.render_line(part)) == (tokens, line)


def test_deep_message_is_read_to_its_end() -> None:
    deep: Any = "the end"
    for _ in range(15):
        deep = heard(deep)
    assert "the end" in render_words(read(deep))


def test_compaction_of_anthropic_keeps_its_words() -> None:
    block = {"type": "compaction", "content": "Ann has a dog."}
    message = read({"role": "assistant", "content": [block]})
    assert render_words(message) == "Ann has a dog."
    assert message.role == "assistant"
