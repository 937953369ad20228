"""States of a thread: checkpoints of MemoryHubSaver, read without LangGraph.

A value in LangGraph's own encoding comes as `__serde__`, its kind, and `base32`, the
stored bytes: the server loads no class of a graph. Tasks, interrupts and values by
default follow from the graph, which is not here: no state has them. `next` is left out
where the stored triggers of nodes do not tell it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.compat.langgraph_keys import allow_missing, iter_listed, list_keys
from memoryhub.compat.langgraph_names import build_checkpoint_glob

Record = Mapping[str, Any]
#: Most characters and nodes of an answer's states.
_MOST_CHARACTERS, _MOST_NODES = 32 * 2**20, 200_000
#: Characters of a reference that are its channel's, and texts that are read one by one.
_CHANNEL, _FEW = 4, 3
#: Triggers of nodes, and channels that hold triggers which only the graph can tell.
_NEXT, _JOIN, _OTHERS = "branch:to:", "join:", ("__start__", "__pregel_tasks")
#: Fields by which a client names a checkpoint.
CHECKPOINT: Final = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}
)


class StateReader:
    """Reader of the states of one thread, for one answer."""

    def __init__(self, api: ApiCaller, name: str, thread_id: str) -> None:
        self._api, self._name, self._thread_id = api, name, thread_id
        self._texts: dict[str, str] = {}
        self._characters = self._nodes = 0

    async def list_states(
        self,
        namespace: str,
        limit: int,
        *,
        is_wanted: Callable[[str], bool] = lambda _: True,
        metadata: Record | None = None,
    ) -> list[dict[str, Any]]:
        """List states, newest first. Raises HubRefusedError for broken or huge ones."""
        found: list[dict[str, Any]] = []
        path = f"{build_path('threads', self._name)}/keys"
        query = {"glob": build_checkpoint_glob(namespace), "values": "true"}
        try:
            async for item in iter_listed(self._api, path, **query, limit=limit or 1):
                if len(found) >= limit:
                    break
                record = await self._open_record(item["value"])
                if not is_wanted(record["id"]):
                    continue
                (noted,) = await self._open_nodes([record["metadata"]])
                if all(
                    noted.get(key) == each for key, each in (metadata or {}).items()
                ):
                    found.append(await self._build_state(record, noted))
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
        parent = record["parent"]
        return {
            "values": dict(zip(channels, values, strict=True)),
            **_build_next(record["values"], checkpoint),
            "checkpoint": self._name_checkpoint(record["ns"], record["id"]),
            "metadata": metadata,
            "created_at": checkpoint["ts"],
            "parent_checkpoint": self._name_checkpoint(record["ns"], parent)
            if parent
            else None,
        }

    def _name_checkpoint(self, namespace: str, checkpoint_id: str) -> dict[str, str]:
        return {
            "thread_id": self._thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }

    # Nodes, as the client's `langgraph_nodes` describes them

    async def _open_nodes(self, nodes: list[Any]) -> list[Any]:
        wanted, seen = nodes, set[str]()
        while wanted:
            leaves = [leaf for node in wanted for leaf in _list_leaves(node)]
            await self._fetch(
                {ref for leaf in leaves for ref in _list_references(leaf)}
            )
            chunks = {leaf["chunk"] for leaf in leaves if _is_chunk(leaf)} - seen
            seen |= chunks
            wanted = [{"list": json.loads(self._texts[each])} for each in chunks]
        return [self._decode(node) for node in nodes]

    async def _fetch(self, refs: set[str]) -> None:
        """Read texts: a few by name, many by their channel."""
        path = build_path("threads", self._name, "keys")
        missing = refs - self._texts.keys()
        for channel in {ref[:_CHANNEL] for ref in missing}:
            wanted = {ref for ref in missing if ref.startswith(channel)}
            if len(wanted) <= _FEW:
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
        self._spend(0)
        if _is_chunk(leaf):
            for each in json.loads(self._texts[leaf["chunk"]]):
                yield from self._decode_leaf(each)
            return
        if isinstance(leaf, dict) and "text" in leaf:
            kind, text = leaf["as"], leaf["text"]
        else:
            pieces = [self._texts[ref] for ref in _list_references(leaf)]
            self._spend(sum(map(len, pieces)))
            kind, _, text = "".join(pieces).partition("\n")
        if kind in ("=text", "=json"):
            yield text if kind == "=text" else json.loads(text)
        else:
            yield {"__serde__": kind, "base32": text.upper()}

    def _spend(self, characters: int) -> None:
        """Count a node against the answer's limits. Raises HubRefusedError."""
        self._characters += characters
        self._nodes += 1
        if self._characters > _MOST_CHARACTERS or self._nodes > _MOST_NODES:
            words = "states_too_large: ask for fewer states, or by the hub's own API"
            raise HubRefusedError(413, words)


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
