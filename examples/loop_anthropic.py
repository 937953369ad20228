"""An agent with memory, by Anthropic's SDK, whose model signs what it thinks.

    pip install ./memoryhub_client anthropic pydantic
    MEMORYHUB_KEY=mh_live_… python examples/loop_anthropic.py

The model is a scripted one, which refuses what Anthropic would.
"""

from typing import Any

import station
import strict
from anthropic import Anthropic
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from memoryhub_client import Loop, threads, tools

URL = strict.serve(MessageCreateParamsNonStreaming, strict.anthropic)
model = Anthropic(base_url=URL, api_key="none", max_retries=0)


def create(request: Any) -> Any:
    reply = model.messages.create(
        model="scripted",
        max_tokens=2_048,
        thinking={"type": "enabled", "budget_tokens": 1_024},
        **request,
    )
    # Thinking is kept, too: its exchange must go on with it.
    blocks = [block.to_dict() for block in reply.content]
    return {"role": "assistant", "content": blocks}


with station.connect() as hub:
    hub.send(threads.put("anthropic", config={"format": "anthropic", **station.SMALL}))
    hub.send(tools.set_own("anthropic", station.TOOLS))
    # It begins turns, asks the model and does its calls until there are none.
    loop = Loop(hub, "anthropic", create, station.FUNCTIONS)

    def ask(content: Any) -> str:
        blocks = loop.run({"role": "user", "content": content})["content"]
        return "".join(each["text"] for each in blocks if each["type"] == "text")

    source = {"type": "base64", "media_type": "image/png", "data": station.PICTURE}
    picture = {"type": "image", "source": source}
    station.talk(ask, [{"type": "text", "text": station.FIRST}, picture])
