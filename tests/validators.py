"""Strict validators of requests, as strict as the strictest server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_WEB = re.compile(r"https?://\S+")
_DATA = re.compile(r"data:([a-z]+/[\w.+-]+);base64,(.+)", re.DOTALL)
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def require_request(shape: str, request: Json) -> None:
    """Require a request that the strictest server of its API accepts."""
    _require_texts(request)
    if shape == "chat":
        require_chat(request["messages"])
        _require_names([tool["function"]["name"] for tool in request.get("tools", ())])
    elif shape == "responses":
        require_responses(request)
    elif shape == "anthropic":
        require_anthropic(request)
    else:
        require_gemini(request)


def require_chat(messages: list[Json]) -> None:
    """Require chat completions: calls have one result at once, ids are unique."""
    seen, open_calls = set[str](), list[str]()
    for message in messages:
        role, content = message["role"], message["content"]
        assert {*message} <= _CHAT_MEMBERS[role], f"{message.keys()} of {role}"
        assert NAME.fullmatch(message.get("name", "none"))
        if role == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls, "a call without its result"
        calls = message.get("tool_calls")
        if calls is None:
            assert content or role == "tool", "nothing said"
        else:
            assert calls, "no calls"
            open_calls += map(_require_call, calls)
            assert len({*open_calls}) == len(open_calls), "an id twice"
            assert not seen & {*open_calls}, "an id twice"
            seen |= {*open_calls}
        for part in content if isinstance(content, list) else ():
            _require_chat_part(part, role)
        assert isinstance(content, str | list) or (calls and content is None)
    assert not open_calls, "a call without its result"


_CHAT_MEMBERS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_CHAT_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}


def _require_call(call: Json) -> str:
    kind = call["type"]
    assert {*call} - {"extra_content"} == {"id", "type", kind}
    assert isinstance(call["id"], str)
    assert 0 < len(call["id"]) <= 40
    text = {"function": "arguments", "custom": "input"}[kind]
    assert {*call[kind]} == {"name", text}
    assert NAME.fullmatch(call[kind]["name"])
    assert isinstance(call[kind][text], str)
    return str(call["id"])


def _require_chat_part(part: Json, role: str) -> None:
    kind = part["type"]
    assert kind in _CHAT_PARTS.get(role, {"text"}), f"a part {kind} of {role}"
    assert {*part} == {"type", kind}
    value = part[kind]
    if kind in ("text", "refusal"):
        assert value, "nothing said"
    elif kind == "image_url":
        assert {*value} <= {"url", "detail"}
        _require_address(value["url"])
    elif kind == "input_audio":
        assert value["format"] in ("wav", "mp3")
        assert _BASE64.fullmatch(value["data"])
    else:
        assert {*value} in ({"file_id"}, {"file_data", "filename"})


def _require_address(url: str) -> None:
    data = _DATA.fullmatch(url)
    if data:
        assert data[1] in _IMAGES, data[1]
        assert _BASE64.fullmatch(data[2])
    else:
        assert _WEB.fullmatch(url), url


def require_responses(request: Json) -> None:
    """Require responses: each call has one output, which comes after its call."""
    assert {*request} <= {"input", "tools"}
    for tool in request.get("tools", ()):
        assert tool["type"] == "function"
        assert isinstance(tool["strict"], bool)
    _require_names([tool["name"] for tool in request.get("tools", ())])
    seen, open_calls, kind = set[str](), dict[str, str](), ""
    for item in request["input"]:
        before, kind = kind, item.get("type", "message")
        if kind == "message":
            # What a model said right after a thought stays behind it, wherever it was.
            replayed = before == "reasoning" and item["role"] == "assistant"
            assert replayed or not open_calls, "a call without its output"
            assert {*item} - {"phase"} == {"role", "content"}
            assert item["role"] in ("system", "developer", "user", "assistant")
            assert item["content"], "nothing said"
            assert isinstance(item["content"], str) or item["role"] == "user"
            _require_input(item["content"])
        elif kind == "reasoning":
            assert item["encrypted_content"]
        elif kind in _TEXT_OF:
            assert {*item} == {"type", "call_id", "name", _TEXT_OF[kind]}
            assert NAME.fullmatch(item["name"])
            assert isinstance(item[_TEXT_OF[kind]], str)
            assert 0 < len(item["call_id"]) <= 64
            assert item["call_id"] not in seen, "an id twice"
            seen.add(item["call_id"])
            open_calls[item["call_id"]] = f"{kind}_output"
        else:
            assert {*item} == {"type", "call_id", "output"}
            assert open_calls.pop(item["call_id"], None) == kind, "not of a call"
            _require_input(item["output"])
    assert not open_calls, "a call without its output"


_TEXT_OF = {"function_call": "arguments", "custom_tool_call": "input"}


def _require_input(content: Any) -> None:
    for part in content if isinstance(content, list) else ():
        kind = part["type"]
        if kind == "input_text":
            assert part["text"], "nothing said"
        elif kind == "input_image":
            assert part["detail"] in ("low", "high", "auto")
            if "file_id" not in part:
                _require_address(part["image_url"])
        else:
            assert kind == "input_file", kind
            assert {*part} & {"file_id", "file_data", "file_url"}


def require_anthropic(request: Json) -> None:
    """Require messages: the user begins, the next message answers all tool uses."""
    assert {*request} <= {"system", "messages", "tools"}
    assert isinstance(request.get("system", ""), str)
    defined = [tool["name"] for tool in request.get("tools", ())]
    _require_names(defined)
    for tool in request.get("tools", ()):
        assert tool["input_schema"]["type"] == "object"
    assert request["messages"][0]["role"] == "user"
    seen, waiting, points = set[str](), list[str](), 0
    for message in request["messages"]:
        assert {*message} == {"role", "content"}
        assert message["role"] in ("user", "assistant")
        blocks = _list_blocks(message["content"])
        assert blocks, "nothing said"
        for block in blocks:
            _require_block(block, message["role"])
            points += "cache_control" in block
        seen |= _require_server_tools(blocks, seen)
        used = [block for block in blocks if block["type"] == "tool_use"]
        assert {use["name"] for use in used} <= {*defined}, "a tool not defined"
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        assert sorted(answered) == sorted(waiting), "uses that are not answered"
        first = [block["type"] for block in blocks][: len(answered)]
        assert {*first} <= {"tool_result"}, "a result behind something else"
        waiting = [use["id"] for use in used]
        assert not seen & {*waiting}, "an id twice"
        assert len({*waiting}) == len(waiting), "an id twice"
        seen |= {*waiting}
    assert not waiting, "uses that are not answered"
    assert points <= 4, "more cache points than may be"


def _require_server_tools(blocks: list[Json], seen: set[str]) -> set[str]:
    """Require a result behind each call, and citations of results; return the ids."""
    waiting, ids, urls = set[str](), set[str](), set[str]()
    for block in blocks:
        if block["type"] == "server_tool_use":
            assert _SERVER_ID.fullmatch(block["id"]), block["id"]
            assert block["id"] not in seen | ids, "an id twice"
            waiting.add(block["id"])
            ids.add(block["id"])
        elif block["type"] in _SERVER_RESULTS:
            waiting.remove(block["tool_use_id"])
            listed = block["content"] if isinstance(block["content"], list) else ()
            urls |= {each["url"] for each in listed}
        for cited in block.get("citations", ()) if block["type"] == "text" else ():
            assert "encrypted_index" not in cited or cited["url"] in urls
    assert not waiting, "a server's call without its result"
    return ids


_SERVER_ID = re.compile("srvtoolu_[A-Za-z0-9_]+")
_SERVER_RESULTS = {
    f"{name}_tool_result"
    for name in ("web_search", "web_fetch", "code_execution", "bash_code_execution")
}
_BLOCKS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "search_result": {"source", "title", "content", "citations"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "server_tool_use": {"id", "name", "input", "caller"},
    **{kind: {"tool_use_id", "content", "caller"} for kind in _SERVER_RESULTS},
}
_MEDIA = {"text", "image", "document", "search_result"}
_SPOKEN = {
    "user": _MEDIA | {"tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"}
    | {"server_tool_use", *_SERVER_RESULTS},
    "result": _MEDIA,
}


def _list_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _require_block(block: Json, where: str) -> None:
    kind = block["type"]
    assert kind in _SPOKEN[where], f"{kind} in {where}"
    assert {*block} <= _BLOCKS[kind] | {"type", "cache_control"}, block.keys()
    if kind == "text":
        assert block["text"].strip(), "nothing said"
    elif kind == "tool_use":
        assert isinstance(block["input"], dict)
        assert NAME.fullmatch(block["id"])
        assert NAME.fullmatch(block["name"])
    elif kind == "tool_result":
        for inner in block["content"] if isinstance(block["content"], list) else ():
            _require_block(inner, "result")
            assert inner["type"] == "text" or not block.get("is_error")
    elif kind in ("image", "document"):
        _require_source(block["source"], kind)


def _require_source(source: Json, kind: str) -> None:
    how = source["type"]
    if how == "base64":
        taken = _IMAGES if kind == "image" else {"application/pdf"}
        assert source["media_type"] in taken, source["media_type"]
        assert _BASE64.fullmatch(source["data"])
    elif how == "url":
        assert _WEB.fullmatch(source["url"])
    else:
        assert how == "file" or (how, kind) == ("text", "document"), how


def require_gemini(request: Json) -> None:
    """Require contents: a call comes right after the user, and is answered at once."""
    assert {*request} <= {"systemInstruction", "contents", "tools"}
    for part in request.get("systemInstruction", {"parts": []})["parts"]:
        assert {*part} == {"text"}
    tools = request.get("tools", [{"functionDeclarations": [None]}])
    assert [[*each] for each in tools] == [["functionDeclarations"]]
    defined = [each for each in tools[0]["functionDeclarations"] if each]
    assert tools[0]["functionDeclarations"], "no tools"
    _require_names([tool["name"] for tool in defined])
    for tool in defined:
        assert {*tool} == {"name", "description", "parametersJsonSchema"}
        assert _LETTERED.match(tool["name"])
        assert tool["parametersJsonSchema"]["type"] == "object"
    seen, waiting, before = set[str](), list[tuple[str, str]](), "model"
    for content in request["contents"]:
        assert {*content} == {"role", "parts"}
        role, parts = content["role"], content["parts"]
        assert role == "user" or (role, before) == ("model", "user")
        assert parts, "nothing said"
        for part in parts:
            _require_part(part, role)
        answered = [each for part in parts if (each := part.get("functionResponse"))]
        assert [(each["id"], each["name"]) for each in answered] == waiting or (
            sorted((each["id"], each["name"]) for each in answered) == sorted(waiting)
        ), "calls that are not answered"
        assert len(answered) in (0, len(parts)), "an answer beside something else"
        called = [part for part in parts if "functionCall" in part]
        assert not called or "thoughtSignature" in called[0], "a step is not signed"
        waiting = [(p["functionCall"]["id"], p["functionCall"]["name"]) for p in called]
        ids = {call_id for call_id, _ in waiting}
        assert len(ids) == len(waiting), "an id twice"
        assert not seen & ids, "an id twice"
        seen, before = seen | ids, role
    assert not waiting, "calls that are not answered"


_LETTERED = re.compile("[A-Za-z_]")
_RUNS = {"executableCode": "code", "codeExecutionResult": "outcome"}
_GEMINI_PARTS = {
    "user": {"text", "inlineData", "fileData", "functionResponse"},
    "model": {"text", "functionCall", "inlineData", "fileData", *_RUNS},
}


def _require_part(part: Json, role: str) -> None:
    (kind,) = {*part} - {"thoughtSignature", "thought"}
    assert "thought" not in part or (part["thought"], kind) == (True, "text")
    assert kind in _GEMINI_PARTS[role], f"{kind} of {role}"
    assert "thoughtSignature" not in part or role == "model"
    value, signed = part[kind], "thoughtSignature" in part
    assert signed or role == "user" or not kind.endswith("Data"), "not the model's own"
    if kind == "text":
        assert value.strip() or signed, "nothing said"
    elif kind == "inlineData":
        assert {*value} == {"mimeType", "data"}
        assert _BASE64.fullmatch(value["data"])
    elif kind == "fileData":
        assert _WEB.fullmatch(value["fileUri"])
    elif kind in _RUNS:
        assert isinstance(value[_RUNS[kind]], str)
    else:
        told = {"functionCall": "args", "functionResponse": "response"}[kind]
        assert {*value} == {"id", "name", told}
        assert isinstance(value[told], dict)
        assert NAME.fullmatch(value["name"])


def _require_names(names: list[str]) -> None:
    assert len({*names}) == len(names), "a tool twice"
    assert all(map(NAME.fullmatch, names)), names


def _require_texts(request: Json) -> None:
    """Require text without half characters: strict servers take only UTF-8."""
    for text in iter_texts(request, media=True):
        text.encode()


def iter_texts(value: Any, *, media: bool = False) -> Iterator[str]:
    """Yield all strings of a request that are text; or those of media, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from iter_texts(each, media=media)
    elif isinstance(value, dict) and (media or value.get("type") not in _UNREAD):
        for name, each in value.items():
            if media or name not in _UNREAD_MEMBERS:
                yield from iter_texts(each, media=media)


_UNREAD = {
    *("image_url", "input_image", "image", "file", "input_file", "document"),
    *("input_audio", "thinking", "redacted_thinking", "reasoning"),
}
_UNREAD_MEMBERS = {"inlineData", "fileData", "thoughtSignature"}
