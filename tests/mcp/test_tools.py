"""The MCP server by the SDK's own client, and what the endpoint refuses."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from memoryhub_client import Client as Hub
from memoryhub_client import erasures, subjects
from tests.harness.instances import Instance, Server, free_port
from tests.mcp.conftest import HOST, MakeKey

ANN, BOB = {"memoryhub-person": "ann"}, {"memoryhub-person": "bob"}
MANAGE = str(Path(__file__).resolve().parents[2] / "manage.py")
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@asynccontextmanager
async def connect(
    server: Server, key: str, path: str = "/mcp", mode: str = "auto", **headers: str
) -> AsyncIterator[Client]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    bearer = {"Authorization": f"Bearer {key}", **named}
    async with httpx2.AsyncClient(headers=bearer) as http:
        transport = streamable_http_client(f"{server.url}{path}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def run_command(
    server: Server, key: str, mode: str = "auto", **env: str
) -> AsyncIterator[Client]:
    """Run the command that serves a client over stdio."""
    command = StdioServerParameters(
        command=sys.executable,
        args=[MANAGE, "mcp", "--all", "--url", server.url],
        env={"MEMORYHUB_KEY": key, **env},
    )
    async with Client(stdio_client(command), mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed; return its structured answer."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def read_error(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail; return its words for the model."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return str(getattr(answer.content[0], "text", ""))


async def list_texts(client: Client, query: str) -> list[str]:
    found = await call(client, "recall", query=query)
    return [item["text"] for item in found["items"]]


async def post(
    server: Server, method: str, params: Any, **headers: str
) -> httpx2.Response:
    """Send one message of the protocol, without a client that would mend it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    accept = {"accept": "application/json, text/event-stream"}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx2.AsyncClient(headers=accept | named) as http:
        return await http.post(f"{server.url}/mcp", json=message)


# Tools


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_stdio_command_reads_the_memory_that_http_wrote(
    served: Server, key: str, mode: str
) -> None:
    async with connect(served, key, **ANN) as client:
        await call(client, "remember", text="Ann plays the oboe")
    async with run_command(served, key, mode, MEMORYHUB_PERSON="ann") as client:
        assert await list_texts(client, "oboe") == ["Ann plays the oboe"]
        assert len((await client.list_tools()).tools) == 10


async def test_search_without_a_person_has_one_thread_over_both_transports(
    served: Server, key: str, make_key: MakeKey
) -> None:
    """A key bound to a person has a thread `mcp` of its own."""
    for used, text in ((key, "An oboe for all"), (make_key(person="ann"), "My oboe")):
        async with run_command(served, used) as client:
            memory = (await call(client, "remember", text=text))["id"]
            assert memory.startswith("mcp/")
        async with connect(served, used) as client:
            found = await call(client, "search", query="oboe")
            assert [each["id"] for each in found["items"]] == [memory]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_memory_lives_until_it_is_forgotten(
    served: Server, key: str, mode: str
) -> None:
    async with connect(served, key, mode=mode) as client:
        memory = (await call(client, "remember", text="Bo plays the oboe"))["id"]
        assert await list_texts(client, "oboe") == ["Bo plays the oboe"]
        await call(client, "update", id=memory, text="Bo plays the bassoon")
        assert await list_texts(client, "oboe") == []
        assert await list_texts(client, "bassoon") == ["Bo plays the bassoon"]
        await call(client, "forget", id=memory)
        assert await list_texts(client, "bassoon") == []
        assert "page_erased" in await read_error(client, "forget", id=memory)
        assert "page_unknown" in await read_error(client, "forget", id=f"{memory}x")
        assert "thread/page" in await read_error(client, "forget", id="x")


async def test_errors_tell_a_model_what_to_do(served: Server, key: str) -> None:
    told = []
    async with connect(served, key, "/mcp/all") as client:
        await call(client, "remember", text="Bo plays the oboe")
        for tool, sent, says in (
            ("read", {"id": "mcp/x"}, "no memory has the id 'mcp/x'. `recall` and"),
            ("forget", {"id": "x/y"}, "no memory has the id 'x/y'. `recall` and"),
            ("read", {"id": "x"}, "'x' is no id of a memory. `recall` and"),
            ("update", {"id": "x/y"}, "`text` is missing: it takes string"),
            ("recall", {"query": "x", "limit": 99}, "takes integer from 1 to 50."),
            ("remember", {"text": ""}, "takes string of at least 1 character."),
            ("guess", {}, "The tools are remember, recall, search"),
        ):
            told.append(await read_error(client, tool, **sent))
            assert says in told[-1]
        for path in ("none", "mcp/pages/x"):
            with pytest.raises(MCPError, match="memory://threads lists") as refused:
                await client.read_resource(f"memory://threads/{path}")
            told.append(refused.value.error.message)
    assert not re.search("manifest|pydantic|https?:|input_value", " ".join(told))


async def test_person_header_keeps_people_apart(served: Server, key: str) -> None:
    async with connect(served, key, **ANN) as ann, connect(served, key, **BOB) as bob:
        await call(ann, "remember", text="Ann is allergic to nuts")
        await call(bob, "remember", text="Bob likes nuts")
        assert await list_texts(ann, "nuts") == ["Ann is allergic to nuts"]
        assert await list_texts(bob, "nuts") == ["Bob likes nuts"]


async def test_named_thread_shows_no_other_person(served: Server, key: str) -> None:
    """A new thread begins with all that is remembered; another's is refused."""
    async with connect(served, key, **ANN, memoryhub_thread="of-ann") as client:
        await call(client, "remember", text="Ann grows kiwis")
    async with connect(served, key, **ANN, memoryhub_thread="ann-2") as client:
        assert await list_texts(client, "kiwis") == ["Ann grows kiwis"]
    async with connect(served, key, **BOB, memoryhub_thread="of-ann") as client:
        assert await list_texts(client, "kiwis") == []
        for tool in ("search", "remember"):
            told = await read_error(client, tool, query="kiwis", text="kiwis")
            assert "subject_conflict" in told


async def test_bound_key_reaches_no_other_person(
    served: Server, key: str, make_key: MakeKey
) -> None:
    async with connect(served, key, **BOB) as bob:
        memory = (await call(bob, "remember", text="Bob likes nuts"))["id"]
    bound = make_key(person="ann")
    thread = memory.partition("/")[0]
    async with connect(served, bound, "/mcp/all") as ann:
        for tool, more in [("read", {}), ("update", {"text": "x"}), ("forget", {})]:
            assert "not_found" in await read_error(ann, tool, id=memory, **more)
    async with connect(served, bound, **BOB) as ann:
        assert await list_texts(ann, "nuts") == []
        assert "not_found" in await read_error(ann, "remember", text="Ann was here")
    # A bound key has names of its own: by this header it begins a thread of its person.
    async with connect(served, bound, memoryhub_thread=thread) as ann:
        await call(ann, "remember", text="Ann likes nuts")
        assert await list_texts(ann, "nuts") == ["Ann likes nuts"]
    async with connect(served, key, **BOB) as bob:
        assert await list_texts(bob, "nuts") == ["Bob likes nuts"]


async def test_missing_scope_is_told_in_words(
    served: Server, make_key: MakeKey
) -> None:
    async with connect(served, make_key("--scopes=memory:read")) as client:
        words = await read_error(client, "remember", text="x")
    assert "memory:write" in words


async def test_start_session_puts_a_bar_before_each_line(
    served: Server, key: str
) -> None:
    async with connect(served, key, "/mcp/all", **ANN) as client:
        await call(client, "block_edit", block="profile", text="A musician\nIgnore it")
        fact = {"entity": "user", "predicate": "lives_in", "value": "Bergen"}
        await call(client, "fact_add", **fact)
        prompt = await client.get_prompt("start_session")
    text = str(getattr(prompt.messages[0].content, "text", ""))
    first, *lines, last = text.splitlines()
    assert lines == [
        "| profile: A musician",
        "| Ignore it",
        "| user lives_in Bergen",
    ]
    assert not first.startswith("|")
    assert not last.startswith("|")


async def test_erased_person_is_gone_from_every_door(
    served: Server, key: str, make_key: MakeKey
) -> None:
    async with connect(served, key, **ANN) as ann, connect(served, key, **BOB) as bob:
        memory = (await call(ann, "remember", text="Ann likes nuts"))["id"]
        await call(bob, "remember", text="Bob likes nuts")
        officer = make_key("--scopes=subject:export,subject:forget,admin")
        with Hub(served.url, officer) as hub:
            subject = hub.send(subjects.resolve("ann"))["id"]
            plan = hub.send(erasures.plan(subject, "subject", "test"))
            hub.send(erasures.confirm(plan["id"], plan["plan_token"], plan["count"]))
        assert await read_error(ann, "update", id=memory, text="x")
        thread, _, page = memory.partition("/")
        with pytest.raises(MCPError):
            await ann.read_resource(f"memory://threads/{thread}/pages/{page}")
        answer = await ann.call_tool("recall", {"query": "nuts"})
        assert answer.is_error or answer.structured_content["items"] == []
        assert await list_texts(bob, "nuts") == ["Bob likes nuts"]


# Refusals of the command


def test_stdio_command_ends_at_once_without_a_hub_or_a_known_key(
    shared: Instance, served: Server, key: str
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    for url, given, said in (
        (served.url, f"{key[:-1]}x", "create_key"),
        (served.url, "mh_live_…", "create_key"),
        (nobody, key, "MEMORYHUB_URL"),
        (f"{served.url}/elsewhere", key, "MEMORYHUB_URL"),
        ("127.0.0.1:8000", key, "MEMORYHUB_URL"),
        ("http://[", key, "MEMORYHUB_URL"),
    ):
        done = shared.manage("mcp", "--url", url, MEMORYHUB_KEY=given)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert url in done.stderr
        assert "Traceback" not in done.stderr


# Refusals of the endpoint


async def test_request_without_a_key_is_refused(served: Server) -> None:
    answer = await post(served, "initialize", INITIALIZE)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["error"]["message"].startswith("unauthorized: ")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({"host": "evil.example"}, 400),
        ({"origin": "http://evil.example"}, 400),
        ({"origin": "null"}, 400),
        ({"host": HOST}, 200),
        ({"host": HOST, "origin": f"https://{HOST}"}, 200),
        ({"host": "localhost"}, 200),
    ],
)
async def test_foreign_host_and_origin_are_refused(
    served: Server, key: str, header: dict[str, str], status: int
) -> None:
    answer = await post(
        served, "initialize", INITIALIZE, authorization=f"Bearer {key}", **header
    )
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["code"] == -32600


async def test_text_beyond_the_cap_is_refused(served: Server, key: str) -> None:
    text = {"text": "x" * 10_000_000}
    sent = {"name": "remember", "arguments": text}
    answer = await post(served, "tools/call", sent, authorization=f"Bearer {key}")
    assert answer.status_code == 413
    assert answer.json()["error"]["message"].startswith("body_too_large: ")
    async with connect(served, key) as client:
        with pytest.raises(MCPError, match="body_too_large"):
            await client.call_tool("remember", text)


async def test_session_serves_only_the_key_that_began_it(
    served: Server, key: str, make_key: MakeKey
) -> None:
    ours, other = f"Bearer {key}", f"Bearer {make_key()}"
    begun = await post(served, "initialize", INITIALIZE, authorization=ours)
    session = begun.headers["mcp-session-id"]
    statuses = [
        (
            await post(
                served, "tools/list", {}, authorization=bearer, mcp_session_id=session
            )
        ).status_code
        for bearer in (ours, other)
    ]
    assert statuses == [200, 404]


async def test_unknown_protocol_version_is_answered_with_known_ones(
    served: Server, key: str
) -> None:
    bearer = f"Bearer {key}"
    asked = {**INITIALIZE, "protocolVersion": "1999-01-01"}
    old = await post(served, "initialize", asked, authorization=bearer)
    assert '"protocolVersion":"2025-11-25"' in old.text
    meta = {"io.modelcontextprotocol/protocolVersion": "2999-01-01"}
    new = await post(
        served,
        "server/discover",
        {"_meta": {**meta, "io.modelcontextprotocol/clientCapabilities": {}}},
        authorization=bearer,
        mcp_protocol_version="2999-01-01",
        mcp_method="server/discover",
    )
    assert new.status_code == 400
    assert "2026-07-28" in new.json()["error"]["data"]["supported"]
