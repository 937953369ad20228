"""States of a thread: checkpoints of MemoryHubSaver, read without LangGraph.

A value in LangGraph's own encoding comes as `__serde__`, its kind, and `base32`, the
stored bytes: the server loads no class of a graph. Tasks, interrupts and values by
default follow from the graph, which is not here: no state has them. `next` is left out
where the stored triggers of nodes do not tell it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.compat.langgraph_keys import (
    BATCH,
    allow_missing,
    iter_listed,
    list_keys,
)
from memoryhub.compat.langgraph_names import build_checkpoint_glob, build_thread_name

Record = Mapping[str, Any]
#: Most characters and nodes of an answer's states.
_MOST_CHARACTERS, _MOST_NODES = 32 * 2**20, 200_000
#: Characters of a reference that are its channel's, and the most of a channel's texts
#: that are read one by one.
_CHANNEL, _MOST_READS = 4, 20
#: Triggers of nodes, and channels that hold triggers which only the graph can tell.
_NEXT, _JOIN, _OTHERS = "branch:to:", "join:", ("__start__", "__pregel_tasks")
#: Fields by which a client names a checkpoint.
CHECKPOINT: Final = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}
)


class StateReader:
    """Reader of the states of one thread, for one answer."""

    def __init__(
        self, api: ApiCaller, thread_id: str, spent: Counter[str] | None = None
    ) -> None:
        self._api, self._thread_id = api, thread_id
        #: Characters and nodes of the answer so far, which may have other threads.
        self._spent = Counter() if spent is None else spent
        self._name = build_thread_name(thread_id)
        self._texts: dict[str, str] = {}
        self._reads = Counter[str]()

    async def list_states(
        self,
        namespace: str,
        limit: int,
        *,
        checkpoint_id: str | None = None,
        before: str = "",
        metadata: Record | None = None,
    ) -> list[dict[str, Any]]:
        """List states, newest first. Raises HubRefusedError for broken or huge ones."""
        found: list[dict[str, Any]] = []
        path = f"{build_path('threads', self._name)}/keys"
        query: dict[str, Any] = {"glob": build_checkpoint_glob(namespace)}
        if not (checkpoint_id or before or metadata):
            query["limit"] = min(limit, BATCH)
        try:
            async for item in iter_listed(self._api, path, values="true", **query):
                record = await self._open_record(item["value"])
                if checkpoint_id not in (None, record["id"]):
                    continue
                if before and record["id"] >= before:
                    continue
                (noted,) = await self._open_nodes([record["metadata"]])
                if is_part(metadata or {}, noted):
                    found.append(await self._build_state(record, noted))
                if len(found) == limit:
                    break
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            words = "bad_checkpoint: a key of this thread is no checkpoint's"
            raise HubRefusedError(409, words) from None
        return found

    async def _open_record(self, value: Record) -> Record:
        if "record" not in value:
            return value
        (text,) = await self._open_nodes([value["record"]])
        found: Record = json.loads(text)
        return found

    async def _build_state(self, record: Record, metadata: Any) -> dict[str, Any]:
        channels = {
            name: node
            for name, node in record["values"].items()
            if not name.startswith(("__", "branch:", "join:"))
        }
        (checkpoint, *values) = await self._open_nodes(
            [record["checkpoint"], *channels.values()]
        )
        place = {"thread_id": self._thread_id, "checkpoint_ns": record["ns"]}
        parent = record["parent"]
        return {
            "values": dict(zip(channels, values, strict=True)),
            **_build_next(record["values"], checkpoint),
            "checkpoint": {**place, "checkpoint_id": record["id"]},
            "metadata": metadata,
            "created_at": checkpoint["ts"],
            "parent_checkpoint": {**place, "checkpoint_id": parent} if parent else None,
        }

    # Nodes, as the client's `langgraph_nodes` describes them

    async def _open_nodes(self, nodes: list[Any]) -> list[Any]:
        wanted, seen = nodes, set[str]()
        while wanted:
            leaves = [leaf for node in wanted for leaf in _list_leaves(node)]
            await self._fetch_texts(
                {ref for leaf in leaves for ref in _list_references(leaf)}
            )
            chunks = {leaf["chunk"] for leaf in leaves if _is_chunk(leaf)} - seen
            seen |= chunks
            wanted = [{"list": json.loads(self._texts[each])} for each in chunks]
        return [self._decode(node) for node in nodes]

    async def _fetch_texts(self, refs: set[str]) -> None:
        """Read texts: a few by name, many by their channel, so that calls are few."""
        path = build_path("threads", self._name, "keys")
        missing = refs - self._texts.keys()
        for channel in {ref[:_CHANNEL] for ref in missing}:
            wanted = {ref for ref in missing if ref.startswith(channel)}
            self._reads[channel] += len(wanted)
            if self._reads[channel] <= _MOST_READS:
                for ref in wanted:
                    # A missing text is a broken checkpoint, not a missing thread.
                    with allow_missing():
                        text = await self._api.call(
                            "GET", f"{path}{build_path('v.' + ref)}"
                        )
                        self._texts[ref] = text["value"]
            elif channel.isalnum():
                for item in await list_keys(self._api, self._name, f"v.{channel}*"):
                    self._texts[item["key"].removeprefix("v.")] = item["value"]

    def _decode(self, node: Any) -> Any:
        if isinstance(node, dict) and "list" in node:
            return [each for leaf in node["list"] for each in self._decode_leaf(leaf)]
        (value,) = self._decode_leaf(node)
        return value

    def _decode_leaf(self, leaf: Any) -> Iterator[Any]:
        self._count_node(0)
        if _is_chunk(leaf):
            for each in json.loads(self._texts[leaf["chunk"]]):
                yield from self._decode_leaf(each)
            return
        if isinstance(leaf, dict) and "text" in leaf:
            kind, text = leaf["as"], leaf["text"]
        else:
            pieces = [self._texts[ref] for ref in _list_references(leaf)]
            self._count_node(sum(map(len, pieces)))
            kind, _, text = "".join(pieces).partition("\n")
        if kind in ("=text", "=json"):
            yield text if kind == "=text" else json.loads(text)
        else:
            yield {"__serde__": kind, "base32": text.upper()}

    def _count_node(self, characters: int) -> None:
        """Count a node against the answer's limits. Raises HubRefusedError."""
        self._spent.update({"characters": characters, "nodes": 1})
        if (
            self._spent["characters"] > _MOST_CHARACTERS
            or self._spent["nodes"] > _MOST_NODES
        ):
            words = "states_too_large: ask for fewer states, or by the hub's own API"
            raise HubRefusedError(413, words)


def is_part(wanted: Record, metadata: Record) -> bool:
    """Tell whether the metadata has all that is wanted."""
    return all(
        key in metadata and metadata[key] == each for key, each in wanted.items()
    )


def select_fields(state: dict[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """Return the fields that were selected; all of them if none was."""
    return {name: state[name] for name in state if not wanted or name in wanted}


def _build_next(values: Record, checkpoint: Record) -> dict[str, list[str]]:
    """Build the nodes that have not seen their stored triggers; nothing if unknown."""
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    if (
        not any(channel.startswith(_NEXT) for channel in versions)
        or any(values.get(channel, {"list": []}) != {"list": []} for channel in _OTHERS)
        or any(channel.startswith(_JOIN) for channel in values)
    ):
        return {}
    nodes = [each.removeprefix(_NEXT) for each in values if each.startswith(_NEXT)]

    def is_next(node: str) -> bool:
        channel = _NEXT + node
        return bool(seen.get(node, {}).get(channel) != versions.get(channel))

    return {"next": sorted(filter(is_next, nodes))}


def _list_leaves(node: Any) -> list[Any]:
    is_list = isinstance(node, dict) and "list" in node
    return [*node["list"]] if is_list else [node]


def _list_references(leaf: Any) -> list[str]:
    if isinstance(leaf, str):
        return [leaf]
    return [leaf["chunk"]] if _is_chunk(leaf) else leaf.get("refs", [])


def _is_chunk(leaf: Any) -> bool:
    return isinstance(leaf, dict) and "chunk" in leaf
