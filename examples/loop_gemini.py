"""An agent with memory, by Google's SDK, whose model signs the parts of its answers.

    pip install ./memoryhub_client google-genai
    MEMORYHUB_KEY=mh_live_… python examples/loop_gemini.py

The model is a scripted one, which refuses what Gemini would.
"""

from typing import Any

import station
import strict
from google import genai
from google.genai import types
from pydantic import BaseModel

from memoryhub_client import Loop, threads, tools


class Body(BaseModel, extra="forbid"):
    contents: list[types.Content]
    systemInstruction: types.Content  # noqa: N815  # Gemini's name
    tools: list[types.Tool]
    generationConfig: types.GenerationConfig  # noqa: N815


URL = strict.serve(Body, strict.gemini, keeps=True)
model = genai.Client(api_key="none", http_options={"base_url": URL})


def generate(request: Any) -> Any:
    reply = model.models.generate_content(
        model="scripted",
        contents=request["contents"],
        config={
            "system_instruction": request.get("systemInstruction"),
            "tools": request.get("tools"),
            "automatic_function_calling": {"disable": True},
        },
    )
    # The content is the message, whose signed parts are kept as they are.
    content = reply.candidates[0].content
    return content.model_dump(mode="json", by_alias=True, exclude_none=True)


with station.connect() as hub:
    hub.send(threads.put("gemini", config={"format": "gemini", **station.SMALL}))
    hub.send(tools.set_own("gemini", station.TOOLS))
    # It begins turns, asks the model and does its calls until there are none.
    loop = Loop(hub, "gemini", generate, station.FUNCTIONS)

    def ask(parts: Any) -> str:
        said = [{"text": parts}] if isinstance(parts, str) else parts
        answer = loop.run({"role": "user", "parts": said})
        return "".join(each.get("text", "") for each in answer["parts"])

    picture = {"inlineData": {"mimeType": "image/png", "data": station.PICTURE}}
    station.talk(ask, [{"text": station.FIRST}, picture])
