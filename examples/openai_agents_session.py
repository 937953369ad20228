"""Agents of OpenAI's SDK that hand a conversation over, and remember it in the hub.

    pip install './memoryhub_client[openai-agents]'
    MEMORYHUB_KEY=mh_live_… python examples/openai_agents_session.py

The model is a scripted one. The session is a thread of the person `ann`.
"""

# ruff: noqa: T201
import asyncio
import os
import uuid
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from memoryhub_client import AsyncClient
from memoryhub_client.openai_agents import MemoryHubSession

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
SESSION = f"order-{uuid.uuid4()}"


class Scripted(Model):
    async def get_response(self, **given: Any) -> ModelResponse:
        system, asked = given["system_instructions"], given["input"]
        said = [each["content"] for each in asked if each.get("role") == "user"]
        if given["handoffs"]:
            name = given["handoffs"][0].tool_name
            call = {"type": "function_call", "call_id": "c1", "name": name}
            output: Any = ResponseFunctionToolCall(**call, arguments="{}")
        else:
            text = f"{system} You asked: {said[0]}"
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"id": "m1", "type": "message", "role": "assistant"}
            output = ResponseOutputMessage(
                **message, status="completed", content=[part]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    set_tracing_disabled(True)
    parcels = Agent(name="parcels", instructions="Parcels here.", model=Scripted())
    desk = Agent(name="desk", model=Scripted(), handoffs=[parcels])
    async with AsyncClient(URL, os.environ["MEMORYHUB_KEY"]) as hub:
        for agent, question in ((desk, "Where is it?"), (parcels, "What did I ask?")):
            session = MemoryHubSession(hub, SESSION, user_id="ann")
            print((await Runner.run(agent, question, session=session)).final_output)
        kinds = [each.get("type", "user") for each in await session.get_items()]
        print(", ".join(kinds))


asyncio.run(main())
