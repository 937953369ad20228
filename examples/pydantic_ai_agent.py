"""An agent of Pydantic AI that goes on with a person's conversation in a new process.

    pip install './memoryhub_client[pydantic-ai]'
    MEMORYHUB_KEY=mh_live_… python examples/pydantic_ai_agent.py

The model is a scripted one. The conversation is the hub's thread `pydantic-ai:order-…`.
"""

# ruff: noqa: T201
import asyncio
import os
import uuid

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memoryhub_client import AsyncClient, slots
from memoryhub_client.pydantic_history import MemoryHubConversationStore

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
ORDER = f"order-{uuid.uuid4()}"


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse([TextPart("It is at the depot.")])
    asked = getattr(messages[0].parts[0], "content", "nothing")
    return ModelResponse([TextPart(f"You asked: {asked}")])


async def ask(question: str) -> None:
    """Answer in a conversation that only the hub remembers."""
    agent = Agent(FunctionModel(answer))
    async with AsyncClient(URL, os.environ["MEMORYHUB_KEY"]) as hub:
        store = MemoryHubConversationStore(hub, scope_is_user_id=True)
        talk = await store.load(ORDER) or Conversation(conversation_id=ORDER)
        result = await agent.run(question, conversation=talk)
        await store.save(result, scope="ann")
        print(result.output)


async def show() -> None:
    """Print the messages that the inspector shows."""
    async with AsyncClient(URL, os.environ["MEMORYHUB_KEY"]) as hub:
        listing = slots.list_all(f"pydantic-ai:{ORDER}")
        async for each in hub.each(listing):
            print(each["from"], each["content"]["content"])


asyncio.run(ask("Where is my parcel?"))
asyncio.run(ask("What did I ask?"))
asyncio.run(show())
