"""OpenAI Agents SDK: a session whose items are messages of a thread of the hub.

hub = AsyncClient("http://127.0.0.1:8000", key)
session = MemoryHubSession(hub, "talk", user_id="ada")
result = await Runner.run(agent, "Hello", session=session)

Items come back as they were added, and the hub finds them by words and shows them as a
conversation. `pop_item` and `clear_session` strike messages out: they leave every list,
request and search, replay still shows them, and only an erasure takes their texts.
More than 200 items, or 900 KB, are added in several steps. An item that no request
holds (1 MiB, unless the hub takes more) is refused before the first one. An item that
the hub has erased is left out. U+0000 and half a surrogate pair are refused. A fork
can't pop what it inherited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from memoryhub_client import slots, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import MAX_BATCH, cut_batches
from memoryhub_client.escapes import build_name, escape_name
from memoryhub_client.kept_items import list_indexes, strike_slots
from memoryhub_client.problems import NotFound

#: An item as the Responses API takes it. The SDK is not imported.
Item = dict[str, Any]
_ROLES = {"user": "user", "assistant": "assistant"}


class MemoryHubSession:
    """A session of the Agents SDK, kept as a thread.

    `user_id` is the person's id, given when the thread is made. A session of another
    person's thread raises Conflict. Concurrent sessions of one id may share the thread:
    each item is popped by one of them alone.
    """

    def __init__(
        self,
        hub: AsyncClient,
        session_id: str,
        *,
        user_id: str | None = None,
        session_settings: Any = None,
    ) -> None:
        self.session_id = session_id
        #: The SDK's `SessionSettings`, whose `limit` counts where no other is given.
        self.session_settings = session_settings
        self.thread = _build_thread_name(session_id)
        self._hub = hub
        self._user_id = user_id

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the newest `limit` items, oldest first; all without a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit == 0:
            return []
        items: list[Any] = []
        try:
            await self._check_person()
            async for _, item in self._iter_newest(limit):
                items.append(item)
                if len(items) == limit:
                    break
        except NotFound:
            return []
        return items[::-1]

    async def add_items(self, items: list[Item]) -> None:
        """Append items, 200 in one step. Raises Problem, Unreachable.

        TooLarge for an item that no request holds: then none is appended.
        """
        built = [_build_slot(item) for item in items]
        batches = cut_batches(built, self._hub.body_bytes)
        if items:
            await self._name_person()
        for batch in batches:
            await self._hub.send(slots.append_batch(self.thread, batch))

    async def pop_item(self) -> Item | None:
        """Strike the newest item out and return it; None from an empty session."""
        try:
            await self._check_person()
            async for index, item in self._iter_newest(1):
                struck = await self._hub.send(slots.strike(self.thread, [index]))
                # Another client may have been faster: go on to the item before.
                if struck["items"]:
                    return item
        except NotFound:
            pass
        return None

    async def clear_session(self) -> None:
        """Strike all items out that are in the session now."""
        with suppress(NotFound):
            await self._check_person()
            indexes = await list_indexes(self._hub, self.thread)
            await strike_slots(self._hub, self.thread, indexes)

    async def _check_person(self) -> None:
        """Raise Conflict for another person's thread, NotFound for no thread."""
        if self._user_id is not None:
            await self._hub.send(threads.get(self.thread))
            await self._name_person()

    async def _name_person(self) -> None:
        """Make the thread the person's, unless it is. Raises Conflict."""
        if self._user_id is not None:
            await self._hub.send(threads.put(self.thread, user_id=self._user_id))
            self._user_id = None

    async def _iter_newest(self, wanted: int | None) -> AsyncIterator[tuple[int, Item]]:
        """Yield (index, item), newest first. Erased items are left out."""
        size = MAX_BATCH if wanted is None or wanted < 0 else min(wanted, MAX_BATCH)
        listing = slots.list_all(self.thread, order="desc", limit=size)
        async for each in self._hub.each(listing):
            if not each["erased"]:
                yield each["index"], each["content"]


def _build_thread_name(session_id: str) -> str:
    """Build the thread's name: the id itself, escaped, where that can be a name."""
    can_begin = session_id[:1].isascii() and session_id[:1].isalnum()
    is_free = can_begin and not session_id.startswith("mh.")
    # No escaped id has a colon, so that no other session has the name.
    return build_name("" if is_free else "openai:", session_id)


def _build_slot(item: Any) -> slots.Slot:
    """Build the slot of an item: its own role, or that of whose work it is."""
    kind = item.get("type") or "message"
    role = _ROLES.get(item.get("role", ""))
    if role is None and kind == "message":
        role = "system"
    elif role is None:
        role = "tool" if kind.endswith("_output") else "assistant"
    to = "agent" if role == "user" else "user"
    return {
        "from": role,
        "to": to,
        "type": f"openai.{escape_name(kind)}",
        "content": item,
        "role": role,  # type: ignore[typeddict-item]  # one of the four
    }
