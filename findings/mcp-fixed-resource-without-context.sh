#!/bin/sh
# Library: mcp 2.3.0
# Behaviour: tools, prompts and resource templates of MCPServer may take a Context (the request, the session), a resource
#   with a fixed URI may not: registering it raises ValueError, so the function behind "memory://me" is given nothing to
#   tell callers apart. An optional query variable gets round it: `memory://me{?v}` may take the Context and answers the
#   plain URI "memory://me", but resources/list leaves it out then, only resources/templates/list shows it.
# Seen: fixed: ValueError "... Context injection for static resources is not supported ..."
#       tool, prompt, template read as memory://me: each has a request id; listed: [], templates: ['memory://me{?v}']
# Source: package mcp, module mcp.server.mcpserver.server (MCPServer.resource)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q mcp==2.3.0 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import asyncio, sys
from mcp.client import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("memory")

def whose(ctx: Context) -> str:
    return "request " + ("known" if ctx.request_id else "unknown")

def whose_too(ctx: Context, v: str = "") -> str:
    return whose(ctx)

try:
    server.resource("memory://me")(whose)
    fixed = "accepted"
except ValueError as e:
    fixed = "ValueError"
    print("fixed:", e)
server.tool()(whose)
server.prompt()(whose)
server.resource("memory://me{?v}")(whose_too)

async def main():
    async with Client(server) as c:
        return (fixed, (await c.call_tool("whose", {})).content[0].text,
                (await c.get_prompt("whose")).messages[0].content.text,
                (await c.read_resource("memory://me")).contents[0].text,
                [r.uri for r in (await c.list_resources()).resources],
                [t.uri_template for t in (await c.list_resource_templates()).resource_templates])

got = asyncio.run(main())
print("fixed, tool, prompt, template, listed, templates:", got)
if got != ("ValueError", *["request known"] * 3, [], ["memory://me{?v}"]):
    sys.exit(f"changed: {got}")
P
