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
from mcp.types import INVALID_PARAMS

from memoryhub_client import Client as Hub
from memoryhub_client import erasures, slots, subjects, threads
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


async def read_resource(client: Client, uri: str) -> str:
    found = await client.read_resource(uri)
    return str(getattr(found.contents[0], "text", ""))


async def read_refusal(client: Client, uri: str) -> tuple[int, str]:
    """Read a resource that must be refused; return the protocol's code and words."""
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    return refused.value.error.code, refused.value.error.message


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
            ("remember", {"text": "x", "extra": 1}, "`extra`: the tool takes no"),
            ("remember", {"text": "a\0b"}, "`text` takes texts without U+0000"),
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
    """A new thread begins with all that is remembered; a name is each person's own."""
    async with connect(served, key, **ANN, memoryhub_thread="of-ann") as client:
        await call(client, "remember", text="Ann grows kiwis")
    async with connect(served, key, **ANN, memoryhub_thread="ann-2") as client:
        assert await list_texts(client, "kiwis") == ["Ann grows kiwis"]
    async with connect(served, key, **BOB, memoryhub_thread="of-ann") as client:
        assert await list_texts(client, "kiwis") == []
        assert (await call(client, "search", query="kiwis"))["items"] == []
        await call(client, "remember", text="Bob picks kiwis")
    async with connect(served, key, **ANN, memoryhub_thread="of-ann") as client:
        assert await list_texts(client, "kiwis") == ["Ann grows kiwis"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_named_person_is_all_that_a_connection_reaches(
    served: Server, key: str, transport: str, known: bool
) -> None:
    """Answer ids of others as unknown ids, also to a person who is not known yet."""
    async with connect(served, key, **ANN) as ann:
        memory = (await call(ann, "remember", text="Ann likes nuts"))["id"]
    with Hub(served.url, key) as hub:
        hub.send(threads.put("of-ann", user_id="ann"))
        pin = {"role": "user", "content": "The PIN is 7781"}
        hub.send(slots.append("of-ann", slots.chat(pin)))
    if known:
        async with connect(served, key, **BOB) as bob:
            await call(bob, "remember", text="Bob is here")
    async with (
        connect(served, key, "/mcp/all", **BOB)
        if transport == "http"
        else run_command(served, key, MEMORYHUB_PERSON="bob")
    ) as bob:
        assert "ann" not in await read_resource(bob, "memory://threads")
        for theirs, nobodys in (
            (memory, "mcp.none/none"),
            ("of-ann/slot-0", "none/slot-0"),
        ):
            for tool, more in (
                ("read", {}),
                ("update", {"text": "x"}),
                ("forget", {}),
            ):
                told = [
                    (await read_error(bob, tool, id=each, **more)).replace(each, "ID")
                    for each in (theirs, nobodys)
                ]
                assert told[0] == told[1]
                assert "not_found" in told[0]
            for below in ("", "/messages", "/log", "/pages/slot-0"):
                refused = [
                    await read_refusal(
                        bob, f"memory://threads/{each.partition('/')[0]}{below}"
                    )
                    for each in (theirs, nobodys)
                ]
                assert refused[0] == refused[1]
        assert await list_texts(bob, "nuts OR PIN") == []
        assert (await call(bob, "facts"))["items"] == []
        assert "PIN" not in str(await bob.get_prompt("start_session"))
    with Hub(served.url, key) as hub:
        found = hub.send(threads.search(user_id="bob"))["items"]
    assert len(found) == known
    async with connect(served, key, **ANN) as ann:
        assert await list_texts(ann, "nuts") == ["Ann likes nuts"]


async def test_person_that_can_be_nobodys_id_is_refused(
    served: Server, key: str
) -> None:
    for wrong in ("", "*", "x" * 257):
        async with connect(served, key, memoryhub_person=wrong) as client:
            for tool, sent in (("remember", "text"), ("recall", "query")):
                told = await read_error(client, tool, **{sent: "x"})
                assert "1 to 256 characters of one line" in told


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


async def test_start_session_tells_that_texts_are_remembered(
    served: Server, key: str
) -> None:
    for headers in (ANN, {}):
        async with connect(served, key, **headers) as client:
            assert "| nothing yet" in str(await client.get_prompt("start_session"))
            await call(client, "remember", text="Ann plays the oboe")
            text = str(await client.get_prompt("start_session"))
        assert "nothing yet" not in text
        assert "but texts: `recall` finds them" in text


# Requests that ask for what is not there


async def test_bad_prompt_and_resource_are_invalid_params_in_words(
    shared: Instance, served: Server, key: str
) -> None:
    async with connect(served, key) as client:
        for name, sent, says in (
            ("nope", {}, "Unknown prompt. The prompts are start_session."),
            ("start_session", {"topic": "x"}, "`topic`"),
        ):
            with pytest.raises(MCPError, match=says) as refused:
                await client.get_prompt(name, sent)
            assert refused.value.error.code == INVALID_PARAMS
        for limit in ("abc", "0", ""):
            uri = f"memory://threads?limit={limit}"
            code, words = await read_refusal(client, uri)
            assert (code, "limit" in words) == (INVALID_PARAMS, True)
        assert [each.uri for each in (await client.list_resources()).resources] == [
            "memory://threads"
        ]
        assert "items" in await read_resource(client, "memory://threads?limit=1")
    assert "Traceback" not in shared.log.read_text(encoding="utf-8")


async def test_bad_thread_name_is_told_as_such(served: Server, key: str) -> None:
    async with connect(served, key, memoryhub_thread="my/ thr") as client:
        for tool, sent in (
            ("remember", {"text": "x"}),
            ("recall", {"query": "x"}),
            ("search", {"query": "x"}),
        ):
            told = await read_error(client, tool, **sent)
            assert "bad thread name" in told
            assert "letters, digits and" in told


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
