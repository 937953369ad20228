"""An agent with memory, by OpenAI's SDK and Responses, whose reasoning is sealed.

    pip install ./memoryhub_client openai
    MEMORYHUB_KEY=mh_live_… python examples/loop_responses.py

The model is a scripted one, which refuses what OpenAI would.
"""

from typing import Any

import station
import strict
from openai import OpenAI
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
)

from memoryhub_client import Loop, threads, tools

URL = strict.serve(ResponseCreateParamsNonStreaming, strict.responses)
model = OpenAI(base_url=URL, api_key="none", max_retries=0)


def respond(request: Any) -> Any:
    # MemoryHub keeps the talk, so the provider need not.
    response = model.responses.create(
        model="scripted",
        store=False,
        include=["reasoning.encrypted_content"],
        **request,
    )
    # A message's content may be items: reasoning, what is said, calls.
    output = [item.to_dict() for item in response.output]
    return {"role": "assistant", "content": output}


with station.connect() as hub:
    hub.send(threads.put("responses", config={"format": "responses", **station.SMALL}))
    hub.send(tools.set_own("responses", station.TOOLS))
    # It begins turns, asks the model and does its calls until there are none.
    loop = Loop(hub, "responses", respond, station.FUNCTIONS)

    def ask(content: Any) -> str:
        output = loop.run({"role": "user", "content": content})["content"]
        said = [item["content"] for item in output if item["type"] == "message"]
        return "".join(part["text"] for parts in said for part in parts)

    url = f"data:image/png;base64,{station.PICTURE}"
    picture = {"type": "input_image", "image_url": url, "detail": "auto"}
    station.talk(ask, [{"type": "input_text", "text": station.FIRST}, picture])
