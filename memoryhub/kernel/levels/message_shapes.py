"""Message shapes: what a slot's content says as messages of chat completions.

Pure. Chat completions, Responses and Anthropic's Messages say the same in three shapes;
a slot keeps the one it came in, and is read as the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memoryhub.kernel.state.events import Role
from memoryhub.kernel.text.json_text import dumped

Chat = dict[str, Any]

_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
_TEXTS = frozenset({"text", "input_text", "output_text"})
_IMAGES = frozenset({"image", "input_image"})
_SPEAKERS = frozenset({"system", "developer", "user", "assistant"})
_OTHERS = frozenset({"tool", "function"})


def read(content: Any) -> list[Chat] | None:
    """Return the chat messages in a slot's content; None when it is no message.

    One of chat completions is itself. A list is what a model has answered in items.
    """
    if isinstance(content, list):
        read_items = [_item(each) for each in content]
        if not content or any(each is None for each in read_items):
            return None
        return _joined(message for each in read_items for message in each or ())
    if not isinstance(content, dict):
        return None
    role, body = content.get("role"), content.get("content")
    if not isinstance(role, str) or content.get("type") == "message":
        return _item(content)
    if role in _OTHERS:
        return [content]
    if role not in _SPEAKERS:
        return None
    if isinstance(body, list) and any(map(_foreign, body)):
        return _blocks(role, body)
    return [content]


def role(content: Any) -> Role | None:
    """Return the role of a slot that another API's message makes.

    None if its sender has to say so.
    """
    messages = read(content)
    if not messages or messages[0] is content:
        return None
    sent: str = messages[0]["role"]
    spoken: dict[str, Role] = {"tool": "tool", "assistant": "assistant"}
    return spoken.get(sent)


def _foreign(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and (kind in _READ or kind in _OF_OTHERS)


def _item(item: Any) -> list[Chat] | None:
    """Of Responses; None for what is none of its items."""
    kind = item.get("type") if isinstance(item, dict) else None
    read_as = _ITEMS.get(kind) if isinstance(kind, str) else None
    return read_as(item) if read_as else None


def _message(item: Chat) -> list[Chat] | None:
    role, body = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in _SPEAKERS:
        return None
    if isinstance(body, list):
        return _blocks(role, body)
    return [{"role": role, "content": body}]


def _function_call(item: Chat) -> list[Chat]:
    arguments = item.get("arguments", item.get("input"))
    call = _call(item.get("call_id"), item.get("name"), arguments)
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]


def _function_output(item: Chat) -> list[Chat]:
    return [_result(item.get("call_id"), item.get("output"))]


def _reasoning(item: Chat) -> list[Chat]:
    """Of no use to another model, and not taken back without its own id."""
    return []


_ITEMS: dict[str, Callable[[Chat], list[Chat] | None]] = {
    "message": _message,
    "function_call": _function_call,
    "custom_tool_call": _function_call,
    "function_call_output": _function_output,
    "custom_tool_call_output": _function_output,
    "reasoning": _reasoning,
}


def _blocks(role: str, blocks: Sequence[Any]) -> list[Chat]:
    """Of Anthropic's Messages, or parts of Responses: results first, as they must."""
    parts, calls, results = list[Chat](), list[Chat](), list[Chat]()
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            calls.append(_call(block.get("id"), block.get("name"), block.get("input")))
        elif kind == "tool_result":
            results.append(_result(block.get("tool_use_id"), block.get("content")))
        elif kind not in _LEFT_OUT:
            parts.append(_part(block))
    body: Any = parts or None
    if parts and all(part["type"] == "text" for part in parts):
        body = "\n".join(part["text"] for part in parts)
    spoken: Chat = {"role": role, "content": body}
    if calls:
        spoken["tool_calls"] = calls
    return [*results, spoken] if body or calls else results


def _part(block: Any) -> Chat:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in _TEXTS and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind in _IMAGES and (url := _url(block)):
        return {"type": "image_url", "image_url": {"url": url}}
    if kind in _CHAT_PARTS - {"text", "refusal"}:
        return dict(block)
    refused = block.get("refusal") if isinstance(block, dict) else None
    text = refused if isinstance(refused, str) else dumped(block)
    return {"type": "text", "text": text}


def _url(block: Chat) -> str | None:
    source = block.get("source")
    if not isinstance(source, dict):
        url = block.get("image_url")
        return url if isinstance(url, str) else None
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    url = source.get("url")
    return url if isinstance(url, str) else None


def _call(call_id: Any, name: Any, sent: Any) -> Chat:
    arguments = sent if isinstance(sent, str) else dumped(sent or {})
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _result(call_id: Any, body: Any) -> Chat:
    if isinstance(body, list):
        parts = [_part(block) for block in body]
        texts = [part.get("text") for part in parts]
        plain = all(isinstance(text, str) for text in texts)
        body = "\n".join(map(str, texts)) if plain else parts
    elif not isinstance(body, str):
        body = "" if body is None else dumped(body)
    return {"role": "tool", "tool_call_id": call_id, "content": body}


def _joined(messages: Iterable[Chat]) -> list[Chat]:
    """With what an assistant says in a row as one message."""
    found = list[Chat]()
    for message in messages:
        before = found[-1] if found else None
        if before is None or not before["role"] == message["role"] == "assistant":
            found.append(message)
            continue
        texts = [each["content"] for each in (before, message) if each["content"]]
        plain = all(isinstance(text, str) for text in texts)
        one = texts[0] if len(texts) == 1 else None
        body = "\n".join(texts) if plain and texts else one
        calls = [*before.get("tool_calls", ()), *message.get("tool_calls", ())]
        joined: Chat = {"role": "assistant", "content": body}
        found[-1] = joined | ({"tool_calls": calls} if calls else {})
    return found


#: Thoughts are signed for one model, and of no use to another.
_LEFT_OUT = frozenset({"thinking", "redacted_thinking"})
_OF_OTHERS = frozenset({"tool_use", "tool_result", "document"}) | _LEFT_OUT
_READ = (_TEXTS | _IMAGES) - {"text"}
