"""Request shapes: messages of chat completions as the API of a thread takes them.

Pure. Each message becomes text that stands between commas, so that a request is made,
counted and cached in one order whatever its shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.levels.message_shapes import Chat
from memoryhub.kernel.text.json_text import dumped

#: What a request begins with that must begin with its user.
_EARLIER = "Earlier messages, if there are any, are left out."
_UNDEFINED = "It was called before, and is not at hand now."
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


class Shape(NamedTuple):
    """How one API takes what chat completions take."""

    #: Of the request's messages.
    field: str
    #: A message without calls; "" where it says nothing that is taken.
    message: Callable[[Chat], str]
    #: A message that calls tools.
    calls: Callable[[Chat], str]
    #: Results that follow a message's calls, a text each.
    results: Callable[[Sequence[Chat]], list[str]]
    #: The definition of a tool.
    tool: Callable[[Chat], Chat]
    #: What an id of a call may be.
    call_id: re.Pattern[str]
    #: The head stands beside the messages, which begin with the user's.
    apart: bool = False

    def opening(self, head: str, role: str) -> str:
        """Return the request up to its first message."""
        if not self.apart:
            return f'{{"{self.field}":['
        system = f'"system":{dumped(head)},' if head else ""
        return f'{{{system}"{self.field}":['

    def head(self, head: str, role: str) -> list[str]:
        """Return the messages of the head."""
        return [dumped({"role": role, "content": head})] if not self.apart else []

    def before_head(self, role: str) -> str:
        """Return the part of the request before the head's text."""
        if self.apart:
            return '{"system":"'
        return f'{self.opening("", role)}{{"role":"{role}","content":"'

    def first(self, messages: Iterable[str]) -> list[str]:
        """Return the messages that must stand before these."""
        if not self.apart or next(iter(messages), "").startswith('{"role":"user"'):
            return []
        return [dumped({"role": "user", "content": _EARLIER})]

    def tools(self, text: str, called: Iterable[str] = ()) -> str:
        """Return the definitions, with stubs for tools called without one."""
        if not self.apart:
            return _defined(self.tool, text, ()) if text else ""
        return _defined(self.tool, text or "[]", tuple(sorted({*called})))


def _defined(tool: Callable[[Chat], Chat], text: str, called: tuple[str, ...]) -> str:
    listed = json.loads(text)
    names = {each["function"]["name"] for each in listed}
    listed += [_stub(name) for name in called if name not in names]
    return dumped([tool(each) for each in listed]) if listed else ""


def _stub(name: str) -> Chat:
    schema = {"type": "object", "properties": dict[str, Any]()}
    function = {"name": name, "description": _UNDEFINED, "parameters": schema}
    return {"type": "function", "function": function}


def _chat_results(results: Sequence[Chat]) -> list[str]:
    return [dumped(each) for each in results]


def _unchanged(tool: Chat) -> Chat:
    return tool


CHAT = Shape(
    "messages", dumped, dumped, _chat_results, _unchanged, re.compile(".+", re.DOTALL)
)


def _input(message: Chat) -> str:
    role, content = message["role"], message["content"]
    if role == "assistant" and isinstance(content, list):
        content = "\n".join(filter(None, map(_text, content)))
    elif isinstance(content, list):
        content = [_input_part(part) for part in content]
    return dumped({"role": role, "content": content}) if content else ""


def _input_part(part: Any) -> Chat:
    if url := _image(part):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_text", "text": _text(part)}


def _input_calls(message: Chat) -> str:
    texts = [_input(message)] if message.get("content") else []
    calls = [
        {
            "type": "function_call",
            "call_id": call["id"],
            "name": name,
            "arguments": arguments,
        }
        for call in message["tool_calls"]
        for name, arguments in [_function(call)]
    ]
    return ",".join([*filter(None, texts), *map(dumped, calls)])


def _input_result(result: Chat) -> Chat:
    content = result["content"]
    if isinstance(content, list):
        content = [_input_part(part) for part in content]
    call_id = result["tool_call_id"]
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _input_results(results: Sequence[Chat]) -> list[str]:
    return [dumped(_input_result(each)) for each in results]


def _flat(tool: Chat) -> Chat:
    # Without a word servers take a schema for a strict one.
    return {"type": "function", "strict": False, **tool["function"]}


RESPONSES = Shape(
    "input",
    _input,
    _input_calls,
    _input_results,
    _flat,
    re.compile(".{1,64}", re.DOTALL),
)


def _message(message: Chat) -> str:
    content = _blocks(message["content"])
    return dumped({"role": message["role"], "content": content}) if content else ""


def _blocks(content: Any) -> Any:
    """A text that says something, or what does of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) and content.strip() else None
    return [block for part in content if (block := _block(part))]


def _block(part: Any) -> Chat | None:
    if url := _image(part):
        data = _DATA.fullmatch(url)
        source = {"type": "url", "url": url}
        if data:
            kind, encoded = data.groups()
            source = {"type": "base64", "media_type": kind, "data": encoded}
        return {"type": "image", "source": source}
    text = _text(part)
    return {"type": "text", "text": text} if text.strip() else None


def _uses(message: Chat) -> str:
    content = _blocks(message.get("content")) or []
    blocks = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    for call in message["tool_calls"]:
        name, arguments = _function(call)
        used = {"type": "tool_use", "id": call["id"], "name": name}
        blocks = [*blocks, {**used, "input": _object(arguments)}]
    return dumped({"role": message["role"], "content": blocks})


def _used(results: Sequence[Chat]) -> list[str]:
    """All of one message, whose texts are its blocks."""
    blocks = [
        dumped(
            {
                "type": "tool_result",
                "tool_use_id": each["tool_call_id"],
                "content": _blocks(each["content"]) or "",
            }
        )
        for each in results
    ]
    if blocks:
        blocks[0] = f'{{"role":"user","content":[{blocks[0]}'
        blocks[-1] += "]}"
    return blocks


def _bare_tool(tool: Chat) -> Chat:
    function = tool["function"]
    found = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object"},
    }
    about = function.get("description")
    return {**found, "description": about} if about else found


ANTHROPIC = Shape(
    "messages",
    _message,
    _uses,
    _used,
    _bare_tool,
    re.compile("[A-Za-z0-9_-]{1,64}"),
    apart=True,
)

SHAPES: dict[str, Shape] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
}


def _function(call: Chat) -> tuple[str, str]:
    """The name and arguments of a call, whichever kind."""
    inner = call.get("function") or call.get("custom") or {}
    arguments = inner.get("arguments", inner.get("input", ""))
    name = inner.get("name")
    return str(name or "tool"), arguments if isinstance(arguments, str) else dumped(
        arguments
    )


def _object(arguments: str) -> Chat:
    """Arguments as the object they must be, whatever a model wrote."""
    try:
        found = json.loads(arguments or "{}", parse_constant=str)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": arguments}


def _text(part: Any) -> str:
    text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
    return text if isinstance(text, str) else dumped(part)


def _image(part: Any) -> str | None:
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    return url if isinstance(url, str) else None
