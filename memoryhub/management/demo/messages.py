"""Messages in the shape of chat completions, and the slots that carry them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from random import Random
from typing import Any

Message = dict[str, Any]
#: What is said at a stretch; a batch or one request after the other.
Exchange = list[Message]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def used(chance: Random, tool: str, arguments: Message, result: Any) -> Exchange:
    """A tool called, and what it answered."""
    call_id = f"call_{chance.getrandbits(48):012x}"
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    content = result if isinstance(result, str) else json.dumps(result)
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": call_id,
            "name": tool,
            "content": content,
        },
    ]


def fetching(chance: Random, page_id: str, *, level: int) -> Message:
    """The model asks for a page that it was only told of."""
    arguments = {"page_id": page_id, "target_level": level}
    return used(chance, "page_fault", arguments, "")[0]


def slot(message: Message, *, at: datetime) -> dict[str, Any]:
    """The body that appends the message, said at this time by the agent's clock."""
    sender, receiver = _route(message)
    return {
        "from": sender,
        "to": receiver,
        "type": f"chat.{message['role']}",
        "content": message,
        "agent_at": at.isoformat(timespec="milliseconds"),
    }


def slots(messages: Iterable[Message], *, at: datetime) -> list[dict[str, Any]]:
    return [slot(message, at=at) for message in messages]


def _route(message: Message) -> tuple[str, str]:
    role = message["role"]
    if role == "tool":
        return f"tool:{message['name']}", "assistant"
    if role != "assistant":
        return role, "assistant"
    calls = message.get("tool_calls")
    return "assistant", f"tool:{calls[0]['function']['name']}" if calls else "user"
