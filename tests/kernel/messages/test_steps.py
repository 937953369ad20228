"""Pieces of a message in their steps, and what requests of version 2 lack."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.messages import reading, writing
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.message import Call, Result, Vendor
from memoryhub.kernel.messages.steps import OpenCalls
from memoryhub.kernel.messages.writing import ShownMessage
from tests.kernel.messages.shapes import heard
from tests.kernel.messages.test_writing import PNG, Json, build_request, say_as
from tests.kernel.messages.vendors import require_types
from tests.validators import require_request


def test_pieces_go_back_in_their_order() -> None:
    """A step ends where a thought follows other pieces, or a text follows calls."""
    thoughts: list[Json] = [
        {"type": "thinking", "thinking": "?", "signature": f"Eq{n}B"} for n in "012"
    ]
    searched = {"type": "server_tool_use", "id": "s1", "name": "web_search"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "Tide."}
    text, use = {"type": "text", "text": "So:"}, {"type": "tool_use", "id": "c1"}
    called = [{**searched, "input": {}}, found]
    used = {**use, "name": "tide", "input": {}}
    said = [thoughts[0], *called, thoughts[1], text, thoughts[2], used]
    request = _build_running(heard(*said) | {"role": "assistant"}, "anthropic")
    first, _, second, _ = (each["content"] for each in request["messages"][1:])
    assert (first[0], first[1]["id"]) == (thoughts[0], "s1")
    assert second == [thoughts[1], text, thoughts[2], used]

    reasoned = [
        {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "gA"}
        for n in "01"
    ]
    spoken = {"type": "message", "role": "assistant", "content": "Hm."}
    listed = {"type": "mcp_call", "id": "m1", "name": "find", "arguments": "{}"}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    items = [reasoned[0], spoken, listed, reasoned[1], call]
    first, line, second, *_ = _build_running(items, "responses")["input"][1:]
    assert [first, second] == reasoned
    assert line["content"].startswith("Hm.\n[called find")

    # The API wants each reasoning item before what followed it, calls open or not.
    said = _build_running([call, reasoned[0], spoken], "responses")["input"][1:4]
    assert said == [call, reasoned[0], {"role": "assistant", "content": "Hm."}]


def _build_running(content: Any, vendor: Vendor) -> Json:
    """Return the valid request of a user's word and this message, not answered yet."""
    message = reading.read(content)
    shown = ShownMessage(message=message, seed="1", thoughts=True)
    request = build_request([say_as("user", "Go."), shown], vendor)
    require_types(vendor, request)
    require_request(vendor, request)
    return request


def test_gemini_s_code_and_signed_summaries_go_back() -> None:
    code = {"language": "PYTHON", "code": "print(2)"}
    parts = [
        {"text": "I count.", "thought": True, "thoughtSignature": "CiQA"},
        {"executableCode": code, "thoughtSignature": "CiQB"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}},
        {"text": "2."},
    ]
    content = {"role": "model", "parts": parts}
    assert _build_running(content, "gemini")["contents"][1] == content
    said = json.dumps(_build_running(content, "anthropic"))
    assert "print(2)" in said
    assert "CiQ" not in said


def test_citations_of_a_search_are_left_out_with_its_result() -> None:
    """Only a recorded request of `pack/2` still has them."""
    cited = {"type": "web_search_result_location", "cited_text": "a", "title": None}
    cited |= {"url": "https://tide.example", "encrypted_index": "Eo8B"}
    text = {"type": "text", "text": "High at six.", "citations": [cited]}
    message = reading.read(heard(text) | {"role": "assistant"})
    shown = [ShownMessage(message=message, seed="1")]
    for detailed in (True, False, True):
        written = writing.write(shown, "anthropic", ids=RequestIds(), detailed=detailed)
        assert ("Eo8B" in written[0][0]) is not detailed


def test_pictures_of_a_document_are_pictures() -> None:
    text = {"type": "text", "text": "Page one."}
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    picture = {"type": "image", "source": source}
    document = {"type": "content", "content": [text, picture]}
    sent = heard({"type": "document", "title": "Atlas", "source": document})
    shown = ShownMessage(message=reading.read(sent), seed="1")
    content = build_request([shown], "anthropic")["messages"][0]["content"]
    assert content == [{"type": "text", "text": "Atlas"}, text, picture]
    parts = build_request([shown], "chat")["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "text", "image_url"]
    (old,) = writing.write([shown], "chat", ids=RequestIds(), detailed=False)
    assert "image_url" not in old[0]


def test_requests_of_version_2_lack_what_came_after_them() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    drawn = {"role": "model", "parts": [{**picture, "thoughtSignature": "CiQC"}]}
    ended = {"role": "model", "parts": [{"text": "", "thoughtSignature": "CiQC"}]}
    summary = {"type": "compaction", "content": "Ann has a dog."}
    summed = {"role": "assistant", "content": [summary]}
    cases: list[tuple[Json, Vendor, str]] = [
        (drawn, "gemini", "[image, png]"),
        (ended, "gemini", ""),
        (summed, "anthropic", ""),
    ]
    for message, vendor, old in cases:
        shown = ShownMessage(message=reading.read(message), seed="1")
        (new,), (less,) = (
            writing.write([shown], vendor, ids=RequestIds(), detailed=detailed)
            for detailed in (True, False)
        )
        assert new != less
        assert old in "".join(less)
        assert bool(old) == bool(less)


_LABELS = {
    "id": st.sampled_from([None, "", "a", "b"]),
    "name": st.sampled_from([None, "f", "g"]),
}


@given(st.lists(st.builds(Call, **_LABELS) | st.builds(Result, **_LABELS)))
def test_result_takes_its_call_by_id_then_by_name_and_order(
    pieces: list[Call | Result],
) -> None:
    waiting, calls = dict[int, Call](), OpenCalls()
    count = 0
    for each in pieces:
        if isinstance(each, Call):
            calls.add([each])
            waiting[count] = each
            count += 1
            continue
        same_id = [n for n in waiting if (waiting[n].id or "") == (each.id or "")]
        if not same_id and not each.id and each.name:
            same_id = [n for n in waiting if waiting[n].name == each.name]
        named = [n for n in same_id if each.name and waiting[n].name == each.name]
        expected = next(iter([*named, *same_id]), None)
        assert calls.take(each) == expected
        waiting.pop(expected if expected is not None else -1, None)
    assert bool(calls) == bool(waiting)


def test_message_in_steps_is_written_after_it_was_written_whole() -> None:
    """Chat completions cache the text of a message that others take in steps."""
    thought = {"type": "thinking", "thinking": "?", "signature": "EqB"}
    answer = {"type": "web_search_tool_result", "content": "Tide."}
    contents: list[list[Json]] = [
        [{"functionCall": {"name": "f", "args": {}}}],
        [answer, thought],
        [{"functionResponse": {"name": "f", "response": {"a": 1}}}],
    ]
    shown = [
        ShownMessage(message=reading.read(heard(*each) | {"role": "assistant"}), seed=s)
        for s, each in zip("123", contents, strict=True)
    ]
    for vendor in ("chat", "anthropic"):
        require_request(vendor, build_request(shown, vendor))
