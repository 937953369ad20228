"""Write a text by agents of Google ADK; runs where ADK is installed.

    python write_session.py PERSON SESSION < TEXT

One of the two sessions is deleted afterwards. Prints a refusal and exits with 1.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.genai.types import Content, Part

from memoryhub_client import AsyncClient, Problem
from memoryhub_client.adk import MemoryHubSessionService

APP = "shop"


class EchoAgent(BaseAgent):  # type: ignore[misc]  # the library has no types here
    """An agent that repeats the text, and notes it for the session and the person."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        content = ctx.user_content
        text = content.parts[0].text if content and content.parts else None
        noted = EventActions(state_delta={"note": text, "user:note": text})
        yield Event(author=self.name, content=content, actions=noted)


async def write_session(text: str, *, person: str, name: str) -> None:
    url, key = os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    async with AsyncClient(url, key) as hub:
        service = MemoryHubSessionService(hub)
        agent = EchoAgent(name="echo")
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        for session in (name, f"{name}-deleted"):
            await service.create_session(
                app_name=APP, user_id=person, session_id=session, state={"first": text}
            )
            said = Content(role="user", parts=[Part(text=text)])
            answers = [
                event
                async for event in runner.run_async(
                    user_id=person, session_id=session, new_message=said
                )
            ]
            assert [event.author for event in answers] == ["echo"]
        await service.delete_session(
            app_name=APP, user_id=person, session_id=f"{name}-deleted"
        )


if __name__ == "__main__":
    try:
        asyncio.run(
            write_session(sys.stdin.read(), person=sys.argv[1], name=sys.argv[2])
        )
    except Problem as refusal:
        sys.exit(str(refusal))
