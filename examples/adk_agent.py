"""An agent of Google ADK that goes on with a person's session in a new process.

    pip install './memoryhub_client[adk]'
    MEMORYHUB_KEY=mh_live_… python examples/adk_agent.py

The model is a scripted one. The session is a thread of the person `ann`.
"""

# ruff: noqa: T201
import asyncio
import os
import uuid
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.genai.types import Content, Part

from memoryhub_client import AsyncClient, slots, threads
from memoryhub_client.adk import MemoryHubSessionService

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
APP = f"shop-{uuid.uuid4()}"


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request: LlmRequest, **_: Any) -> Any:
        told = [content.parts[0].text for content in llm_request.contents]
        text = "It is at the depot." if len(told) == 1 else f"You asked: {told[0]}"
        yield LlmResponse(content=Content(role="model", parts=[Part(text=text)]))


async def ask(question: str) -> None:
    """Answer in a session that only the hub remembers."""
    agent = LlmAgent(name="helper", model=Scripted(model="scripted"))
    async with AsyncClient(URL, os.environ["MEMORYHUB_KEY"]) as hub:
        service = MemoryHubSessionService(hub)
        where: Any = {"user_id": "ann", "session_id": "order"}
        if not await service.get_session(app_name=APP, **where):
            await service.create_session(app_name=APP, **where)
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        said = Content(role="user", parts=[Part(text=question)])
        async for event in runner.run_async(new_message=said, **where):
            print(event.content.parts[0].text)


async def show() -> None:
    """Print the messages that the inspector shows."""
    async with AsyncClient(URL, os.environ["MEMORYHUB_KEY"]) as hub:
        listing = threads.search(user_id="ann", labels={"app": f"adk:{APP}"})
        async for thread in hub.each(listing):
            async for each in hub.each(slots.list_all(thread["thread"])):
                print(each["content"].get("name", "user"), each["content"]["content"])


for question in ("Where is my parcel?", "What did I ask?"):
    asyncio.run(ask(question))
asyncio.run(show())
