"""Threads half of the Agent Protocol: each is the thread that MemoryHubSaver writes.

A thread exists as long as it has its key `about`, which the saver makes as well. The
metadata is a key beside: sealed, and erased with the thread's person.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any, Final
from uuid import uuid4

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.compat.agent_states import (
    CHECKPOINT,
    StateReader,
    is_part,
    select_fields,
)
from memoryhub.compat.agent_store import parse_range
from memoryhub.compat.fields import (
    build_refusal,
    get_field,
    parse_number,
    require_fields,
)
from memoryhub.compat.langgraph_keys import allow_missing, iter_listed, list_keys
from memoryhub.compat.langgraph_names import (
    THREAD,
    THREADS,
    build_thread_name,
    parse_thread_name,
)
from memoryhub.compat.requests import CompatRequest

_ABOUT, _METADATA = "about", "about.metadata"
#: Most parts of the list of threads, and most ids, that a search reads.
_MOST_PARTS, _MOST_IDS = 2, 100
#: The hub's orders of threads by those of the protocol.
_ORDERS: Final = {
    "updated_at": "active",
    "state_updated_at": "active",
    "created_at": "created",
}


async def create_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Make a thread, by default with a new id."""
    body = require_fields(request.body, {"thread_id", "metadata", "if_exists"})
    thread_id = get_field(body, "thread_id", str, str(uuid4()))
    metadata = get_field(body, "metadata", dict, {})
    if_exists = body.get("if_exists", "raise")
    if not thread_id or if_exists not in ("raise", "do_nothing"):
        raise build_refusal("thread_id: a text; if_exists: raise or do_nothing")
    name = build_thread_name(thread_id)
    await api.call("PUT", build_path("threads", name), THREAD)
    about = {"thread_id": thread_id, "secret": secrets.token_hex(16)}
    sets = [_build_set(_ABOUT, about, None), _build_set(_METADATA, metadata, None)]
    try:
        await _change_keys(api, name, sets)
    except HubRefusedError as refused:
        if refused.status != 409 or if_exists == "raise":
            raise
    return await _get_with_values(api, thread_id)


async def get_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Read a thread and its newest values."""
    return await _get_with_values(api, request.parts[1])


async def update_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Merge metadata into that of the thread; a change at the same time is a 409."""
    body = require_fields(request.body, {"metadata"})
    metadata = get_field(body, "metadata", dict, {})
    thread_id = request.parts[1]
    name = build_thread_name(thread_id)
    stored = await _read_about(api, name)
    old = stored.get(_METADATA, {"value": {}, "seq": None})
    merged = {**old["value"], **metadata}
    await _change_keys(api, name, [_build_set(_METADATA, merged, old["seq"])])
    is_minimal = "return=minimal" in request.prefer
    return None if is_minimal else await _get_with_values(api, thread_id)


async def delete_thread(api: ApiCaller, request: CompatRequest) -> None:
    """Delete a thread's keys, as the saver does: the hub's history keeps them."""
    name = build_thread_name(request.parts[1])
    await _read_about(api, name)
    await api.call("POST", f"{build_path('threads', name)}/keys:clear", {})


async def copy_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Fork a thread, which stores nothing twice."""
    name, copied = build_thread_name(request.parts[1]), str(uuid4())
    await _read_about(api, name)
    body = {"thread": build_thread_name(copied), **THREAD}
    await api.call("POST", f"{build_path('threads', name)}:fork", body)
    return await _get_with_values(api, copied)


async def search_threads(api: ApiCaller, request: CompatRequest) -> Any:
    """List threads, latest activity first; values come if they are selected."""
    names = {"metadata", "ids", "status", "limit", "offset", "sort_by", "sort_order"}
    body = require_fields(request.body, names | {"select"})
    first, end = parse_range(body, 10)
    wanted = _parse_select(body)
    found = (await _find_threads(api, body, end))[first:end]
    if "values" in wanted:
        if len(found) > _MOST_IDS:
            raise build_refusal(f"limit: at most {_MOST_IDS} with values")
        spent = Counter[str]()
        for each in found:
            each["values"] = await _read_values(api, each["thread_id"], spent)
    return [select_fields(each, wanted) for each in found]


async def get_state(api: ApiCaller, request: CompatRequest) -> Any:
    """Read the newest state, or that of the checkpoint that the path or body names."""
    names = {"checkpoint", "subgraphs", "select"}
    body = require_fields({} if request.body is None else request.body, names)
    if body.get("subgraphs") or request.query.get("subgraphs") == "true":
        raise build_refusal("subgraphs: name the subgraph's checkpoint_ns")
    namespace, checkpoint_id = _parse_checkpoint(body)
    if request.method == "GET" and len(request.parts) > 3:
        checkpoint_id = request.parts[3]
    selected = [value for name, value in request.pairs if name == "select"]
    thread_id = request.parts[1]
    await _read_about(api, build_thread_name(thread_id))
    reader = StateReader(api, thread_id)
    found = await reader.list_states(namespace, 1, checkpoint_id=checkpoint_id)
    if not found and checkpoint_id is not None:
        raise HubRefusedError(404, "not_found: no checkpoint has this id")
    empty = {"values": dict[str, Any](), "next": list[str](), "checkpoint": None}
    state = found[0] if found else empty
    return select_fields(state, {*_parse_select(body), *selected})


async def list_history(api: ApiCaller, request: CompatRequest) -> Any:
    """List the states of a thread, newest first."""
    sent: dict[str, Any] = {**request.query}
    if "limit" in sent:
        sent["limit"] = parse_number(request.query, "limit", 10)
    names = {"limit", "before", "metadata", "checkpoint", "select"}
    body = require_fields(sent if request.method == "GET" else request.body, names)
    before = body.get("before", "")
    if isinstance(before, dict):
        before = before.get("checkpoint_id")
    if not isinstance(before, str):
        raise build_refusal("before: a checkpoint, or its id")
    namespace, checkpoint_id = _parse_checkpoint(body)
    metadata = get_field(body, "metadata", dict, {})
    _, limit = parse_range({"limit": body.get("limit", 10)}, 10)
    wanted = _parse_select(body)
    thread_id = request.parts[1]
    await _read_about(api, build_thread_name(thread_id))
    found = await StateReader(api, thread_id).list_states(
        namespace,
        limit,
        checkpoint_id=checkpoint_id,
        before=before,
        metadata=metadata,
    )
    return [select_fields(each, wanted) for each in found]


# Shared


def _parse_select(body: dict[str, Any]) -> set[str]:
    select = get_field(body, "select", list, [])
    if not all(isinstance(each, str) for each in select):
        raise build_refusal("select: names of fields")
    return {*select}


def _parse_checkpoint(body: dict[str, Any]) -> tuple[str, str | None]:
    """Return namespace and id of a checkpoint. Raises HubRefusedError."""
    checkpoint = require_fields(get_field(body, "checkpoint", dict, {}), CHECKPOINT)
    namespace = get_field(checkpoint, "checkpoint_ns", str, "")
    return namespace, get_field(checkpoint, "checkpoint_id", str, "") or None


async def _read_values(
    api: ApiCaller, thread_id: str, spent: Counter[str] | None = None
) -> Any:
    found = await StateReader(api, thread_id, spent).list_states("", 1)
    return found[0]["values"] if found else {}


async def _find_threads(
    api: ApiCaller, body: dict[str, Any], most: int
) -> list[dict[str, Any]]:
    """List up to `most` threads by id, status and metadata, which is a call each.

    Raises HubRefusedError if the first 400 threads, or 100 ids, are not enough.
    """
    metadata = get_field(body, "metadata", dict, {})
    ids = get_field(body, "ids", list, [])
    sort, order = body.get("sort_by", "updated_at"), body.get("sort_order", "desc")
    if (
        len(ids) > _MOST_IDS
        or not all(isinstance(each, str) and each for each in ids)
        or sort not in [*_ORDERS]
        or order not in ("asc", "desc")
    ):
        words = f"ids: at most {_MOST_IDS}; sort_by: {', '.join(_ORDERS)}"
        raise build_refusal(f"{words}; sort_order: asc or desc")
    found: list[dict[str, Any]] = []
    if body.get("status", "idle") != "idle":
        return found
    if ids:
        for each in {*ids}:
            with allow_missing(409, 410):
                found.append(await _get_thread(api, each))
        time = "created_at" if sort == "created_at" else "updated_at"
        found.sort(key=lambda each: str(each[time]), reverse=order == "desc")
        return [each for each in found if is_part(metadata, each["metadata"])]
    query = {"label.kind": "langgraph", "sort": _ORDERS[sort], "order": order}
    async for row in iter_listed(api, "/threads", parts=_MOST_PARTS, **query):
        if not row["thread"].startswith(THREADS):
            continue
        # A thread may be erased since it was listed, or be another client's.
        with allow_missing(409, 410):
            thread = _build_thread(row, await _read_about(api, row["thread"]))
            if is_part(metadata, thread["metadata"]):
                found.append(thread)
        if len(found) == most:
            break
    return found


async def _get_with_values(api: ApiCaller, thread_id: str) -> dict[str, Any]:
    """Return a thread, with its values unless they are broken or too large."""
    thread = await _get_thread(api, thread_id)
    try:
        thread["values"] = await _read_values(api, thread_id)
    except HubRefusedError as refused:
        if refused.status not in (409, 413):
            raise
    return thread


async def _get_thread(api: ApiCaller, thread_id: str) -> dict[str, Any]:
    """Return a thread without its values. Raises HubRefusedError."""
    name = build_thread_name(thread_id)
    row = await api.call("GET", build_path("threads", name))
    return _build_thread(row, await _read_about(api, name))


async def _read_about(api: ApiCaller, name: str) -> dict[str, Any]:
    """Return the keys about a thread by name. Raises HubRefusedError without any."""
    found = {each["key"]: each for each in await list_keys(api, name, f"{_ABOUT}*")}
    if _ABOUT not in found:
        raise HubRefusedError(404, "not_found: no thread has this id")
    if not all(isinstance(each["value"], dict) for each in found.values()):
        words = "bad_thread: a key of this thread is not as clients write it"
        raise HubRefusedError(409, words)
    return found


def _build_thread(row: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    thread_id = parse_thread_name(row["thread"])
    if thread_id is None:
        thread_id = about[_ABOUT]["value"].get("thread_id")
    metadata = about[_METADATA]["value"] if _METADATA in about else {}
    return {
        "thread_id": thread_id,
        "created_at": row["created_at"],
        "updated_at": row["last_event_at"],
        "metadata": metadata,
        "status": "idle",
    }


def _build_set(key: str, value: Any, seq: int | None) -> dict[str, Any]:
    """Build a change that is refused if the key is no longer of this seq."""
    condition = {"if_none_match": "*"} if seq is None else {"if_match": seq}
    return {"op": "set", "key": key, "value": value, **condition}


async def _change_keys(api: ApiCaller, name: str, items: list[dict[str, Any]]) -> None:
    await api.call(
        "POST", f"{build_path('threads', name)}/keys:batch", {"items": items}
    )
