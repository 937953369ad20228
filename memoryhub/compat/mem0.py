"""Routes of mem0's client (2.2.1), each a few calls of the agents' API.

A memory is a page; `add` with `infer` also appends the messages, for the hub to learn
from later. Not expressed: facts extracted while adding, categories, and expiry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from urllib.parse import urlencode

from memoryhub.api.errors import MethodError
from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_http, build_path
from memoryhub.api.http.gate import Application
from memoryhub.compat.fields import (
    ROLES,
    build_refusal,
    get_field,
    parse_entities,
    parse_messages,
    parse_number,
    parse_query_filters,
    require_fields,
)
from memoryhub.compat.memories import (
    BATCH,
    ENTITIES,
    META,
    PAGE_TYPE,
    Entities,
    MemoryPlace,
    build_memory,
    ensure_thread,
    get_sidecar,
    get_text,
    list_pages,
    list_threads,
    read_events,
    strike_all,
    strike_exchange,
)
from memoryhub.compat.requests import MEM0, CompatAnswer, CompatRequest

#: Memories of a search, the most of them, and memories of a part of a list, by default.
TOP_K, MOST_HITS, PAGE_SIZE = 10, 50, 100
#: Attempts of an update that others' writes to the thread overtake.
UPDATES = 20
#: Words of a query that are searched for; mem0's clients send whole messages.
QUERY_WORDS, QUERY_CHARACTERS = 60, 900

#: Fields of bodies. Those that tell mem0's versions something mean nothing here; any
#: other field would change what is kept or found, and is refused.
_SHARED = frozenset({*ENTITIES, "filters", "version", "output_format"})
_ADD = frozenset({"messages", "metadata", "infer", "async_mode"})
_SEARCH = frozenset(
    {
        *("query", "top_k", "threshold", "rerank", "fields", "keyword_search"),
        *("latest_only", "show_expired"),
    }
)
_LIST = frozenset({"latest_only", "show_expired"})
#: Options of mem0 that are refused once they ask for something; libraries send them
#: switched off or empty.
_OPTIONS = frozenset(
    {
        *("custom_categories", "custom_instructions", "agent_custom_instructions"),
        *("includes", "excludes", "enable_graph", "immutable"),
    }
)
_UPDATE = frozenset({"text", "metadata"})
#: Events of a page's history, as mem0 names them.
_HISTORY = {"page.created": "ADD", "page.updated": "UPDATE", "page.deleted": "DELETE"}


class Mem0Server:
    """Server of the client's routes, over the API in this process."""

    def __init__(self, api: Application) -> None:
        self._http = build_http(api)

    async def answer(self, request: CompatRequest) -> CompatAnswer:
        """Answer an admitted request; what the API refuses keeps status and words."""
        serve = _find_route(request)
        if isinstance(serve, CompatAnswer):
            return serve
        api = ApiCaller(
            http=self._http,
            authorization=request.authorization,
            person=request.person,
        )
        try:
            body = await serve(api, request)
        except HubRefusedError as refused:
            again = refused.retry_after
            headers = {"retry-after": again} if again else {}
            words = str(refused)
            problem = {"detail": words, "error": words.partition(":")[0]}
            return CompatAnswer(refused.status, problem, headers)
        return CompatAnswer(200, body, {})


async def check_key(_: ApiCaller, request: CompatRequest) -> Any:
    """Answer the client's first request: the key is good, and of which project.

    Without an organisation and a project the client refuses to be constructed.
    """
    named = {"org_id": "memoryhub", "project_id": request.agent.slug}
    return {"status": "ok", **named, "user_email": None}


async def add_memories(api: ApiCaller, request: CompatRequest) -> Any:
    """Keep each message as a memory, word for word.

    With `infer`, which is mem0's default, only the user's messages are memories, and
    all are appended to the thread.
    """
    body = _require_fields(request.body, _SHARED | _ADD)
    entities = _parse_entities(body, request)
    metadata = get_field(body, "metadata", dict, {})
    infer = get_field(body, "infer", bool, default=True)
    messages = parse_messages(get_field(body, "messages", list, None))
    path = build_path("threads", await ensure_thread(api, entities))
    sources: list[list[str]] = [[] for _ in messages]
    if infer:
        slots = [_build_slot(*each) for each in messages]
        written = await _send_batches(api, f"{path}/slots:batch", slots)
        sources = [[each["page_id"]] for each in written]
    sidecar = {**entities, **({"metadata": metadata} if metadata else {})}
    pages = [
        {**_build_page(text, sidecar), "provenance": source}
        for (role, text), source in zip(messages, sources, strict=True)
        if role == "user" or not infer
    ]
    made = await _send_batches(api, f"{path}/pages:batch", pages, by="model")
    return {
        "results": [
            {
                "id": MemoryPlace(each["thread"], each["page_id"]).to_id(),
                "memory": page["content"]["text"],
                "event": "ADD",
                "metadata": metadata,
            }
            for page, each in zip(pages, made, strict=True)
        ]
    }


async def search_memories(api: ApiCaller, request: CompatRequest) -> Any:
    """Find memories by the hub's recall: of a person, in all of the person's threads.

    With an agent or a run, in the threads of these. BM25's scores s become s / (1 + s).
    """
    body = _require_fields(request.body, _SHARED | _SEARCH)
    entities = _parse_entities(body, request)
    top_k = get_field(body, "top_k", int, TOP_K)
    threshold = get_field(body, "threshold", (int, float), 0.0)
    words = get_field(body, "query", str, None).replace(":", " ").replace('"', " ")
    query = " ".join(words.split()[:QUERY_WORDS])[:QUERY_CHARACTERS]
    if not query or top_k < 1:
        raise build_refusal("query: a text; top_k: 1 or more")
    wanted = {
        "query": f"{query} type:{PAGE_TYPE}",
        "kinds": ["page"],
        "limit": min(top_k, MOST_HITS),
    }
    hits: list[dict[str, Any]] = []
    for path in await _list_search_paths(api, entities, request):
        hits += (await api.call("POST", path, wanted))["items"]
    hits.sort(key=lambda hit: -hit["score"])
    results = []
    for hit in hits[:top_k]:
        score = hit["score"] / (1 + hit["score"])
        events = await read_events(api, hit["thread"], [hit["seq"]])
        place = MemoryPlace(hit["thread"], hit["page"])
        found = [build_memory(place, event, entities) for event in events.values()]
        if score >= threshold:
            results += [{**each, "score": round(score, 4)} for each in found if each]
    return {"results": results}


async def list_memories(api: ApiCaller, request: CompatRequest) -> Any:
    """List memories that came in by this route, newest first within a thread."""
    body = _require_fields(request.body, _SHARED | _LIST)
    entities = _parse_entities(body, request)
    number = parse_number(request.query, "page", 1)
    size = parse_number(request.query, "page_size", PAGE_SIZE)
    listed = []
    for thread in await list_threads(api, entities):
        listed += await list_pages(api, thread)
    part = listed[(number - 1) * size : number * size]
    seqs: dict[str, list[int]] = {}
    for place, seq in part:
        seqs.setdefault(place.thread, []).append(seq)
    events = {each: await read_events(api, each, seqs[each]) for each in seqs}
    found = (
        build_memory(place, events[place.thread][seq], entities)
        for place, seq in part
        if seq in events[place.thread]
    )

    def build_link(page: int, *, there: bool) -> str | None:
        query = urlencode({"page": page, "page_size": size})
        return f"{MEM0.prefix}v3/memories/?{query}" if there else None

    return {
        "count": len(listed),
        "next": build_link(number + 1, there=number * size < len(listed)),
        "previous": build_link(number - 1, there=number > 1),
        "results": [each for each in found if each],
    }


async def get_memory(api: ApiCaller, request: CompatRequest) -> Any:
    """Read a memory."""
    return (await _read_memory(api, request.parts[2]))[0]


async def update_memory(api: ApiCaller, request: CompatRequest) -> Any:
    """Write a memory's next version; metadata is replaced, if any is sent.

    Another text strikes out the messages that the memory was made from.
    """
    body = require_fields(request.body, _UPDATE | {"expiration_date"})
    if "expiration_date" in body:
        raise build_refusal("expiration_date: memories do not expire")
    for attempt in range(UPDATES):
        try:
            return await _try_update(api, request.parts[2], body)
        except HubRefusedError as refused:
            if refused.code != "stale" or attempt == UPDATES - 1:
                raise
    raise AssertionError("no attempt was left")


async def _try_update(api: ApiCaller, named: str, body: dict[str, Any]) -> Any:
    """Write the next version unless the thread has moved since it was read.

    Raises HubRefusedError `stale`, also after it has struck messages out itself.
    """
    place = MemoryPlace.from_id(named)
    head = (await api.call("GET", build_path("threads", place.thread)))["seq"]
    memory, page = await _read_memory(api, named)
    if not body:
        return memory
    if page["modality"] != "text":
        raise build_refusal("this memory is not a text: change it by the hub's API")
    metadata = get_field(body, "metadata", dict, memory["metadata"])
    text = get_field(body, "text", str, memory["memory"])
    if not text.strip():
        raise build_refusal("text: not empty")
    sidecar = {name: memory[name] for name in (*ENTITIES, "created_at") if memory[name]}
    sidecar |= {"metadata": metadata} if metadata else {}
    same = {name: page[name] for name in ("type", "importance", "hint")}
    sources = page["provenance"]
    page = {**_build_page(text, sidecar), **same, "by": "model"}
    if text != memory["memory"]:
        await strike_exchange(api, place, sources)
    await _call_memory(api, "PUT", place.path, page, if_match=head)
    return (await _read_memory(api, named))[0]


async def delete_memory(api: ApiCaller, request: CompatRequest) -> Any:
    """Delete a memory as MCP's `forget` does, and strike out what it was made from.

    The strike comes first, so that a request which broke off can be sent again.
    """
    place = MemoryPlace.from_id(request.parts[2])
    page = await _call_memory(api, "GET", place.path)
    await strike_exchange(api, place, page["provenance"])
    await _call_memory(api, "DELETE", place.path)
    return {"message": "Memory deleted successfully!"}


async def delete_memories(api: ApiCaller, request: CompatRequest) -> Any:
    """Delete all memories of a person, an agent or a run that came in by this route.

    The messages that came with the memories are struck out.
    """
    sent = require_fields(request.query, {*ENTITIES, "filters"})
    if "filters" in sent:
        sent = {**sent, "filters": parse_query_filters(sent["filters"])}
    if not any(sent.values()):
        raise build_refusal(
            "an unconditional DELETE is refused: name a user_id, agent_id or run_id"
        )
    for thread in await list_threads(api, _parse_entities(sent, request)):
        await strike_all(api, thread)
        for place, _ in await list_pages(api, thread):
            try:
                await _call_memory(api, "DELETE", place.path)
            except HubRefusedError as refused:
                # Somebody else may have been faster.
                if refused.status != 404:
                    raise
    return {"message": "Memories deleted successfully!"}


async def list_history(api: ApiCaller, request: CompatRequest) -> Any:
    """List the versions of a memory, oldest first; a deleted one has lost its texts."""
    place = MemoryPlace.from_id(request.parts[2])
    steps: list[dict[str, Any]] = []
    more = ""
    while True:
        path = f"{place.path}/history?limit={BATCH}{more}"
        part = await api.call("GET", path)
        steps += [each for each in part["items"] if each["event"] in _HISTORY]
        if part["next"] is None:
            break
        more = f"&{urlencode({'after': part['next']})}"
    events = await read_events(api, place.thread, [each["seq"] for each in steps])
    found, old = [], None
    for number, step in enumerate(steps):
        payload = events.get(step["seq"], {}).get("payload") or {}
        if step["event"] == "page.updated" and "content" not in payload:
            continue
        new = get_text(payload) if "content" in payload else None
        sidecar = get_sidecar(payload)
        found.append(
            {
                "id": f"{place.to_id()}~{number}",
                "memory_id": place.to_id(),
                "event": _HISTORY[step["event"]],
                "old_memory": old,
                "new_memory": new,
                "user_id": sidecar.get("user_id"),
                "metadata": sidecar.get("metadata") or {},
                "created_at": step["at"],
                "updated_at": step["at"],
            }
        )
        old = new
    return found


# Shared


def _parse_entities(body: dict[str, Any], request: CompatRequest) -> dict[str, str]:
    return parse_entities(body, is_bound=request.agent.bound is not None)


def _build_page(text: str, sidecar: dict[str, Any]) -> dict[str, Any]:
    """Build a page as MCP's `remember` does, with what the client sent beside."""
    return {
        "type": PAGE_TYPE,
        "modality": "text",
        "content": {"text": text},
        "meta": {META: sidecar},
    }


def _build_slot(role: str, text: str) -> dict[str, Any]:
    return {
        "from": role,
        "to": ROLES[role],
        "type": f"chat.{role}",
        "role": role,
        "content": {"role": role, "content": text},
    }


async def _send_batches(
    api: ApiCaller, path: str, items: list[dict[str, Any]], **more: str
) -> list[dict[str, Any]]:
    """Write items in order, each batch whole or not at all; return what was made."""
    made: list[dict[str, Any]] = []
    for start in range(0, len(items), BATCH):
        body = {"items": items[start : start + BATCH], **more}
        made += (await api.call("POST", path, body))["items"]
    return made


async def _list_search_paths(
    api: ApiCaller, entities: Entities, request: CompatRequest
) -> list[str]:
    """List the routes to search: the person's recall, or threads of agent and run."""
    if not {*entities} <= {"user_id"}:
        threads = await list_threads(api, entities)
        return [f"{build_path('threads', each)}/search" for each in threads]
    subject = request.agent.bound
    if "user_id" in entities:
        try:
            person = {"user_id": entities["user_id"]}
            subject = (await api.call("POST", "/subjects:resolve", person))["id"]
        except HubRefusedError as refused:
            if refused.status != 404:
                raise
            return []
    return [f"{build_path('subjects', str(subject))}/recall"]


async def _read_memory(
    api: ApiCaller, memory: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a memory and its page. Raises HubRefusedError."""
    place = MemoryPlace.from_id(memory)
    page = await _call_memory(api, "GET", place.path)
    for event in (await read_events(api, place.thread, [page["seq"]])).values():
        if found := build_memory(place, event, {}):
            return found, page
    raise HubRefusedError(404, "not_found: the text of this memory was erased")


def _require_fields(body: Any, served: AbstractSet[str]) -> dict[str, Any]:
    """Return the fields that ask for something. Raises HubRefusedError."""
    if isinstance(body, Mapping):
        off = {name for name in _OPTIONS & {*body} if not body[name]}
        body = {name: body[name] for name in body if name not in off}
    return require_fields(body, served)


async def _call_memory(
    api: ApiCaller, method: str, path: str, body: Any = None, **conditions: int
) -> Any:
    """Call the API for one page; to mem0's client a deleted page is not found."""
    try:
        return await api.call(method, path, body, **conditions)
    except HubRefusedError as refused:
        if refused.status == 410 and str(refused).startswith("page_erased"):
            raise HubRefusedError(404, str(refused)) from None
        raise


Operation = Callable[[ApiCaller, CompatRequest], Awaitable[Any]]
#: Operations by path, where `*` is an id, and by method.
_ROUTES: Final[dict[tuple[str, ...], dict[str, Operation]]] = {
    ("v1", "ping"): {"GET": check_key},
    ("v3", "memories", "add"): {"POST": add_memories},
    ("v3", "memories", "search"): {"POST": search_memories},
    ("v3", "memories"): {"POST": list_memories},
    ("v1", "memories"): {"DELETE": delete_memories},
    ("v1", "memories", "*"): {
        "GET": get_memory,
        "PUT": update_memory,
        "DELETE": delete_memory,
    },
    ("v1", "memories", "*", "history"): {"GET": list_history},
}


def _find_route(request: CompatRequest) -> Operation | CompatAnswer:
    """Return the operation, or the answer that there is none."""
    is_one = request.parts[:2] == ("v1", "memories") and len(request.parts) > 2
    path = (*request.parts[:2], "*", *request.parts[3:]) if is_one else request.parts
    if (methods := _ROUTES.get(path)) is None:
        words = "not_found: of mem0's API the hub serves only memories; it erases a "
        problem = {"detail": f"{words}person by its own API", "error": "not_found"}
        return CompatAnswer(404, problem, {})
    if (operation := methods.get(request.method)) is None:
        return MEM0.refuse(MethodError())
    return operation
