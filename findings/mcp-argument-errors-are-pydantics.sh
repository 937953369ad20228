#!/bin/sh
# Library: mcp 2.3.0 (with pydantic 2.14)
# Behaviour: the text of an exception in a tool does not reach the client, a ToolError's does. Arguments that don't fit the
#   tool's types are the exception to that: the model reads the whole text of pydantic's ValidationError, with the name of
#   the class that the SDK made, pydantic's words for the type and an address of pydantic's documentation for each error.
#   A server that wants its own words has to check arguments that are declared as any type, or to catch the error itself.
# Seen: argument: "... 1 validation error for pageArguments ... Input should be less than or equal to 50 ...
#       https://errors.pydantic.dev/..."; exception: "Error executing tool secret" and nothing of "not for clients"
# Source: package mcp, module mcp.server.mcpserver.tools.base (Tool.run)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q mcp==2.3.0 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import asyncio, sys
from typing import Annotated
from pydantic import Field
from mcp.client import Client
from mcp.server import MCPServer

server = MCPServer("memory")

@server.tool()
def page(limit: Annotated[int, Field(le=50)]) -> str:
    return "a page"

@server.tool()
def secret() -> str:
    raise ValueError("not for clients")

async def main():
    async with Client(server) as c:
        calls = [("page", {"limit": 51}), ("secret", {})]
        return [await c.call_tool(name, given) for name, given in calls]

argument, exception = asyncio.run(main())
texts = [each.content[0].text for each in (argument, exception)]
print("argument:", texts[0])
print("exception:", texts[1])
got = ("pageArguments" in texts[0], "https://errors.pydantic.dev/" in texts[0], "not for clients" in texts[1])
if got != (True, True, False) or not (argument.is_error and exception.is_error):
    sys.exit(f"changed: {got}")
P
