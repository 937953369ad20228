"""Ways in: how each framework, protocol and importer writes a person's text."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
from anthropic.lib.tools import ToolError
from anthropic.types.beta import BetaMemoryTool20250818CreateCommand as CreateCommand
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

from memoryhub_client import AsyncClient, Client, Gone, Problem, threads
from memoryhub_client.anthropic_memory import HubMemoryTool
from memoryhub_client.langgraph import MemoryHubSaver
from memoryhub_client.langgraph_import import copy_checkpoints, open_file
from memoryhub_client.langgraph_store import MemoryHubStore
from memoryhub_client.openai_agents import MemoryHubSession
from memoryhub_client.pydantic_history import MemoryHubConversationStore

ROOT = Path(__file__).resolve().parent.parent.parent
#: Runs where ADK is installed.
ADK_WRITER = ROOT / "tests" / "client" / "adk" / "write_session.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPlace:
    """The person and the thread that a way in writes for, and the key it writes by."""

    url: str
    key: str
    #: Key without limits, for what a way in expects to be there.
    full_key: str
    person: str
    name: str
    folder: Path
    #: Runs `manage.py import` in the project, and returns its exit code and output.
    run_import: Callable[..., tuple[int, str]]
    #: Makes an environment with the client and an extra, and returns its Python.
    build_environment: Callable[[str], Path]


class WayRefused(Exception):
    """The protocol's own error, where the client library raises none."""


Write = Callable[[EntryPlace, str], Awaitable[None]]


class WayIn(NamedTuple):
    write: Write
    #: Exceptions that tell of a refusal.
    refusals: tuple[type[Exception], ...] = (Problem,)
    #: Whether an API key writes: importers are the operator's.
    has_key: bool = True
    #: Whether 10 MB are stored, in pieces.
    takes_large: bool = False


async def write_by_mcp(place: EntryPlace, text: str) -> None:
    headers = {
        "Authorization": f"Bearer {place.key}",
        "memoryhub-person": place.person,
    }
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{place.url}/mcp", http_client=http)
        async with McpClient(transport) as client:
            answer = await client.call_tool("remember", {"text": text})
    if answer.is_error:
        raise WayRefused(str(answer.content))


async def write_by_saver(place: EntryPlace, text: str) -> None:
    fields = {"thread_id": place.name, "checkpoint_ns": "", "user_id": place.person}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": {"said": [text]}}
    with Client(place.url, place.key) as hub:
        saver = MemoryHubSaver(hub, person_field="user_id")
        put = saver.put({"configurable": fields}, checkpoint, {"source": "loop"}, {})
        saver.put_writes(put, [("said", text)], "task")


async def write_by_store(place: EntryPlace, text: str) -> None:
    with Client(place.url, place.key) as hub:
        store = MemoryHubStore(hub, name=place.name, user_id=place.person)
        store.put(("facts",), "one", {"text": text})


async def write_by_memory_tool(place: EntryPlace, text: str) -> None:
    with Client(place.url, place.full_key) as hub, suppress(Gone):
        hub.send(threads.put(place.name, user_id=place.person))
    with Client(place.url, place.key) as hub:
        HubMemoryTool(hub, thread=place.name).create(
            CreateCommand(command="create", path="/memories/a.txt", file_text=text)
        )


async def write_by_mem0(place: EntryPlace, text: str) -> None:
    # The import writes a folder, which the test chooses.
    mem0 = import_module("mem0")
    with httpx.Client(timeout=30) as http:
        host = f"{place.url}/compat/mem0"
        try:
            client = mem0.MemoryClient(api_key=place.key, host=host, client=http)
            client.add(text, user_id=place.person)
        except mem0.exceptions.MemoryError as refusal:
            raise WayRefused(str(refusal)) from refusal


async def write_by_agents_sdk(place: EntryPlace, text: str) -> None:
    async with AsyncClient(place.url, place.key) as hub:
        session = MemoryHubSession(hub, place.name, user_id=place.person)
        await session.add_items([{"role": "user", "content": text}])


async def write_by_pydantic_ai(place: EntryPlace, text: str) -> None:
    async with AsyncClient(place.url, place.key) as hub:
        store = MemoryHubConversationStore(hub, scope_is_user_id=True)
        talk = Conversation(conversation_id=place.name)
        result = await Agent(TestModel()).run(text, conversation=talk)
        await store.save(result, scope=place.person)


async def write_by_adk(place: EntryPlace, text: str) -> None:
    """Write two sessions, one of which is deleted, in ADK's own environment."""
    python = await asyncio.to_thread(place.build_environment, "memoryhub_client[adk]")
    env = {**os.environ, "MEMORYHUB_URL": place.url, "MEMORYHUB_KEY": place.key}
    env.pop("PYTHONPATH", None)
    done = await asyncio.to_thread(
        lambda: subprocess.run(
            [python, ADK_WRITER, place.person, place.name],
            input=text,
            env=env,
            cwd=place.folder,
            capture_output=True,
            text=True,
            check=False,
        )
    )
    if done.returncode:
        raise WayRefused(done.stderr)


async def write_file(place: EntryPlace, text: str, *, packed: bool) -> None:
    """Import a file of chats, or a database of LangGraph's saver."""
    if packed:
        path = write_database(place, text)
    else:
        path = place.folder / f"{place.name}.jsonl"
        path.write_text(json.dumps({"role": "user", "content": text}))
    code, told = await asyncio.to_thread(place.run_import, path, person=place.person)
    if code:
        raise WayRefused(told)


async def copy_file(place: EntryPlace, text: str) -> None:
    path = write_database(place, text)
    with Client(place.url, place.key) as hub, closing(open_file(path)) as database:
        target = MemoryHubSaver(hub, person_field="user_id")
        copy_checkpoints(SqliteSaver(database), target)


def write_database(place: EntryPlace, text: str) -> Path:
    path = place.folder / f"{place.name}.sqlite"
    fields = {"thread_id": place.name, "checkpoint_ns": "", "user_id": place.person}
    values = {"messages": [{"type": "human", "content": text, "id": "m1"}]}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values}
    with closing(sqlite3.connect(path)) as database:
        SqliteSaver(database).put({"configurable": fields}, checkpoint, {}, {})
    return path


WAYS_IN = {
    "mcp": WayIn(write_by_mcp, (WayRefused, MCPError, ExceptionGroup)),
    "langgraph-saver": WayIn(write_by_saver, takes_large=True),
    "langgraph-store": WayIn(write_by_store),
    "anthropic-memory": WayIn(write_by_memory_tool, (ToolError,)),
    "mem0": WayIn(write_by_mem0, (WayRefused,)),
    "openai-agents": WayIn(write_by_agents_sdk),
    "pydantic-ai": WayIn(write_by_pydantic_ai),
    "google-adk": WayIn(write_by_adk, (WayRefused,)),
    "copied-checkpoints": WayIn(copy_file, takes_large=True),
    "imported-chat": WayIn(partial(write_file, packed=False), (WayRefused,), False),
    "imported-langgraph": WayIn(partial(write_file, packed=True), (WayRefused,), False),
}
