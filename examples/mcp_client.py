"""An MCP client that remembers over HTTP, and recalls over stdio in another process.

    pip install mcp          # and `memoryhub` on the PATH, or run it in the checkout
    MEMORYHUB_KEY=mh_live_… python examples/mcp_client.py

`MEMORYHUB_PERSON` names whose memory it is; a key bound to a person needs no name.
"""

# ruff: noqa: T201
import asyncio
import os
import shutil

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
KEY = os.environ["MEMORYHUB_KEY"]
PERSON = os.environ.get("MEMORYHUB_PERSON", "customer-7")
#: The installed command, else the checkout's.
PROGRAM = shutil.which("memoryhub")
COMMAND = [PROGRAM, "mcp"] if PROGRAM else [".venv/bin/python", "manage.py", "mcp"]


async def remember(text: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "MemoryHub-Person": PERSON}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{URL}/mcp", http_client=http)
        async with Client(transport) as client:
            await client.call_tool("remember", {"text": text})


async def recall(query: str) -> list[str]:
    known = {"MEMORYHUB_URL": URL, "MEMORYHUB_KEY": KEY, "MEMORYHUB_PERSON": PERSON}
    program, *words = COMMAND
    command = StdioServerParameters(command=program, args=words, env=known)
    async with Client(stdio_client(command)) as client:
        found = await client.call_tool("recall", {"query": query})
        assert found.structured_content is not None, found.content
        return [each["text"] for each in found.structured_content["items"]]


async def main() -> None:
    await remember("Prefers a seat by the window, on the left.")
    print(await recall("Which seat?"))


asyncio.run(main())
