"""An agent with memory, by Anthropic's SDK, whose model signs what it thinks.

    pip install ./memoryhub_client anthropic pydantic
    MEMORYHUB_KEY=mh_live_… python examples/loop_anthropic.py

The model is a scripted one, which refuses what Anthropic would.
"""

from typing import Any

import station
import strict
from anthropic import Anthropic
from anthropic.types import ToolUseBlock
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from memoryhub_client import chat, slots, threads, tools, turns

URL = strict.serve(MessageCreateParamsNonStreaming, strict.anthropic)
model = Anthropic(base_url=URL, api_key="none", max_retries=0)
hub = station.connect()


def use(call: ToolUseBlock) -> list[dict[str, Any]]:
    """Return the block that answers a call."""
    if call.name not in station.FUNCTIONS:
        answer = hub.send(tools.call_tool("anthropic", call.to_dict()))
        return list(answer["content"])
    result = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return [{**result, "content": station.FUNCTIONS[call.name](**call.input)}]
    except TimeoutError as failure:
        return [{**result, "content": str(failure), "is_error": True}]


def ask(content: Any) -> str:
    messages = [{"role": "user", "content": content}]
    while True:
        items = [chat(message) for message in messages]
        turn = hub.send(turns.begin("anthropic", items=items))
        reply = model.messages.create(
            model="scripted",
            max_tokens=2_048,
            thinking={"type": "enabled", "budget_tokens": 1_024},
            **turn["request"],
        )
        # Thinking is kept, too: its exchange must go on with it.
        blocks = [block.to_dict() for block in reply.content]
        answer = {"role": "assistant", "content": blocks}
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            hub.send(slots.append("anthropic", chat(answer)))
            return "".join(b.text for b in reply.content if b.type == "text")
        # Results of all calls are one message.
        results = [block for call in calls for block in use(call)]
        messages = [answer, {"role": "user", "content": results}]


with hub:
    hub.send(threads.put("anthropic", config={"format": "anthropic", **station.SMALL}))
    hub.send(tools.set_own("anthropic", station.TOOLS))
    source = {"type": "base64", "media_type": "image/png", "data": station.PICTURE}
    picture = {"type": "image", "source": source}
    station.talk(ask, [{"type": "text", "text": station.FIRST}, picture])
