"""Messages in the shape of chat completions, and the slots that carry them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from random import Random
from typing import Any

Message = dict[str, Any]
#: Consecutive messages, sent as a batch or one by one.
Exchange = list[Message]


def build_system(text: str) -> Message:
    return {"role": "system", "content": text}


def build_user(text: str) -> Message:
    return {"role": "user", "content": text}


def build_assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def build_tool_use(
    chance: Random, tool: str, arguments: Message, result: Any
) -> Exchange:
    """Build a tool call and its result."""
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


def build_page_fault(chance: Random, page_id: str, *, level: int) -> Message:
    """Build the model's page fault for a page that it knows from the manifest."""
    arguments = {"page_id": page_id, "target_level": level}
    return build_tool_use(chance, "page_fault", arguments, "")[0]


def build_slot(message: Message, *, at: datetime) -> dict[str, Any]:
    """Build the body that appends the message, dated `at` by the agent's clock."""
    sender, receiver = _get_route(message)
    return {
        "from": sender,
        "to": receiver,
        "type": f"chat.{message['role']}",
        "content": message,
        "agent_at": at.isoformat(timespec="milliseconds"),
    }


def build_slots(messages: Iterable[Message], *, at: datetime) -> list[dict[str, Any]]:
    return [build_slot(message, at=at) for message in messages]


def _get_route(message: Message) -> tuple[str, str]:
    role = message["role"]
    if role == "tool":
        return f"tool:{message['name']}", "assistant"
    if role != "assistant":
        return role, "assistant"
    calls = message.get("tool_calls")
    return "assistant", f"tool:{calls[0]['function']['name']}" if calls else "user"
