"""Four writings: whatever messages stand in whatever order, the request is valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from memoryhub.kernel.messages import reading, writing
from memoryhub.kernel.messages.ids import Names, RequestIds
from memoryhub.kernel.messages.message import (
    Call,
    Medium,
    Message,
    MessagePart,
    Result,
    Thought,
    Vendor,
)
from memoryhub.kernel.messages.pieces import MessageFormat
from memoryhub.kernel.messages.writing import FORMATS, ShownMessage
from tests.kernel.messages.shapes import heard
from tests.kernel.messages.vendors import require_types
from tests.validators import NAME, iter_texts, require_request

Json = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAA"
BYTES = [
    PNG,
    "JVBERi0xLjcKJcOkw7zDtsOf",
    "UklGRiQAAABXQVZFZm10IBAA",
    "PHN2Zz48L3N2Zz4=",
]
VENDORS: st.SearchStrategy[Vendor | None] = st.sampled_from(
    ["chat", "responses", "anthropic", "gemini", None]
)
IDS = st.sampled_from(
    [
        None,
        "",
        "c1",
        "c2",
        "c2",
        "list_dir:0",
        "7",
        "x" * 41,
        "y" * 80,
        "né e",
        "\ud83d",
    ]
)
NAMES = [
    "tide",
    "look_up",
    "look.up",
    "look up",
    "n" * 70,
    "n" * 71,
    "李",
    "-",
    "a\ud83d",
]
ARGUMENTS = st.sampled_from(
    [
        *("", "null", '{"n":1.10}', '{"n":NaN}', "[1]", "7", '{"p":', '{"n":1e400}'),
        *('{"a":"\ud83d"}', '{"a":"\\ud83d"}', '{"a":' * 999 + "1" + "}" * 999),
    ]
)
SENT = st.sampled_from(
    [
        None,
        "as text",
        {"type": "text", "cache_control": {"type": "ephemeral"}, "citations": None},
        {
            "type": "text",
            "cache_control": {"type": "ephemeral", "ttl": "1h", "scope": "x"},
            "citations": [
                {"type": "page_location"},
                {"type": "char_location", "cited_text": "a", "file_id": None}
                | {"document_index": 0, "document_title": None}
                | {"start_char_index": 0, "end_char_index": 1},
            ],
        },
        {"thoughtSignature": "CiQB"},
        {"thoughtSignature": "né"},
        {"type": "document", "title": "Lease", "citations": {"enabled": True}},
        {"type": "search_result", "source": "a", "title": "b", "content": []},
    ]
)
THOUGHTS = st.sampled_from(
    [
        Thought(vendor="anthropic", sent={"type": "redacted_thinking", "data": "Em8K"}),
        Thought(
            vendor="anthropic",
            sent={"type": "thinking", "thinking": "I ask.", "signature": "EqQB"},
        ),
        Thought(vendor="anthropic", sent={"type": "thinking", "thinking": "I ask."}),
        Thought(
            vendor="responses",
            sent={"type": "reasoning", "id": "rs_1", "summary": [], "status": None}
            | {"encrypted_content": "gAAA"},
        ),
        Thought(
            vendor="responses",
            sent={"type": "reasoning", "id": "rs_2", "summary": [{"text": {}}]}
            | {"encrypted_content": "gAAA"},
        ),
        Thought(vendor="chat", sent="I ask.", words="I ask."),
    ]
)
MEDIA = st.builds(
    Medium,
    mime_type=st.sampled_from(
        [None, "image/png", "image/svg+xml", "application/pdf", "audio/wav"]
    ),
    url=st.sampled_from([None, "https://img.example/m.png", "file:///m", "data:x"]),
    base64=st.sampled_from([None, "no base64", *BYTES]),
    file_id=st.sampled_from([None, "file-1"]),
    name=st.sampled_from([None, "report.pdf"]),
    width=st.sampled_from([None, 400]),
    height=st.just(100),
    detail=st.sampled_from([None, "high", "full"]),
)
UNANSWERED = "[no result was recorded]"
ENDS = st.sampled_from(["", " ", " \n", "\ud83d"])


@st.composite
def talks(draw: st.DrawFn) -> list[ShownMessage]:
    """Draw messages of all kinds in any order, each with words that no other has."""
    numbers = count()

    def draw_words() -> str:
        return f"word{next(numbers)}." + draw(ENDS)

    def draw_parts(most: int = 2) -> tuple[MessagePart, ...]:
        return tuple(draw_part() for _ in range(draw(st.integers(0, most))))

    def draw_part() -> MessagePart:
        kind = draw(st.sampled_from(["text"] * 4 + ["image", "audio", "file", "video"]))
        blank = kind == "text" and draw(st.integers(0, 5)) == 0
        return MessagePart(
            kind=kind,  # type: ignore[arg-type]  # one of them
            words=draw(ENDS) if blank or kind != "text" else draw_words(),
            medium=None if kind == "text" else draw(MEDIA),
            sent=draw(SENT),
            vendor=draw(VENDORS),
            step=draw(st.integers(0, 2)),
        )

    def call() -> Call:
        return Call(
            id=draw(IDS),
            name=draw(st.sampled_from([None, *NAMES])),
            arguments=draw(ARGUMENTS),
            kind=draw(st.sampled_from(["function", "function", "custom", "server"])),
            sent=draw(SENT),
            vendor=draw(VENDORS),
            step=draw(st.integers(0, 2)),
        )

    def draw_result() -> Result:
        name = draw(st.sampled_from([None, *NAMES]))
        failed = draw(st.booleans())
        said = (MessagePart(kind="text", words=draw_words()), *draw_parts(1))
        vendor = draw(VENDORS)
        return Result(
            id=draw(IDS),
            name=name,
            parts=said,
            failed=failed,
            sent=draw(SENT),
            vendor=vendor,
        )

    def draw_shown(number: int) -> ShownMessage:
        role = draw(st.sampled_from(["user", "assistant", "assistant", "tool", "tool"]))
        some = st.integers(0, 2) if role == "assistant" else st.just(0)
        called = tuple(call() for _ in range(draw(some)))
        answers = (
            draw(st.integers(0, 2)) if role == "tool" else draw(st.integers(0, 3)) // 3
        )
        message = Message(
            role=role,  # type: ignore[arg-type]  # one of them
            name=draw(
                st.sampled_from([None, "", "Ann", "Keeper Ňová", "李", "z" * 65])
            ),
            parts=draw_parts() if draw(st.booleans()) else (),
            calls=called,
            results=tuple(draw_result() for _ in range(answers)),
            refusal=draw_words() if draw(st.integers(0, 6)) == 0 else None,
            thoughts=tuple(draw(st.lists(THOUGHTS, max_size=1))),
            phases=draw(st.sampled_from([(), (None, "commentary", "final_answer")])),
        )
        return ShownMessage(
            message=message,
            seed=f"seed {number}",
            thoughts=draw(st.booleans()),
            media=draw(st.integers(0, 4)) > 0,
        )

    return [draw_shown(number) for number in range(draw(st.integers(1, 8)))]


def build_request(
    shown: Sequence[ShownMessage], vendor: Vendor, ids: RequestIds | None = None
) -> Json:
    """Return the request of these messages alone, with definitions of two tools."""
    form = FORMATS[vendor]
    names = Names(["look_up", "look.up"], lettered=form.lettered)
    ids = ids or RequestIds(names=names)
    written = writing.write(shown, vendor, ids=ids)
    assert len(written) == len(shown)
    listed = [text for each in written for text in each]
    defined = [{"type": "function", "function": {"name": n}} for n in NAMES[1:3]]
    joined = join_texts(form, listed)
    tools = writing.write_tools(form, json.dumps(defined), ids)
    raw = f'{{"{form.field}":[{joined}],"tools":{tools}}}'
    raw.encode()
    found: Json = json.loads(raw, parse_constant=pytest.fail)
    return found


def join_texts(form: MessageFormat, listed: Sequence[str]) -> str:
    texts = [*writing.build_leading(form, listed), *listed]
    return ",".join(form.join(texts) if form.join else texts)


def speakers(vendor: str, request: Json) -> Iterator[tuple[str, str]]:
    """Yield the speaker and the content of each block, tools included."""
    for each in request.get("contents", ()):
        role = {"model": "assistant"}.get(each["role"], each["role"])
        for part in each["parts"]:
            yield "tool" if "functionResponse" in part else role, json.dumps(part)
    for each in request.get(FORMATS[vendor].field, ()):  # type: ignore[index]  # one of them
        content = each.get("content", "")
        for block in content if isinstance(content, list) else [content]:
            result = isinstance(block, dict) and block.get("type") == "tool_result"
            role = each.get("role", "tool")
            yield "tool" if result else role, json.dumps(block)
        yield "tool", json.dumps(each.get("output"))


@settings(deadline=None, max_examples=60)
@given(talk=talks(), vendor=st.sampled_from([*FORMATS]))
def test_messages_in_any_order_are_valid(
    talk: list[ShownMessage], vendor: Vendor
) -> None:
    request = build_request(talk, vendor)
    if request[FORMATS[vendor].field]:
        require_types(vendor, request)
        require_request(vendor, request)
        last = request[FORMATS[vendor].field][-1]
        if last.get("role") in ("assistant", "model"):
            ends = [*iter_texts(last.get("content", last.get("parts")))][-1]
            assert ends == ends.rstrip()


@pytest.mark.parametrize("vendor", FORMATS)
@pytest.mark.parametrize("blanks", ["", "   ", "\n", "\u00a0"])
def test_message_of_blanks_is_left_out(vendor: Vendor, blanks: str) -> None:
    """The message comes from any API. A blank result stays: its call needs one."""
    cached = {"type": "text", "text": blanks, "cache_control": {"type": "ephemeral"}}
    said = [
        *(blanks, {"role": "user", "content": blanks}, heard(cached, cached)),
        heard({"type": "input_text", "text": blanks}) | {"type": "message"},
        [heard({"type": "input_text", "text": blanks}) | {"type": "message"}],
        {"role": "user", "name": "ann", "content": blanks},
        {"role": "assistant", "content": blanks, "refusal": blanks},
    ]
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": blanks},
        heard({"type": "tool_result", "tool_use_id": "c1", "content": [cached]}),
        {"type": "function_call_output", "call_id": "c1", "output": blanks},
    ]

    def read_one(content: Any) -> ShownMessage:
        message = reading.read(content, "chat.user")
        return ShownMessage(message=message, seed="1", thoughts=True)

    for content in said:
        request = build_request(
            [read_one(each) for each in ("Hi.", content, "Ho.")], vendor
        )
        assert request == build_request([read_one("Hi."), read_one("Ho.")], vendor), (
            content
        )
    for content in results:
        request = build_request([read_one(content), read_one("Ho.")], vendor)
        require_types(vendor, request)
        require_request(vendor, request)


@settings(deadline=None, max_examples=40)
@given(talk=talks(), vendor=st.sampled_from([*FORMATS]))
def test_roles_never_change(talk: list[ShownMessage], vendor: Vendor) -> None:
    """Each word is said once, by its own speaker."""
    found = [*speakers(vendor, build_request(talk, vendor))]
    for each in talk:
        message = each.message
        said = [(message.role, part) for part in message.parts]
        said += [("tool", part) for result in message.results for part in result.parts]
        wanted = [(role, part.words.split(".")[0]) for role, part in said]
        wanted += [(message.role, (message.refusal or "").split(".")[0])]
        for role, word in wanted:
            if word.startswith("word"):
                assert [who for who, text in found if f"{word}." in text] == [role]


@settings(deadline=None, max_examples=40)
@given(talk=talks(), vendor=st.sampled_from([*FORMATS]))
def test_base64_is_never_text(talk: list[ShownMessage], vendor: Vendor) -> None:
    for text in iter_texts(build_request(talk, vendor)):
        assert not any(each in text for each in BYTES)


@settings(deadline=None, max_examples=40)
@given(talk=talks(), vendor=st.sampled_from([*FORMATS]), data=st.data())
def test_ids_are_stable_over_turns(
    talk: list[ShownMessage], vendor: Vendor, data: st.DataObject
) -> None:
    """Later messages change no id; evicted ones change nothing of those that stay."""
    ids = RequestIds()
    whole = writing.write(talk, vendor, ids=ids)
    earlier = data.draw(st.integers(0, len(talk)))
    before, after = (
        call_ids(build_request(part, vendor)) for part in (talk[:earlier], talk)
    )
    assert after[: len(before)] == before
    spans = [*writing.iter_groups([each.message for each in talk])]
    assert [n for start, end in spans for n in range(start, end)] == [*range(len(talk))]
    # Thoughts alone are followed by what they are of.
    start = data.draw(st.sampled_from(spans))[0]
    assert writing.write(talk[start:], vendor, ids=ids) == whole[start:]


@settings(deadline=None, max_examples=60)
@given(talk=talks(), pairs=st.lists(IDS, max_size=6), data=st.data())
def test_message_written_before_equals_one_written_afresh(
    talk: list[ShownMessage], pairs: list[str | None], data: st.DataObject
) -> None:
    """Other messages may surround the message, in any order and for any API."""
    talk = [replace(each, thoughts=False) for each in talk]
    for n, each in enumerate(pairs):
        at = data.draw(st.integers(0, len(talk)))
        named = data.draw(st.sampled_from(NAMES))
        asked = say_as("assistant", calls=(Call(id=each, name=named),))
        pair = [asked, say_as("tool", results=(answer(each, f"result {n}"),))]
        talk[at:at] = [replace(of, seed=f"pair {n}") for of in pair]
    kept = 0
    for _ in range(4):
        some = data.draw(st.lists(st.sampled_from(range(len(talk))), unique=True))
        shown = [talk[n] for n in (sorted(some) if data.draw(st.booleans()) else some)]
        fresh = [replace(each, message=replace(each.message)) for each in shown]
        vendor: Vendor = data.draw(st.sampled_from([*FORMATS]))
        spans = [
            [*writing.iter_groups([s.message for s in by])] for by in (shown, fresh)
        ]
        assert spans[0] == spans[1]
        assert build_request(shown, vendor) == build_request(fresh, vendor)
        kept += any(each.message.kept for each in shown)
    event(f"kept: {kept > 0}")


@pytest.mark.parametrize("vendor", FORMATS)
def test_call_in_words_claims_no_name_the_second_time(vendor: Vendor) -> None:
    calls = (TRAM, Call(id="s", name="tide", kind="server"))
    talk = [
        say_as("assistant", calls=calls),
        say_as("tool", results=(answer("a", "10:40"),)),
    ]
    written = [build_request(talk, each) for each in ("chat", vendor)]
    assert talk[0].message.kept
    fresh = [replace(each, message=replace(each.message)) for each in talk]
    assert written[1] == build_request(fresh, vendor)


def test_cached_text_of_a_message_ends_with_the_message() -> None:
    talk = [
        say_as("assistant", calls=(TRAM,)),
        say_as("tool", results=(answer("a", "10:40"),)),
    ]
    first = build_request(talk, "chat")
    talk[1] = say_as("tool", results=(answer("a", "[erased]"),))
    assert "10:40" in str(first)
    assert "10:40" not in str(talk[0].message.kept)
    assert "10:40" not in str(build_request(talk, "chat"))


def call_ids(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in call_ids(each)]
    if not isinstance(value, dict):
        return []
    if "call_id" in value:
        return [value["call_id"]] if not value["type"].endswith("_output") else []
    if "id" in value and value.get("type") in ("tool_use", "function", "custom"):
        return [value["id"]]
    if "functionCall" in value:
        return [value["functionCall"]["id"]]
    return call_ids([each for key, each in value.items() if key != "tools"])


@given(
    names=st.lists(st.sampled_from(NAMES) | st.text(min_size=1), unique=True),
    lettered=st.booleans(),
)
def test_mended_names_find_their_tool(names: list[str], lettered: bool) -> None:
    mended = Names(names, lettered=lettered)
    written = [mended.to_written(name) for name in names]
    taken = re.compile("[A-Za-z_][A-Za-z0-9_-]{0,63}") if lettered else NAME
    assert all(map(taken.fullmatch, written))
    assert [mended.to_original(each) for each in written] == names
    pairs = [*zip(names, written, strict=True)]
    assert all(n == w for n, w in pairs if taken.fullmatch(n))
    again = Names(names[::-1], lettered=lettered)
    assert {n: again.to_written(n) for n in names} == dict(pairs)


def say_as(role: Any, words: str = "", **more: Any) -> ShownMessage:
    parts = (MessagePart(kind="text", words=words),) if words else ()
    message = Message(role=role, parts=parts, **more)
    return ShownMessage(message=message, seed=f"{role} {words} {more}")


def answer(call_id: str | None, words: str, *parts: MessagePart) -> Result:
    return Result(id=call_id, parts=(MessagePart(kind="text", words=words), *parts))


TRAM, TIDE = Call(id="a", name="tram"), Call(id="b", name="tide", arguments="low?")
PICTURE = MessagePart(
    kind="image", words="", medium=Medium(base64=PNG, width=4, height=3)
)


def test_calls_and_results_over_several_messages_are_next_to_each_other() -> None:
    talk = [
        say_as("assistant", "I look.", calls=(TRAM,)),
        say_as("assistant", calls=(TIDE,)),
        say_as("tool", results=(answer("b", "low"),)),
        say_as("user", "Hurry.", results=(answer("a", "10:40", PICTURE),)),
    ]
    asked, low, tram, shown, hurry = build_request(talk, "chat")["messages"]
    assert [call["id"] for call in asked["tool_calls"]] == ["a", "b"]
    assert asked["tool_calls"][1]["function"]["arguments"] == '{"input":"low?"}'
    assert (low["content"], tram["content"]) == ("low", "10:40\n[image 4×3]")
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert hurry == {"role": "user", "content": "Hurry."}
    _, uses, results, _ = build_request(talk, "anthropic")["messages"]
    assert [block["type"] for block in uses["content"]] == ["text", *["tool_use"] * 2]
    assert results["content"][1]["content"][1]["type"] == "image"


def test_late_result_and_a_second_one_are_pairs_of_their_own() -> None:
    talk = [
        say_as("assistant", calls=(TRAM,)),
        say_as("user", "Hurry!"),
        say_as("tool", results=(answer("a", "10:40"),)),
        say_as("tool", results=(answer("a", "10:41"),)),
    ]
    written = writing.write(talk, "responses", ids=RequestIds())
    items = [json.loads(f"[{','.join(each)}]") for each in written]
    assert items[0][1]["output"] == "[no result was recorded]"
    assert [(call["name"], result["output"]) for call, result in items[2:]] == [
        ("tram", "10:40"),
        ("tram", "10:41"),
    ]


def test_results_without_ids_answer_calls_without_ids_in_order() -> None:
    calls = tuple(replace(call, id=None) for call in (TRAM, TIDE))
    results = [say_as("tool", text) for text in ("10:40", "low")]
    _, *found = build_request([say_as("assistant", calls=calls), *results], "chat")[
        "messages"
    ]
    assert [each["content"] for each in found] == ["10:40", "low"]


def test_server_tool_call_is_written_as_assistant_text() -> None:
    search = Call(id="s", name="web_search", values={"query": "trams"}, kind="server")
    for vendor in FORMATS:
        request = build_request(
            [say_as("user", "Go."), say_as("assistant", calls=(search,))],
            vendor,
        )
        said = '[called web_search: "trams"]'
        assert request[FORMATS[vendor].field][1] == (
            {"role": "model", "parts": [{"text": said}]}
            if vendor == "gemini"
            else {"role": "assistant", "content": said}
        )


def test_shortened_result_keeps_its_call_and_the_words_beside_it() -> None:
    results = (answer("a", "long"), answer("b", "longer"))
    both = replace(say_as("user", "Hurry.", results=results), text="[shortened] lo")
    talk = [say_as("assistant", calls=(TRAM, TIDE)), both]
    assert [
        each["content"] for each in build_request(talk, "chat")["messages"][1:]
    ] == [*("[shortened] lo", "", "Hurry.")]


def test_failed_results_say_so() -> None:
    failed = replace(answer("a", "No."), failed=True)
    talk = [
        say_as("assistant", calls=(TRAM,)),
        say_as("tool", results=(failed,)),
    ]
    assert build_request(talk, "chat")["messages"][1]["content"] == "[failed] No."
    assert build_request(talk, "responses")["input"][1]["output"] == "[failed] No."
    block = build_request(talk, "anthropic")["messages"][2]["content"][0]
    assert (block["content"], block["is_error"]) == ("No.", True)


def test_vendor_fields_are_kept_while_the_exchange_runs() -> None:
    thought = {"type": "thinking", "thinking": " I ask.", "signature": "EqQB"}
    point = {"cache_control": {"type": "ephemeral"}}
    signed = {"extra_content": {"google": {"thought_signature": "CiQB"}}}
    part = MessagePart(
        kind="text", words="Go.", sent={**point, "x": 1}, vendor="anthropic"
    )
    called = Message(
        role="assistant",
        parts=(part,) * 6,
        calls=(replace(TRAM, sent=signed, vendor="chat", arguments='{"n": 1.10}'),),
        thoughts=(Thought(vendor="anthropic", sent=thought),),
    )
    runs = ShownMessage(message=replace(called, parts=(part,)), seed="1", thoughts=True)
    blocks = build_request([runs], "anthropic")["messages"][1]["content"]
    assert blocks[:2] == [thought, {"type": "text", "text": "Go."} | point]
    assert (
        build_request([runs], "chat")["messages"][0]["tool_calls"][0] | signed
        == (build_request([runs], "chat")["messages"][0]["tool_calls"][0])
    )
    for over in (replace(runs, thoughts=False), replace(runs, message=called)):
        text = json.dumps(build_request([over], "anthropic"))
        assert "cache_control" not in text
    assert (
        '"input":{"n": 1.10}'
        in writing.write([runs], "anthropic", ids=RequestIds())[0][0]
    )


def test_signature_of_gemini_goes_back_with_its_part() -> None:
    """A call that no Gemini model made has the signature which says so."""
    call = {"id": "a", "name": "tide", "args": {"n": 1.1}}
    parts = [
        {"text": "I look. ", "thoughtSignature": "CiQB"},
        {"functionCall": call, "thoughtSignature": "CiQC"},
        {"functionCall": {**call, "id": "b"}},
    ]
    result = {"functionResponse": {"id": "a", "name": "tide", "response": {"m": 2}}}
    failed = {"functionResponse": {"id": "b", "name": "tide", "response": {}}}
    came = [{"role": "model", "parts": parts}, {"role": "user", "parts": [result]}]
    talk = [
        ShownMessage(message=reading.read(each, "chat.user"), seed=str(n))
        for n, each in enumerate(came)
    ]
    _, *contents = build_request(talk, "gemini")["contents"]
    told = {**failed["functionResponse"], "response": {"output": UNANSWERED}}
    assert contents[0] == came[0]
    assert contents[1]["parts"] == [{"functionResponse": told}, result]
    other = [say_as("user", "Go."), say_as("assistant", calls=(TRAM, TIDE))]
    said, called = build_request(other, "gemini")["contents"][:2]
    assert said == {"role": "user", "parts": [{"text": "Go."}]}
    signed = [part.get("thoughtSignature") for part in called["parts"]]
    assert signed == ["skip_thought_signature_validator", None]


def test_gemini_s_signed_pictures_and_empty_texts_go_back() -> None:
    """A stream may end in an empty text that has nothing but the signature."""
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    ends: list[Json] = [{"text": "Done."}, {"text": "", "thoughtSignature": "CiQB"}]
    drawn = [{"text": "Here:"}, {**picture, "thoughtSignature": "CiQC"}]
    talk = list[ShownMessage]()
    for parts in (ends, drawn, [{"text": "Mine:"}, picture]):
        message = reading.read({"role": "model", "parts": parts})
        talk += [say_as("user", "Go."), ShownMessage(message=message, seed="1")]
        build_request(talk, "chat")
    contents = build_request(talk, "gemini")["contents"]
    assert [each["parts"] for each in contents[1:4:2]] == [ends, drawn]
    assert contents[5]["parts"][1] == {"text": "[image, png]"}


def test_contents_of_gemini_models_in_a_row_are_one() -> None:
    talk = [
        *(
            say_as("user", "Go."),
            say_as("assistant", "First."),
            say_as("assistant", "Ho."),
        ),
        *(say_as("assistant", calls=(TRAM,)), say_as("user", "And?")),
    ]
    contents = build_request(talk, "gemini")["contents"]
    assert [each["role"] for each in contents] == ["user", "model", "user", "user"]
    said = [next(iter(part)) for part in contents[1]["parts"]]
    assert said == ["text", "text", "functionCall"]


def test_call_of_ours_has_its_stub_where_definitions_are_needed() -> None:
    for vendor, form in FORMATS.items():
        ids = RequestIds()
        pair = writing.write_call(
            "page_list", {}, "None.", seed="3", vendor=vendor, ids=ids
        )
        tools = writing.write_tools(form, "", ids)
        joined = join_texts(form, pair)
        defined = f',"tools":{tools}' if tools else ""
        request = json.loads(f'{{"{form.field}":[{joined}]{defined}}}')
        require_request(vendor, request)
        assert bool(tools) == (vendor == "anthropic")
