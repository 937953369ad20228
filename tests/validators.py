"""Strict validators of requests: what the pickiest server takes."""

from __future__ import annotations

import re
from typing import Any

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def require_chat(messages: list[dict[str, Any]]) -> None:
    """Chat completions: every call has its one result at once, every id is new."""
    seen, open_calls = set[str](), list[str]()
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.remove(message["tool_call_id"])
            assert isinstance(message["content"], str | list)
            continue
        assert not open_calls, "a call without its result"
        assert role in ("system", "developer", "user", "assistant"), role
        calls = message.get("tool_calls")
        if role == "assistant" and calls is not None:
            assert isinstance(calls, list)
            assert calls
            for call in calls:
                _require_call(call)
                assert call["id"] not in seen, "an id twice"
                seen.add(call["id"])
                open_calls.append(call["id"])
            assert isinstance(message["content"], str | list | None)
        else:
            assert "tool_calls" not in message
            assert isinstance(message["content"], str | list)
            assert message["content"], "nothing said"
    assert not open_calls, "a call without its result"


def _require_call(call: dict[str, Any]) -> None:
    assert call["type"] == "function"
    assert isinstance(call["id"], str)
    assert call["id"]
    assert NAME.fullmatch(call["function"]["name"])
    assert isinstance(call["function"]["arguments"], str)


def require_request(shape: str, request: dict[str, Any]) -> None:
    """What the pickiest server of that API takes, by its format."""
    if shape == "chat":
        require_chat(request["messages"])
    elif shape == "responses":
        require_responses(request)
    else:
        require_anthropic(request)


def require_responses(request: dict[str, Any]) -> None:
    """Responses: each call has one output, and no output comes before its call."""
    assert {*request} <= {"input", "tools"}
    for tool in request.get("tools", ()):
        assert tool["type"] == "function"
        assert NAME.fullmatch(tool["name"])
        assert isinstance(tool["strict"], bool)
    seen, open_calls = set[str](), set[str]()
    for item in request["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            assert item["role"] in ("system", "developer", "user", "assistant")
            assert item["content"], "nothing said"
            _require_parts(item["content"], {"input_text", "input_image"})
            assert not open_calls, "a call without its output"
        elif kind == "function_call":
            assert {*item} == {"type", "call_id", "name", "arguments"}
            assert NAME.fullmatch(item["name"])
            assert isinstance(item["arguments"], str)
            assert 0 < len(item["call_id"]) <= 64
            assert item["call_id"] not in seen, "an id twice"
            seen.add(item["call_id"])
            open_calls.add(item["call_id"])
        else:
            assert kind == "function_call_output", kind
            assert {*item} == {"type", "call_id", "output"}
            assert item["call_id"] in open_calls, "an output without its call"
            open_calls.remove(item["call_id"])
            _require_parts(item["output"], {"input_text", "input_image"})
    assert not open_calls, "a call without its output"


def _require_parts(content: Any, kinds: set[str]) -> None:
    if not isinstance(content, str):
        assert {part["type"] for part in content} <= kinds


def require_anthropic(request: dict[str, Any]) -> None:
    """Messages: the user begins, uses are answered by the very next message."""
    assert {*request} <= {"system", "messages", "tools"}
    assert isinstance(request.get("system", ""), str)
    defined = {tool["name"] for tool in request.get("tools", ())}
    assert len(defined) == len(request.get("tools", ())), "a tool twice"
    for tool in request.get("tools", ()):
        assert NAME.fullmatch(tool["name"])
        assert tool["input_schema"]["type"] == "object"
    assert request["messages"][0]["role"] == "user"
    seen, waiting = set[str](), list[str]()
    for message in request["messages"]:
        assert {*message} == {"role", "content"}
        assert message["role"] in ("user", "assistant")
        uses, answered = _require_blocks(message, defined)
        assert sorted(answered) == sorted(waiting), "uses that are not answered"
        assert not seen & {*uses}, "an id twice"
        assert len({*uses}) == len(uses)
        seen |= {*uses}
        waiting = uses
    assert not waiting, "uses that are not answered"


def _require_blocks(
    message: dict[str, Any], defined: set[str]
) -> tuple[list[str], list[str]]:
    """Ids of its uses of tools, and of those that it answers."""
    content = message["content"]
    if isinstance(content, str):
        assert content.strip(), "nothing said"
        return [], []
    assert content, "nothing said"
    uses, answered = list[str](), list[str]()
    for block in content:
        kind = block["type"]
        if kind == "tool_use":
            assert message["role"] == "assistant"
            assert isinstance(block["input"], dict)
            assert block["name"] in defined, "a tool that is not defined"
            assert NAME.fullmatch(block["id"])
            uses.append(block["id"])
        elif kind == "tool_result":
            assert message["role"] == "user"
            assert isinstance(block["content"], str | list)
            answered.append(block["tool_use_id"])
        elif kind == "text":
            assert block["text"].strip(), "nothing said"
        else:
            assert kind == "image", kind
            assert block["source"]["type"] in ("base64", "url")
    return uses, answered
