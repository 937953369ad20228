"""Memories of mem0's client as pages of the hub, and threads that hold them.

A thread holds the memories of one combination of person, agent and run. The id of a
memory is `thread~page`: `~` needs no escape in a path, and is in no name.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path

#: Ids that a memory may belong to, and the level of a thread's scope that holds each.
ENTITIES: Final = {"user_id": None, "agent_id": "agent_instance", "run_id": "session"}
#: Label by which threads are found again, and the prefix of their names.
AGENT_TYPE: Final = "mem0"
#: Type of the pages that are memories, as of those that MCP's `remember` makes.
PAGE_TYPE: Final = "claim"
#: Member of a page's metadata that holds what the client sent beside the text.
META: Final = "mem0"
#: Label of a thread: the entities that it was made for.
_MADE_FOR = "entities"
_NOBODY = "nobody"
#: Most items of a batch and of a part of a list.
BATCH: Final = 200

Entities = Mapping[str, str]


class MemoryPlace(NamedTuple):
    """Place of a memory."""

    thread: str
    page: str

    @classmethod
    def from_id(cls, memory: str) -> MemoryPlace:
        """Parse a memory's id. Raises HubRefusedError for what is no id of one."""
        thread, _, page = memory.partition("~")
        if not (thread and page):
            raise HubRefusedError(404, "not_found: no memory has this id")
        return cls(thread, page)

    @property
    def path(self) -> str:
        return build_path("threads", self.thread, "pages", self.page)

    def to_id(self) -> str:
        return f"{self.thread}~{self.page}"


async def list_threads(
    api: ApiCaller, entities: Entities, *, exact: bool = False
) -> list[str]:
    """List the threads of these entities, newest activity first.

    `exact` leaves out closed threads, and those of further entities.
    """
    wanted: dict[str, Any] = {"agent_type": AGENT_TYPE, "limit": BATCH}
    wanted |= _build_scope(entities)
    if "user_id" in entities:
        wanted["user_id"] = entities["user_id"]
    if exact:
        made_for = {_MADE_FOR: _name_entities(entities)}
        wanted |= {"labels": made_for, "status": "open"}
    found: list[str] = []
    after: str | None = None
    while True:
        more = {"after": after} if after else {}
        part = await api.call("POST", "/threads:search", wanted | more)
        found += [each["thread"] for each in part["items"]]
        after = part["next"]
        if after is None:
            return found


async def ensure_thread(api: ApiCaller, entities: Entities) -> str:
    """Return the thread that new memories of exactly these entities go to."""
    if threads := await list_threads(api, entities, exact=True):
        return threads[-1]
    name = f"{AGENT_TYPE}.{uuid4()}"
    body: dict[str, Any] = {
        "scope": {"agent_type": AGENT_TYPE, **_build_scope(entities)},
        "labels": {_MADE_FOR: _name_entities(entities)},
    }
    if "user_id" in entities:
        body["user_id"] = entities["user_id"]
    await api.call("PUT", build_path("threads", name), body)
    return name


async def list_pages(api: ApiCaller, thread: str) -> list[tuple[MemoryPlace, int]]:
    """List the memories of a thread, newest first, with the seq of each text."""
    path = f"{build_path('threads', thread)}/pages?type={PAGE_TYPE}&limit={BATCH}"
    found: list[tuple[MemoryPlace, int]] = []
    after = ""
    while True:
        part = await api.call("GET", f"{path}{after}")
        found += [
            (MemoryPlace(thread, each["page_id"]), each["seq"])
            for each in part["items"]
        ]
        if part["next"] is None:
            return found[::-1]
        after = f"&{urlencode({'after': part['next']})}"


async def strike_exchange(
    api: ApiCaller, place: MemoryPlace, sources: Collection[str]
) -> None:
    """Strike out the messages that a memory was made from, each with its replies.

    A message of another memory that stands is left. For each message two requests, and
    one for each 200 events since the message.
    """
    for source in sources:
        index = source.removeprefix("slot-")
        if source == index or not index.isdigit():
            continue
        path = f"{build_path('threads', place.thread)}/slots"
        query = f"start={index}&limit={BATCH}&content=none"
        first, *later = (await api.call("GET", f"{path}?{query}"))["items"] or [None]
        # Struck already, or in the journal of an ancestor, which a fork never changes.
        if not first or first["index"] != int(index) or first["inherited"]:
            continue
        made = await _list_made_from(api, place.thread, source, first["seq"])
        if made <= {place.page}:
            replies = itertools.takewhile(lambda each: each["from"] != "user", later)
            await _strike(api, path, [first, *replies])


async def strike_all(api: ApiCaller, thread: str) -> None:
    """Strike out a thread's messages. Two requests for each 200 of them."""
    path = f"{build_path('threads', thread)}/slots"
    after: str | None = ""
    while after is not None:
        part = await api.call("GET", f"{path}?limit={BATCH}&content=none{after}")
        await _strike(
            api, path, [each for each in part["items"] if not each["inherited"]]
        )
        after = part["next"] and f"&{urlencode({'after': part['next']})}"


async def _strike(api: ApiCaller, path: str, slots: list[dict[str, Any]]) -> None:
    if slots:
        indexes = [each["index"] for each in slots]
        await api.call("POST", f"{path}:strike", {"indexes": indexes})


async def _list_made_from(
    api: ApiCaller, thread: str, source: str, seq: int
) -> set[str]:
    """List the memories that stand and were made from a page, after a seq."""
    path = f"{build_path('threads', thread)}/events?content=none&limit={BATCH}"
    made: set[str] = set()
    after: str | None = str(seq)
    while after is not None:
        part = await api.call("GET", f"{path}&after={after}")
        for event in part["items"]:
            body = event["body"]
            if event["type"] == "page.deleted":
                made.discard(body["page_id"])
            elif body.get("type") == PAGE_TYPE and body.get("provenance") is not None:
                made.discard(body["page_id"])
                made |= {body["page_id"]} if source in body["provenance"] else set()
        after = part["next"]
    return made


async def read_events(
    api: ApiCaller, thread: str, seqs: Collection[int]
) -> dict[int, dict[str, Any]]:
    """Read events of a thread by seq, with their contents; neighbours come together."""
    found: dict[int, dict[str, Any]] = {}
    wanted = sorted(seqs)
    path = f"{build_path('threads', thread)}/events"
    while wanted:
        limit = min(BATCH, wanted[-1] - wanted[0] + 1)
        part = await api.call("GET", f"{path}?after={wanted[0] - 1}&limit={limit}")
        read = {each["seq"]: each for each in part["items"]}
        found |= {seq: read[seq] for seq in wanted if seq in read}
        last = max(read, default=wanted[0])
        wanted = [seq for seq in wanted if seq > last]
    return found


def build_memory(
    place: MemoryPlace, event: Mapping[str, Any], entities: Entities
) -> dict[str, Any] | None:
    """Build a memory from the event that has its text; None if that was erased.

    `entities` are those that were asked for, where the memory has none of its own.
    """
    if not isinstance(payload := event.get("payload"), dict):
        return None
    sidecar = get_sidecar(payload)
    return {
        "id": place.to_id(),
        "memory": get_text(payload),
        **{name: sidecar.get(name, entities.get(name)) for name in ENTITIES},
        "metadata": sidecar.get("metadata") or {},
        "categories": [],
        "created_at": sidecar.get("created_at", event["at"]),
        "updated_at": event["at"],
    }


def get_sidecar(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the client sent beside a text; pages of other agents have none."""
    found = (payload.get("meta") or {}).get(META)
    return found if isinstance(found, dict) else {}


def get_text(payload: Mapping[str, Any]) -> str:
    """Return the text of a page's content."""
    content = payload.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else str(content)


def _build_scope(entities: Entities) -> dict[str, str]:
    return {
        level: entities[name]
        for name, level in ENTITIES.items()
        if level is not None and name in entities
    }


def _name_entities(entities: Entities) -> str:
    return ".".join(name for name in ENTITIES if name in entities) or _NOBODY
