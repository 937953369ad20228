"""Pydantic AI's conversations and a real server: beside its store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pydantic_ai")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage

from memoryhub_client import (
    AsyncClient,
    Gone,
    NotFound,
    TooLarge,
    erasures,
    searches,
    slots,
    subjects,
    threads,
)
from memoryhub_client.kept_items import find_item
from memoryhub_client.pydantic_history import KIND, MemoryHubConversationStore
from tests.harness.instances import Instance, Server

Outcome = tuple[str, Any]
CALL = ToolCallPart("track", {"parcel": 17}, tool_call_id="call-1")
RAW: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Where is \0 it?")]),
    ModelResponse([ThinkingPart("Hm.", signature="x"), TextPart("Wait."), CALL]),
    ModelRequest(
        [
            ToolReturnPart("track", {"at": datetime(2026, 5, 1, tzinfo=UTC)}, "call-1"),
            ToolReturnPart("weigh", b"\xff\0", tool_call_id="call-2"),
            ToolReturnPart("track", "Again.", "call-3", outcome="retried"),
        ]
    ),
    ModelRequest([UserPromptPart(["Look:", ImageUrl("https://a.b/c.png")])]),
    ModelRequest([UserPromptPart([BinaryContent(b"\0" * 9, media_type="image/png")])]),
    ModelResponse([NativeToolCallPart("web_search", '{"q": 1.0}'), TextPart("")]),
    ModelRequest([], instructions="None."),
    ModelResponse([], provider_details={"big": 2**70, "small": 1e-7, "ü": "\u2028"}),
]
#: Without Python's own types, which no JSON has.
MESSAGES = ModelMessagesTypeAdapter.validate_json(
    ModelMessagesTypeAdapter.dump_json(RAW)
)
IDS, SCOPES = ("a", "b", "ü / " * 50), (None, "ann", "ben")


@pytest.fixture
async def client(served: Server, key: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.url, key) as client:
        yield client


@pytest.fixture
def store(client: AsyncClient) -> MemoryHubConversationStore:
    return MemoryHubConversationStore(client, scope_is_user_id=True)


def dump(messages: list[ModelMessage]) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(messages)


class Side:
    """One of the two stores, and what the script has loaded from it."""

    def __init__(self, store: ConversationStore, prefix: str) -> None:
        self.store, self.prefix = store, prefix
        self.loaded: dict[str, Conversation] = {}

    async def do(self, act: str, name: str, number: int, scope: str | None) -> Outcome:
        """Return the outcome of an act without the ids that the library makes up."""
        try:
            return act, await getattr(self, act)(self.prefix + name, number, scope)
        except (ConversationConflict, UserError) as refusal:
            return act, type(refusal).__name__

    async def load(self, name: str, number: int, scope: str | None) -> Any:
        limit = number if number % 2 else None
        found = await self.store.load(name, limit=limit, scope=scope)
        return self.note(name, found) if found else None

    async def save(self, name: str, number: int, scope: str | None) -> Any:
        talk = self.loaded.get(name) or Conversation(conversation_id=name)
        self.loaded[name] = talk
        talk.messages += MESSAGES[number : number + 2]
        talk.usage = RunUsage(requests=number)
        saved = await self.store.save(talk, scope=scope)
        for entry in saved:
            assert await self.store.read_entry(entry.id) == entry
        return dump([entry.message for entry in saved])

    async def rewrite(self, name: str, number: int, scope: str | None) -> Any:
        if name in self.loaded:
            del self.loaded[name].messages[: number // 2]
            self.loaded[name].new_message_index = None
        return await self.save(name, number, scope)

    async def branch(self, name: str, number: int, scope: str | None) -> Any:
        record = await self.store.read_record(name)
        at: dict[str, Any] = {"at": number // 2}
        if record and record.branches and number % 2:
            at = {"from_entry": record.branches[0]}
        revision = record.revision if record else ""
        kept = await self.store.branch(
            name, **at, expected_revision=revision, scope=scope
        )
        return self.note(name, kept)

    async def fork(self, name: str, number: int, scope: str | None) -> Any:
        new = self.prefix + IDS[number % 3]
        at = number // 3 if number % 2 else None
        made = await self.store.fork(name, at=at, new_conversation_id=new, scope=scope)
        return self.note(new, made)

    async def delete(self, name: str, number: int, scope: str | None) -> Any:
        await self.store.delete(name, scope=scope)

    async def list_all(self, name: str, number: int, scope: str | None) -> Any:
        found = await self.store.list_conversations(scope=scope)
        return [
            self.note_record(each)
            for each in found
            if each.conversation_id.startswith(self.prefix)
        ]

    def note(self, name: str, talk: Conversation) -> Any:
        self.loaded[name] = talk
        return dump(talk.messages), talk.usage, talk.new_message_index

    def note_record(self, record: ConversationRecord) -> Any:
        about = record.conversation_id, record.scope, record.forked_from, record.usage
        return about, len(record.branches), bool(record.head_id)


ACTS = ("save", "save", "load", "rewrite", "branch", "fork", "delete", "list_all")
acts = st.tuples(
    st.sampled_from(ACTS),
    st.sampled_from(IDS),
    st.integers(0, 7),
    st.sampled_from(SCOPES),
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=st.lists(acts, min_size=4, max_size=14))
async def test_store_answers_as_the_store_in_memory(
    client: AsyncClient, script: list[tuple[str, str, int, str | None]]
) -> None:
    prefix = uuid4().hex
    ours = Side(MemoryHubConversationStore(client), prefix)
    theirs = Side(InMemoryConversationStore(), prefix)
    for act in script:
        assert await ours.do(*act) == await theirs.do(*act)
        # Another process, which has seen no entry yet.
        ours.store = MemoryHubConversationStore(client)


async def test_run_is_messages_of_a_person_until_it_is_erased(
    client: AsyncClient,
    store: MemoryHubConversationStore,
    served: Server,
    shared: Instance,
    project: str,
) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([CALL])
        return ModelResponse([TextPart("At the depot.")])

    agent = Agent(FunctionModel(answer), system_prompt="Be brief.")

    @agent.tool_plain
    def track(parcel: int) -> str:
        return f"parcel {parcel}: depot"

    talk = Conversation(conversation_id="order")
    result = await agent.run("Where is my parcel?", conversation=talk)
    await store.save(result, scope="ann")
    found = await store.load("order")
    assert found
    assert dump(found.messages) == dump(result.conversation.messages)
    listed = [each async for each in client.each(slots.list_all("pydantic-ai:order"))]
    assert [(each["type"], each["content"]["content"]) for each in listed] == [
        ("chat.system", "Be brief."),
        ("chat.user", "Where is my parcel?"),
        ("chat.assistant", ""),
        ("chat.tool", "parcel 17: depot"),
        ("chat.assistant", "At the depot."),
    ]
    hits = await client.send(searches.search("pydantic-ai:order", query="depot"))
    assert len(hits["items"]) == 2
    ann = await client.send(subjects.resolve("ann"))
    key = shared.managed("create_key", project, "--scopes=subject:forget").strip()
    async with AsyncClient(served.url, key) as officer:
        plan = await officer.send(erasures.plan(ann["id"], "subject", "test"))
        sure = erasures.confirm(plan["id"], plan["plan_token"], plan["count"])
        await officer.send(sure)
    with pytest.raises(Gone):
        await store.load("order")


async def test_save_at_once_with_another_is_a_conflict(
    client: AsyncClient, store: MemoryHubConversationStore
) -> None:
    for size in (2, 8):
        talks = [await store.load("talk") or Conversation() for _ in range(2)]
        for talk in talks:
            talk.conversation_id, talk.messages = "talk", RAW[:size]
        done = await asyncio.gather(*map(store.save, talks), return_exceptions=True)
        assert sorted(map(type, done), key=str) == [list, ConversationConflict]
        found = await store.load("talk")
        assert found
        assert dump(found.messages) == dump(MESSAGES[:size])
    # The JSON that the library wrote, a part of which it drops when it reads.
    listing = slots.list_all("pydantic-ai:talk")
    items = [find_item(each, KIND) async for each in client.each(listing)]
    texts = {each["id"]: each["json"] for each in items if each}
    entries = await store.load_entries("talk") or []
    stored = ",".join(texts[entry.id] for entry in entries)
    assert f"[{stored}]".encode() == dump(RAW)
    # The saves that lost have struck theirs.
    assert [*texts] == [entry.id for entry in entries]


async def test_save_with_a_message_beyond_a_request_writes_nothing(
    client: AsyncClient, store: MemoryHubConversationStore
) -> None:
    picture = BinaryContent(b"\0" * 900_000, media_type="image/png")
    said = [ModelRequest([UserPromptPart(["Look:", each])]) for each in ("", picture)]
    with pytest.raises(TooLarge, match="Item 2 of 2"):
        await store.save(Conversation(conversation_id="large", messages=[*said]))
    assert await store.load("large") is None
    with pytest.raises(NotFound):
        await client.send(threads.get("pydantic-ai:large"))


async def test_deleted_conversation_leaves_lists_and_searches(
    client: AsyncClient, store: MemoryHubConversationStore
) -> None:
    texts = [f"parcel {number}" for number in range(250)]
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(each)]) for each in texts
    ]
    await store.save(Conversation(conversation_id="talk", messages=messages))
    await store.fork("talk", new_conversation_id="copy")
    await store.delete("talk")
    assert not [each async for each in client.each(slots.list_all("pydantic-ai:talk"))]
    searching = searches.search("pydantic-ai:talk", query="parcel")
    assert not (await client.send(searching))["items"]
    # The store remembers entries of the conversation that was deleted.
    await store.fork("copy", new_conversation_id="talk")
    found = await store.load("talk")
    assert found
    assert dump(found.messages) == dump(messages)
