"""An agent with memory, by OpenAI's SDK and Responses, whose reasoning is sealed.

    pip install ./memoryhub_client openai
    MEMORYHUB_KEY=mh_live_… python examples/loop_responses.py

The model is a scripted one, which refuses what OpenAI would.
"""

import json
from typing import Any

import station
import strict
from openai import OpenAI
from openai.types.responses import ResponseFunctionToolCall
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
)

from memoryhub_client import chat, slots, threads, tools, turns

URL = strict.serve(ResponseCreateParamsNonStreaming, strict.responses)
model = OpenAI(base_url=URL, api_key="none", max_retries=0)
hub = station.connect()


def use(call: ResponseFunctionToolCall) -> dict[str, Any]:
    """Return the item that answers a call; there a failure is text like any other."""
    if call.name not in station.FUNCTIONS:
        return hub.send(tools.call_tool("responses", call.to_dict()))
    try:
        output = station.FUNCTIONS[call.name](**json.loads(call.arguments))
    except TimeoutError as failure:
        output = f"Failed: {failure}"
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def ask(content: Any) -> str:
    messages = [{"role": "user", "content": content}]
    while True:
        items = [chat(message) for message in messages]
        turn = hub.send(turns.begin("responses", items=items))
        # MemoryHub keeps the talk, so the provider need not.
        reply = model.responses.create(
            model="scripted",
            store=False,
            include=["reasoning.encrypted_content"],
            **turn["request"],
        )
        # A message's content may be items: reasoning, what is said, calls.
        output = [item.to_dict() for item in reply.output]
        answer = {"role": "assistant", "content": output}
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            hub.send(slots.append("responses", chat(answer)))
            return reply.output_text
        results = [{"role": "tool", "content": [use(call)]} for call in calls]
        messages = [answer, *results]


with hub:
    hub.send(threads.put("responses", config={"format": "responses", **station.SMALL}))
    hub.send(tools.set_own("responses", station.TOOLS))
    url = f"data:image/png;base64,{station.PICTURE}"
    picture = {"type": "input_image", "image_url": url, "detail": "auto"}
    station.talk(ask, [{"type": "input_text", "text": station.FIRST}, picture])
