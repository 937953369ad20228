"""A model that remembers a person by Anthropic's memory tool, whose files are blocks.

    pip install './memoryhub_client[anthropic]'
    MEMORYHUB_KEY=mh_live_… python examples/anthropic_memory.py

The model is a scripted one. It looks into its memory before it answers, as Claude does.
"""

# ruff: noqa: T201
import os
from itertools import count
from typing import Any

import scripted
from anthropic import Anthropic

from memoryhub_client import Client, thread_blocks, threads
from memoryhub_client.anthropic_memory import HubMemoryTool

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
SEAT = "/memories/travel/seat.md"
LOOK = {"command": "view", "path": "/memories"}
READ = {"command": "view", "path": SEAT}
WRITE = {"command": "create", "path": SEAT, "file_text": "Likes the window.\n"}
NUMBERS = count(1)
#: Calls that the model still makes for the question.
calls: list[dict[str, str]] = []


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return a message: the next call, or the result of the last one as a text."""
    number, said = next(NUMBERS), request["messages"][-1]["content"]
    if isinstance(said, str):
        calls[:] = [LOOK, READ if "?" in said else WRITE]
    if calls:
        reason, call = "tool_use", {"id": f"toolu_{number}", "input": calls.pop(0)}
        block = {"type": "tool_use", "name": "memory", **call}
    else:
        reason, block = "end_turn", {"type": "text", "text": said[0]["content"]}
    spoken = {"role": "assistant", "content": [block], "stop_reason": reason}
    named = {"id": f"msg_{number}", "type": "message", "model": "scripted"}
    return {**named, **spoken, "usage": {"input_tokens": 1, "output_tokens": 1}}


model = Anthropic(base_url=scripted.serve(answer), api_key="none", max_retries=0)

with Client(URL, os.environ["MEMORYHUB_KEY"]) as hub:
    for name, text in [("mon", "I like the window."), ("tue", "Which seat do I like?")]:
        hub.send(threads.put(name, user_id="ann"))
        memory = HubMemoryTool(hub, thread=name)
        said: Any = {"role": "user", "content": text}
        talk = model.beta.messages.tool_runner(
            model="scripted", max_tokens=1_024, messages=[said], tools=[memory]
        )
        print(f"> {text}\n{talk.until_done().content[0].to_dict()['text']}")
    for block in hub.send(thread_blocks.list_all("tue"))["items"]:
        print(block["block"], block["version"], block["text"])
