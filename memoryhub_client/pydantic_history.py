"""Pydantic AI's conversations as threads of the hub, whose messages people can read.

store = MemoryHubConversationStore(AsyncClient("http://127.0.0.1:8000", key))
conversation = await store.load("order-17") or Conversation(conversation_id="order-17")
result = await agent.run("Where is my parcel?", conversation=conversation)
await store.save(result)

A conversation is the thread `pydantic-ai:<conversation_id>`. Each message of Pydantic
AI is one or more messages of the thread, by who speaks. The last one carries the JSON
of Pydantic AI, which is what is loaded: nothing is filled in, and nothing merged. The
record of the conversation is the key `conversation`.

The store answers as `InMemoryConversationStore` of pydantic-ai 2.68, but:

- Values without a JSON type, such as a tool's date, are loaded as their JSON.
- A deleted conversation neither loads nor lists, and its messages are struck: lists,
  requests and searches leave them out, and only an erasure takes their texts.
- A fork has copies of the messages that it shares, so it outlives an erased thread.
- A save that loses a race strikes the messages that it had written.
- A save with a message that no request holds (1 MiB, unless the hub takes more) is
  `TooLarge` and writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from memoryhub_client import keys, slots, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import cut_batches
from memoryhub_client.escapes import build_name
from memoryhub_client.extras import require_extra
from memoryhub_client.kept_items import (
    build_slots,
    find_item,
    list_indexes,
    strike_slots,
)
from memoryhub_client.problems import Conflict, NotFound
from memoryhub_client.slots import Slot
from memoryhub_client.threads import Making

with require_extra("pydantic-ai"):
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        BaseToolReturnPart,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        UserContent,
        UserPromptPart,
    )

KIND, PREFIX, KEY = "pydantic_ai", "pydantic-ai:", "conversation"
LABELS = {"kind": "pydantic-ai"}
#: Number of entries whose threads a store remembers.
CACHED = 20_000
_RECORD = TypeAdapter(ConversationRecord)


class StoredRecord(NamedTuple):
    record: ConversationRecord
    #: Seq of its key.
    seq: int


class MemoryHubConversationStore(ConversationStore):
    """A conversation store in MemoryHub.

    With `scope_is_user_id`, a conversation belongs to the person whose user id is its
    scope: erasing the person erases the conversation. A refusal is the client's
    exception: `Forbidden` for a key without the scope, `Gone` for an erased thread.
    """

    def __init__(self, hub: AsyncClient, *, scope_is_user_id: bool = False) -> None:
        self.hub, self.scope_is_user_id = hub, scope_is_user_id
        #: Threads by the entries that they hold.
        self._threads: defaultdict[str, set[str]] = defaultdict(set)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        stored = await self._find_record(build_name(PREFIX, conversation_id))
        return stored.record if stored else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        listing = threads.list_all(labels=LABELS, limit=200)
        if self.scope_is_user_id and scope:
            listing = threads.search(user_id=scope, labels=LABELS, limit=200)
        records = []
        async for thread in self.hub.each(listing):
            stored = await self._find_record(thread["thread"])
            if stored and scope in (None, stored.record.scope):
                records.append(stored.record)
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        name, head = build_name(PREFIX, record.conversation_id), record.head_id
        stored = await self._find_record(name)
        if (stored.record.revision if stored else None) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        entries = [*new_entries]
        first = head if not entries else entries[0].parent_id
        # A new record's thread may have held the entry in a conversation deleted since.
        if first and (stored is None or name not in self._threads[first]):
            try:
                entries = [*await self.read_history(first), *entries]
            except LookupError as gone:
                raise ConversationConflict(record.conversation_id) from gone
        built = [slot for entry in entries for slot in build_entry_slots(entry)]
        batches = cut_batches(built, self.hub.body_bytes)
        if stored is None:
            making: Making = {"labels": LABELS}
            if self.scope_is_user_id and record.scope:
                making["user_id"] = record.scope
            await self.hub.send(threads.put(name, **making))
        indexes: list[int] = []
        for batch in batches:
            appended = await self.hub.send(slots.append_batch(name, batch))
            indexes += [each["index"] for each in appended["items"]]
        text = _RECORD.dump_json(record).decode()
        try:
            if stored:
                await self.hub.send(keys.put(name, KEY, text, if_match=stored.seq))
            else:
                await self.hub.send(keys.put(name, KEY, text, if_none_match="*"))
        except Conflict as refusal:
            await strike_slots(self.hub, name, indexes)
            raise ConversationConflict(record.conversation_id) from refusal
        self._remember(name, [entry.id for entry in entries])

    async def delete_record(
        self, conversation_id: str, *, expected_revision: str
    ) -> None:
        name = build_name(PREFIX, conversation_id)
        stored = await self._find_record(name)
        if stored is None or stored.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        # Before the record goes: a conversation that begins anew has later messages.
        indexes = await list_indexes(self.hub, name)
        try:
            await self.hub.send(keys.delete(name, KEY, if_match=stored.seq))
        except (Conflict, NotFound) as refusal:
            raise ConversationConflict(conversation_id) from refusal
        await strike_slots(self.hub, name, indexes)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Read the entries up to `head_id`. Raises LookupError if there is none.

        An entry that this store has not seen yet is looked for in all threads.
        """
        if head_id is None or limit == 0:
            return []
        for name in sorted(self._threads[head_id]):
            if entries := await self._read_entries(name, head_id, limit):
                return entries
        async for thread in self.hub.each(threads.list_all(labels=LABELS, limit=200)):
            if entries := await self._read_entries(thread["thread"], head_id, limit):
                return entries
        raise LookupError(head_id)

    async def _read_entries(
        self, name: str, head_id: str, limit: int | None
    ) -> list[ConversationEntry]:
        """Read a thread back to the first entry; empty if the entry is not there."""
        entries: list[ConversationEntry] = []
        wanted: str | None = head_id
        listing = slots.list_all(name, order="desc", limit=200)
        async for slot in self.hub.each(listing):
            item = find_item(slot, KIND)
            if item is None or item["id"] != wanted:
                continue
            entries.append(parse_entry(item))
            wanted = item["parent_id"]
            if wanted is None or len(entries) == limit:
                break
        self._remember(name, [entry.id for entry in entries])
        return entries[::-1]

    async def _find_record(self, name: str) -> StoredRecord | None:
        try:
            stored = await self.hub.send(keys.get(name, KEY))
        except NotFound:
            return None
        record = _RECORD.validate_json(stored["value"])
        heads = [record.head_id, *record.branches]
        self._remember(name, [each for each in heads if each])
        return StoredRecord(record, stored["seq"])

    def _remember(self, name: str, entries: Sequence[str]) -> None:
        if len(self._threads) > CACHED:
            self._threads.clear()
        for each in entries:
            self._threads[each].add(name)


def parse_entry(item: dict[str, Any]) -> ConversationEntry:
    [message] = ModelMessagesTypeAdapter.validate_json(f"[{item['json']}]")
    return ConversationEntry(
        id=item["id"], parent_id=item["parent_id"], message=message
    )


def build_entry_slots(entry: ConversationEntry) -> list[Slot]:
    message, at = entry.message, entry.message.timestamp
    text = ModelMessagesTypeAdapter.dump_json([message]).decode()[1:-1]
    return build_slots(
        [*iter_messages(message)],
        KIND,
        {"id": entry.id, "parent_id": entry.parent_id, "json": text},
        agent_at=at.isoformat() if at else None,
    )


# Messages for people, and for the hub's search, in the shape of chat completions


def iter_messages(message: ModelMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield build_part(part)
    elif message.parts:
        yield build_response(message)


def build_part(part: ModelRequestPart) -> dict[str, Any]:
    """Build the message of a part; of the framework's own parts it has the text."""
    if isinstance(part, UserPromptPart):
        items = [part.content] if isinstance(part.content, str) else part.content
        return {"role": "user", "content": "\n".join(map(render_content, items))}
    tool, call = getattr(part, "tool_name", None), getattr(part, "tool_call_id", None)
    if isinstance(part, BaseToolReturnPart):
        text = part.model_response_str()
    elif hasattr(part, "model_response"):
        text = part.model_response()
    else:
        said = getattr(part, "content", None)
        text = said if isinstance(said, str) else f"[{part.part_kind}]"
    if tool and call:
        return {"role": "tool", "name": tool, "tool_call_id": call, "content": text}
    return {"role": "system", "content": text}


def build_response(message: ModelResponse) -> dict[str, Any]:
    """Build the model's message; a call that the provider has run is a line."""
    lines, thoughts, calls = [], [], []
    for part in message.parts:
        if isinstance(part, TextPart):
            lines.append(part.content)
        elif isinstance(part, ThinkingPart):
            thoughts.append(part.content)
        elif isinstance(part, ToolCallPart):
            function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            call = {"id": part.tool_call_id, "type": "function", "function": function}
            calls.append(call)
        else:
            lines.append(f"[{getattr(part, 'tool_name', part.part_kind)}]")
    built: dict[str, Any] = {"role": "assistant", "content": "\n".join(lines)}
    if thoughts:
        built["reasoning_content"] = "\n".join(thoughts)
    return built | {"tool_calls": calls} if calls else built


def render_content(said: UserContent) -> str:
    """Return the text, or a line in place of a medium."""
    if isinstance(said, str):
        return said
    if isinstance(said, TextContent):
        return said.content
    return f"[{getattr(said, 'url', said.kind)}]"
