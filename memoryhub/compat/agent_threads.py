"""Threads half of the Agent Protocol: each is the thread that MemoryHubSaver writes.

A thread exists as long as it has its key `about`, which the saver makes as well. The
metadata is a key beside: sealed, and erased with the thread's person.
"""

from __future__ import annotations

import secrets
from typing import Any, Final
from uuid import uuid4

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.compat.agent_states import CHECKPOINT, StateReader, select_fields
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
_MOST_ATTEMPTS = 5
_STATUS: Final = ("idle", "busy", "interrupted", "error")
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
    return await _get_thread(api, thread_id)


async def get_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Read a thread and its newest values."""
    return await _get_thread(api, request.parts[1])


async def update_thread(api: ApiCaller, request: CompatRequest) -> Any:
    """Merge metadata into that of the thread."""
    body = require_fields(request.body, {"metadata"})
    metadata = get_field(body, "metadata", dict, {})
    thread_id = request.parts[1]
    name = build_thread_name(thread_id)
    for left in reversed(range(_MOST_ATTEMPTS)):
        stored = await _read_about(api, name)
        old = stored.get(_METADATA, {"value": {}, "seq": None})
        merged = {**old["value"], **metadata}
        try:
            await _change_keys(api, name, [_build_set(_METADATA, merged, old["seq"])])
        except HubRefusedError as refused:
            if refused.status != 409 or not left:
                raise
        else:
            break
    is_minimal = "return=minimal" in request.prefer
    return None if is_minimal else await _get_thread(api, thread_id)


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
    return await _get_thread(api, copied)


async def search_threads(api: ApiCaller, request: CompatRequest) -> Any:
    """List threads, latest activity first; values come if they are selected."""
    names = {"metadata", "ids", "status", "limit", "offset", "sort_by", "sort_order"}
    body = require_fields(request.body, names | {"select"})
    first, end = parse_range(body, 10)
    wanted = _parse_select(body)
    found = (await _find_threads(api, body, end))[first:end]
    if "values" in wanted:
        for each in found:
            each["values"] = await _read_values(api, each)
    return [select_fields(each, wanted) for each in found]


async def count_threads(api: ApiCaller, request: CompatRequest) -> Any:
    """Count the threads that a search would find."""
    body = require_fields(request.body, {"metadata", "status"})
    return len(await _find_threads(api, body, None))


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
    thread = await _find_thread(api, request.parts[1])
    reader = _build_reader(api, thread)
    found = await reader.list_states(
        namespace, 1, is_wanted=lambda each: checkpoint_id in (None, each)
    )
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
        before = before.get("configurable", before)
        before = before.get("checkpoint_id") if isinstance(before, dict) else None
    if not isinstance(before, str):
        raise build_refusal("before: a checkpoint, or its id")
    namespace, checkpoint_id = _parse_checkpoint(body)
    metadata = get_field(body, "metadata", dict, {})
    _, limit = parse_range({"limit": body.get("limit", 10)}, 10)
    wanted = _parse_select(body)
    thread = await _find_thread(api, request.parts[1])
    found = await _build_reader(api, thread).list_states(
        namespace,
        limit,
        is_wanted=lambda each: (
            checkpoint_id in (None, each) and (not before or each < before)
        ),
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


def _build_reader(api: ApiCaller, thread: dict[str, Any]) -> StateReader:
    thread_id = thread["thread_id"]
    return StateReader(api, build_thread_name(thread_id), thread_id)


async def _read_values(api: ApiCaller, thread: dict[str, Any]) -> Any:
    found = await _build_reader(api, thread).list_states("", 1)
    return found[0]["values"] if found else {}


async def _find_threads(
    api: ApiCaller, body: dict[str, Any], most: int | None
) -> list[dict[str, Any]]:
    """List threads by id, status and metadata, up to so many."""
    metadata = get_field(body, "metadata", dict, {})
    status = body.get("status", "idle")
    ids = get_field(body, "ids", list, [])
    sort, order = body.get("sort_by", "updated_at"), body.get("sort_order", "desc")
    if (
        status not in _STATUS
        or not all(isinstance(each, str) and each for each in ids)
        or sort not in [*_ORDERS]
        or order not in ("asc", "desc")
    ):
        raise build_refusal(f"status: {', '.join(_STATUS)}; sort_by: {[*_ORDERS]}")
    found: list[dict[str, Any]] = []
    if status != "idle":
        return found
    query = {"label.kind": "langgraph", "sort": _ORDERS[sort], "order": order}
    names = {build_thread_name(each) for each in ids}
    async for row in iter_listed(api, "/threads", **query):
        if most is not None and len(found) >= most:
            break
        name = row["thread"]
        if not name.startswith(THREADS) or (names and name not in names):
            continue
        with allow_missing():
            thread = _build_thread(row, await _read_about(api, name))
            held = thread["metadata"]
            if all(key in held and held[key] == metadata[key] for key in metadata):
                found.append(thread)
    return found


async def _get_thread(api: ApiCaller, thread_id: str) -> dict[str, Any]:
    """Return a thread, with its values unless they are broken or too large."""
    thread = await _find_thread(api, thread_id)
    try:
        thread["values"] = await _read_values(api, thread)
    except HubRefusedError as refused:
        if refused.status not in (409, 413):
            raise
    return thread


async def _find_thread(api: ApiCaller, thread_id: str) -> dict[str, Any]:
    """Return a thread without its values. Raises HubRefusedError."""
    name = build_thread_name(thread_id)
    row = await api.call("GET", build_path("threads", name))
    return _build_thread(row, await _read_about(api, name))


async def _read_about(api: ApiCaller, name: str) -> dict[str, Any]:
    """Return the keys about a thread by name. Raises HubRefusedError without any."""
    found = {each["key"]: each for each in await list_keys(api, name, f"{_ABOUT}*")}
    if _ABOUT not in found:
        raise HubRefusedError(404, "not_found: no thread has this id")
    return found


def _build_thread(row: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    thread_id = parse_thread_name(row["thread"])
    if thread_id is None:
        thread_id = about[_ABOUT]["value"]["thread_id"]
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
