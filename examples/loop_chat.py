"""An agent with memory, by OpenAI's SDK and chat completions.

    pip install ./memoryhub_client openai
    MEMORYHUB_KEY=mh_live_… python examples/loop_chat.py

The model is a scripted one, which refuses what OpenAI would.
"""

from typing import Any

import station
import strict
from openai import OpenAI
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
)

from memoryhub_client import Loop, threads, tools

URL = strict.serve(CompletionCreateParamsNonStreaming, strict.chat)
model = OpenAI(base_url=URL, api_key="none", max_retries=0)


def complete(request: Any) -> Any:
    completion = model.chat.completions.create(model="scripted", **request)
    return completion.choices[0].message.to_dict()


with station.connect() as hub:
    hub.send(threads.put("chat", config={"format": "chat", **station.SMALL}))
    hub.send(tools.set_own("chat", station.TOOLS))
    # It begins turns, asks the model and does its calls until there are none.
    loop = Loop(hub, "chat", complete, station.FUNCTIONS)

    def ask(content: Any) -> str:
        return str(loop.run({"role": "user", "content": content})["content"])

    url = f"data:image/png;base64,{station.PICTURE}"
    picture = {"type": "image_url", "image_url": {"url": url}}
    station.talk(ask, [{"type": "text", "text": station.FIRST}, picture])
