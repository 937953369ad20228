"""LangGraph checkpointer: checkpoints of graphs as keys of the hub's threads.

saver = MemoryHubSaver(Client("http://127.0.0.1:8000", key))
graph = builder.compile(checkpointer=saver)
"""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

from memoryhub_client import keys, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import cut_batches
from memoryhub_client.client import Client
from memoryhub_client.extras import require_extra
from memoryhub_client.keys import Changing, Keeping
from memoryhub_client.langgraph_keys import (
    CONFIG,
    LABELS,
    Changes,
    TextVanished,
    allow_repeats,
    build_key,
    build_thread_name,
    list_everything,
    list_texts,
    list_threads,
    parse_thread_name,
    read_texts,
    set_key,
)
from memoryhub_client.langgraph_nodes import (
    PIECE,
    Node,
    NodeEncoder,
    decode_node,
    is_chunk,
    iter_leaves,
    list_references,
)
from memoryhub_client.problems import Conflict, Invalid, NotFound
from memoryhub_client.requests import AsOfQuery
from memoryhub_client.steps import Steps, arun_steps, run_steps
from memoryhub_client.threads import Making

with require_extra("langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

Tuples = list[CheckpointTuple]

#: Longest text in a write, and in an input, in characters: both are stored only once.
WRITTEN, INPUT = 1_024, 8_192
TRIES, LOCKS = 5, 64
#: How LangGraph names the channel that triggers a node.
_NEXT = "branch:to:"
#: Refusals of a hub checkpoint. Its name is LangGraph's id, which may be any text.
POINTLESS = {"name", "name_taken", "checkpoints_full"}
#: Numbers of texts and of threads that a saver remembers.
CACHED_TEXTS, CACHED_THREADS = 20_000, 1_000


@dataclass(slots=True)
class StoredThread:
    """Facts about a hub thread that hold as of its event `head`."""

    name: str
    head: int
    secret: bytes = b""
    #: Value of the key `about`, if it is not stored yet.
    about: dict[str, str] | None = None
    #: Keys of stored texts.
    texts: set[str] = field(default_factory=set)
    #: Whether the hub has taken as many checkpoints as it takes of a thread.
    full: bool = False


@dataclass(slots=True)
class StoredCheckpoint:
    """A checkpoint's record, None if only its writes are there, and its keys."""

    thread: str
    record: Any = None
    metadata: Any = None
    writes: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def list_nodes(self) -> list[Node]:
        nodes = [node for call in self.writes for *_, node in call["writes"]]
        if self.record:
            nodes += [self.record["checkpoint"], self.record["metadata"]]
            nodes += self.record["values"].values()
        return nodes


Found = list[StoredCheckpoint]


def _send_either_way(
    steps: Callable[..., Steps[Any]], *, locked: bool = False
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the method that sends the steps, and its coroutine function.

    Writes that are `locked` follow each other by their `config`'s thread.
    """

    @functools.wraps(steps)
    def send(saver: MemoryHubSaver, *args: Any, **fields: Any) -> Any:
        if isinstance(saver.hub, AsyncClient):
            raise TypeError("With an AsyncClient, call the method that begins with a.")
        if not locked:
            return run_steps(saver.hub, steps(saver, *args, **fields))
        with saver.locks[_choose_lock(*args, **fields)]:
            return run_steps(saver.hub, steps(saver, *args, **fields))

    @functools.wraps(steps)
    async def asend(saver: MemoryHubSaver, *args: Any, **fields: Any) -> Any:
        if isinstance(saver.hub, Client):
            return await asyncio.to_thread(send, saver, *args, **fields)
        if not locked:
            return await arun_steps(saver.hub, steps(saver, *args, **fields))
        async with saver.async_locks[_choose_lock(*args, **fields)]:
            return await arun_steps(saver.hub, steps(saver, *args, **fields))

    return send, asend


class MemoryHubSaver(BaseCheckpointSaver[int]):
    """A checkpointer that keeps checkpoints in MemoryHub.

    With an `AsyncClient`, only the `a…` methods can be called. With a `Client`, they
    run in a worker thread. A refusal is the client's exception: `Forbidden` for a key
    without the scope, `Gone` for an erased thread.

    A put is one request. With `timeline` it also takes a checkpoint of the hub for each
    step of the root graph: the inspector can restore the state after the step, and the
    graph goes on from there. The hub takes 1,000 in a thread; later steps have none.

    `person_field` names the field of `configurable` that holds the user id of the
    person whom a thread belongs to; erasing the person erases the thread. A new thread
    without that field is a ValueError, and another person's thread is a Conflict.
    """

    def __init__(
        self,
        hub: Client | AsyncClient,
        *,
        serde: SerializerProtocol | None = None,
        timeline: bool = True,
        person_field: str | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.hub, self.timeline, self.person_field = hub, timeline, person_field
        self.locks = [threading.Lock() for _ in range(LOCKS)]
        self.async_locks = [asyncio.Lock() for _ in range(LOCKS)]
        self._threads: dict[str, StoredThread] = {}
        self._texts: dict[tuple[str, str], str] = {}
        #: Threads and persons that belong together.
        self._checked: set[tuple[str, str]] = set()

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next number; after another saver's text, a larger text."""
        if not isinstance(current, str):
            return super().get_next_version(current, channel)
        return f"{int(current.partition('.')[0]) + 1:032}"

    # Writing

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Steps[RunnableConfig]:
        """Store a checkpoint. Its values are kept whatever `new_versions` names."""
        thread_id, namespace, parent = _parse_config(config)
        rest: dict[str, Any] = {**checkpoint}
        values = rest.pop("channel_values")
        rest.pop("id")
        noted = get_checkpoint_metadata(config, metadata)

        def build(encoder: NodeEncoder) -> Any:
            record = {"id": checkpoint["id"], "ns": namespace, "parent": parent}
            record["checkpoint"] = encoder.encode_leaf("", rest, inline=PIECE)
            record["metadata"] = encoder.encode_leaf("", noted, inline=PIECE)
            record["values"] = {
                channel: encoder.encode(channel, value, inline=INPUT)
                if channel == "__start__"
                else encoder.encode(channel, value)
                for channel, value in values.items()
            }
            return record

        key, point = build_key(namespace, checkpoint["id"]), None
        if self.timeline and not namespace and metadata.get("source") != "input":
            told = _describe_step(checkpoint, metadata)
            point = Keeping(name=checkpoint["id"], description=told)
        yield from self._write(config, key, build, point)
        return _build_config(thread_id, namespace, checkpoint["id"])

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> Steps[None]:
        """Store a task's writes, also before their checkpoint."""
        _, namespace, checkpoint_id = _parse_config(config)

        def build(encoder: NodeEncoder) -> Any:
            encoded = [
                [
                    WRITES_IDX_MAP.get(channel, position),
                    channel,
                    encoder.encode(channel, value, inline=WRITTEN),
                ]
                for position, (channel, value) in enumerate(writes)
            ]
            return {"task": task_id, "path": task_path, "writes": encoded}

        # A key for each call: a reader merges calls in the order of these names.
        moment = f"{time.time_ns() // 1000:x}{secrets.token_hex(1)}"
        key = f"{build_key(namespace, checkpoint_id or '')}.{moment}"
        yield from self._write(config, key, build)

    def _write(
        self,
        config: RunnableConfig,
        key: str,
        build: Callable[[NodeEncoder], Any],
        point: Keeping | None = None,
    ) -> Steps[None]:
        """Set the key to what `build` encodes, and the texts that are not stored."""

        def plan(stored: StoredThread) -> tuple[Changes, bool]:
            plain = type(self.serde) is JsonPlusSerializer
            encoder = NodeEncoder(self.serde, stored.secret, plain=plain)
            record = encoder.shorten(build(encoder))
            self._remember(stored.name, encoder.texts)
            sets = [
                set_key(f"v.{ref}", text)
                for ref, text in encoder.texts.items()
                if f"v.{ref}" not in stored.texts
            ]
            return [*sets, set_key(key, record)], len(sets) < len(encoder.texts)

        thread_id = _parse_config(config)[0]
        person = yield from self._find_person(config, thread_id)
        yield from self._change(thread_id, plan, person, point)

    def _find_person(self, config: RunnableConfig, thread_id: str) -> Steps[str | None]:
        """Return whom a new thread belongs to. Raises ValueError if nobody is named.

        A thread that exists keeps its person: the config of a stored state names none.
        """
        field = self.person_field
        person = config["configurable"].get(field) if field else None
        name = build_thread_name(thread_id)
        if field and not person and name not in self._threads:
            try:
                yield threads.get(name)
            except NotFound as unknown:
                raise ValueError(
                    f"person_field: `configurable` has no {field!r}. Give the user id "
                    f"of the thread's person beside `thread_id`: "
                    f'config={{"configurable": {{"thread_id": …, "{field}": …}}}}'
                ) from unknown
        return person

    def _change(
        self,
        thread_id: str,
        plan: Callable[[StoredThread], tuple[Changes, bool]],
        person: str | None = None,
        point: Keeping | None = None,
    ) -> Steps[None]:
        """Send planned changes; plan again if the thread was changed by others.

        The plan tells whether it relies on texts that are stored already: a deletion or
        a restored checkpoint of the hub may have removed them since.
        """
        name = build_thread_name(thread_id)
        for left in reversed(range(TRIES)):
            stored = self._threads.get(name)
            if stored is None:
                stored = yield from self._open(name, thread_id, person)
            changes, relies = plan(stored)
            try:
                yield from self._send_changes(stored, changes, point, relies=relies)
            except Conflict as refusal:
                self._threads.pop(name, None)
                if refusal.code not in ("stale", "key_exists") or not left:
                    raise
            else:
                return
        raise AssertionError("the last try returns or raises")

    def _open(
        self, name: str, thread_id: str, person: str | None
    ) -> Steps[StoredThread]:
        """Make the thread if need be, and list its stored texts."""
        making: Making = {"labels": LABELS, "config": CONFIG}
        if person:
            making["user_id"] = person
        made = threads.put(name, **making)
        stored = StoredThread(name, (yield made)["seq"])
        about = (yield keys.list_all(name, glob="about", values=True))["items"]
        if about:
            stored.secret = bytes.fromhex(about[0]["value"]["secret"])
            stored.texts = yield from list_texts(name, at_seq=stored.head)
        else:
            stored.secret = secrets.token_bytes(16)
            secret = stored.secret.hex()
            stored.about = {"thread_id": thread_id, "secret": secret}
        if len(self._threads) >= CACHED_THREADS:
            self._threads.clear()
        self._threads[name] = stored
        return stored

    def _send_changes(
        self,
        stored: StoredThread,
        changes: Changes,
        point: Keeping | None = None,
        *,
        relies: bool,
    ) -> Steps[None]:
        """Send the changes in order; those of one request are made together.

        The last request takes the point. If the hub refuses the point, the changes are
        sent without it: only the inspector's list lacks it.
        """
        if stored.about:
            about = set_key("about", stored.about)
            changes = [{**about, "if_none_match": "*"}, *changes]
        batches = cut_batches(changes)
        for batch in batches:
            given: Changing = {}
            if relies or len(batches) > 1:
                given = {"if_match": stored.head}
            if point and batch is batches[-1] and not stored.full:
                given["checkpoint"] = point
            try:
                answer = yield allow_repeats(keys.batch(stored.name, batch, **given))
            except (Conflict, Invalid) as refusal:
                if "checkpoint" not in given or refusal.code not in POINTLESS:
                    raise
                stored.full = refusal.code == "checkpoints_full"
                del given["checkpoint"]
                answer = yield allow_repeats(keys.batch(stored.name, batch, **given))
            seqs = [item["seq"] for item in answer["items"] if item["seq"]]
            seqs += [answer["checkpoint"]] if answer["checkpoint"] else []
            if seqs and min(seqs) != stored.head + 1:
                # Others wrote in between: what they deleted is unknown.
                self._threads.pop(stored.name, None)
            stored.head, stored.about = max(seqs, default=stored.head), None
            stored.texts |= {each["key"] for each in batch if each["op"] == "set"}

    # Reading

    def _get_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        """Return the checkpoint that the config names, by default the largest id."""
        thread_id, namespace, checkpoint_id = _parse_config(config)
        yield from self._check_person(config, build_thread_name(thread_id))
        glob = f"{build_key(namespace, checkpoint_id)}*"
        for _ in range(TRIES):
            with suppress(TextVanished):
                found = yield from self._list_stored(
                    build_thread_name(thread_id), glob, most=1
                )
                return (yield from self._build_tuple(found[0])) if found else None
        raise TextVanished(checkpoint_id)

    def _list_tuples(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Steps[Tuples]:
        glob, most = "c.*", None
        if config:
            thread_id, namespace, checkpoint_id = _parse_config(config)
            if "checkpoint_ns" not in config["configurable"]:
                namespace = None
            most = None if namespace is None or filter else limit
            names = [build_thread_name(thread_id)]
            yield from self._check_person(config, names[0])
            glob = f"{build_key(namespace, checkpoint_id)}*"
        else:
            names = yield from list_threads()
        end, found = get_checkpoint_id(before) if before else None, []
        for name in names:
            found += yield from self._list_stored(name, glob, most=most, before=end)
        wanted = (filter or {}).items()
        found = [
            each
            for each in found
            if all(each.metadata.get(field) == value for field, value in wanted)
        ]
        found.sort(key=lambda each: cast("str", each.record["id"]), reverse=True)
        tuples = []
        for each in found[:limit]:
            # A checkpoint that was deleted meanwhile is no part of the list.
            with suppress(TextVanished):
                tuples.append((yield from self._build_tuple(each)))
        return tuples

    def _check_person(self, config: RunnableConfig, name: str) -> Steps[None]:
        """Raise Conflict if the config names another person than the thread's."""
        field = self.person_field
        person = config["configurable"].get(field) if field else None
        if person and (name, person) not in self._checked:
            with suppress(NotFound):
                yield threads.get(name)
                yield threads.put(name, user_id=person)
                if len(self._checked) >= CACHED_THREADS:
                    self._checked.clear()
                self._checked.add((name, person))

    def _list_stored(
        self,
        name: str,
        glob: str,
        *,
        most: int | None = None,
        before: str | None = None,
        bare: bool = False,
        **as_of: Unpack[AsOfQuery],
    ) -> Steps[Found]:
        """List checkpoints with an id below `before`, the largest first.

        Lists at least `most`, if there are so many, and with `bare` also writes without
        a checkpoint. An unknown thread has none.
        """
        limit = 200 if most is None else min(200, 10 * most + 10)
        listing = keys.list_all(name, glob=glob, values=True, limit=limit, **as_of)
        found: dict[str, StoredCheckpoint] = {}
        while True:
            try:
                part = yield listing
            except NotFound:
                return []
            for item in part["items"]:
                base, _, moment = item["key"].partition("z")
                each = found.setdefault(base, StoredCheckpoint(name))
                each.keys.append(item["key"])
                value = item["value"]
                if "record" in value:
                    value = json.loads((yield from self._open_node(name, value)))
                if moment:
                    each.writes.append(value)
                elif before is None or value["id"] < before:
                    each.record = value
                    each.metadata = yield from self._open_node(name, value["metadata"])
            whole = [each for each in found.values() if bare or each.record]
            # The last one may have more writes in the next part.
            if part["next"] is None or (most is not None and len(whole) > most):
                return whole
            listing = listing.going_on(part["next"])

    def _build_tuple(self, found: StoredCheckpoint) -> Steps[CheckpointTuple]:
        record, name = found.record, found.thread
        texts = yield from self._fetch(name, found.list_nodes())
        decode = functools.partial(decode_node, texts=texts, serde=self.serde)
        thread_id = parse_thread_name(name)
        if thread_id is None:
            thread_id = (yield keys.get(name, "about"))["value"]["thread_id"]
        values = {channel: decode(node) for channel, node in record["values"].items()}
        writes = [
            (task, channel, decode(node))
            for (_, task, _), channel, node in _merge_writes(found.writes)
        ]
        checkpoint = {**decode(record["checkpoint"]), "id": record["id"]}
        checkpoint["channel_values"] = values
        parent, namespace = record["parent"], record["ns"]
        return CheckpointTuple(
            _build_config(thread_id, namespace, record["id"]),
            cast("Checkpoint", checkpoint),
            found.metadata,
            _build_config(thread_id, namespace, parent) if parent else None,
            writes,
        )

    def _open_node(self, name: str, node: Node) -> Steps[Any]:
        node = node.get("record", node) if isinstance(node, dict) else node
        texts = yield from self._fetch(name, [node])
        return decode_node(node, texts, self.serde)

    def _fetch(
        self, name: str, nodes: list[Node], *, leaves: bool = True
    ) -> Steps[dict[str, str]]:
        """Return the texts of the nodes by reference. Raises TextVanished.

        Without `leaves` the texts of chunks alone are read; the others are empty.
        """
        texts: dict[str, str] = {}
        while nodes:
            current = [*iter_leaves(nodes)]
            read = [leaf for leaf in current if leaves or is_chunk(leaf)]
            wanted = {ref for leaf in read for ref in list_references(leaf)}
            texts |= {ref: "" for leaf in current for ref in list_references(leaf)}
            missing = [ref for ref in wanted if (name, ref) not in self._texts]
            found = yield from read_texts(name, missing)
            for ref in wanted - found.keys():
                found[ref] = self._texts[name, ref]
            texts |= found
            self._remember(name, found)
            chunks = [texts[leaf["chunk"]] for leaf in current if is_chunk(leaf)]
            nodes = [{"list": json.loads(text)} for text in chunks]
        return texts

    def _remember(self, name: str, texts: dict[str, str]) -> None:
        if len(self._texts) >= CACHED_TEXTS:
            self._texts = {}
        self._texts |= {(name, ref): text for ref, text in texts.items()}

    # Deleting and copying

    def _delete_thread(self, thread_id: str) -> Steps[None]:
        """Delete the thread's keys. The hub's history keeps them until an erasure."""
        name = build_thread_name(thread_id)
        self._threads.pop(name, None)
        with suppress(NotFound):
            yield keys.clear(name)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Steps[None]:
        """Delete the runs' checkpoints, in all threads."""

        def list_of_runs(found: Found) -> Found:
            return [
                e for e in found if e.record and e.metadata.get("run_id") in run_ids
            ]

        for name in (yield from list_threads()) if run_ids else []:
            yield from self._delete(name, list_of_runs)

    def _prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> Steps[None]:
        """Delete old checkpoints, but none that a delta channel is rebuilt from."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy: {strategy}")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self._delete_thread(thread_id)
            else:
                yield from self._delete(build_thread_name(thread_id), _list_outdated)

    def _delete(self, name: str, choose: Callable[[Found], Found]) -> Steps[None]:
        """Delete the chosen checkpoints, then the texts that no other one references.

        Begins again if anybody wrote meanwhile: the write could reference such a text.
        """
        for left in reversed(range(TRIES)):
            try:
                head = (yield threads.get(name))["seq"]
            except NotFound:
                return
            found = yield from self._list_stored(name, "c.*", bare=True, at_seq=head)
            chosen = choose(found)
            if not chosen:
                return
            kept = [each for each in found if each not in chosen]
            nodes = [node for each in kept for node in each.list_nodes()]
            used = yield from self._fetch(name, nodes, leaves=False)
            texts = yield from list_texts(name, at_seq=head)
            unused = texts - {f"v.{ref}" for ref in used}
            gone = [key for each in chosen for key in each.keys] + sorted(unused)
            deletes: Changes = [{"op": "delete", "key": key} for key in gone]
            self._threads.pop(name, None)
            try:
                stored = StoredThread(name, head)
                return (yield from self._send_changes(stored, deletes, relies=True))
            except Conflict as refusal:
                if refusal.code != "stale" or not left:
                    raise

    def _copy_thread(self, source_thread_id: str, target_thread_id: str) -> Steps[None]:
        """Copy by a fork, which stores nothing twice; if the target exists, by keys."""
        source = build_thread_name(source_thread_id)
        target = build_thread_name(target_thread_id)
        with suppress(NotFound):
            if parse_thread_name(target) is not None:
                with suppress(Conflict):
                    yield threads.fork(source, target, labels=LABELS, config=CONFIG)
                    return
            listing = keys.list_all(source, glob="[cv].*", values=True, limit=200)
            items = yield from list_everything(listing)
            sets = [set_key(item["key"], item["value"]) for item in items]
            # Texts go before the checkpoints that reference them.
            sets.sort(key=lambda change: change["key"], reverse=True)
            yield from self._change(target_thread_id, lambda stored: (sets, False))

    # LangGraph's methods

    put, aput = _send_either_way(_put, locked=True)
    put_writes, aput_writes = _send_either_way(_put_writes, locked=True)
    get_tuple, aget_tuple = _send_either_way(_get_tuple)
    delete_thread, adelete_thread = _send_either_way(_delete_thread)
    delete_for_runs, adelete_for_runs = _send_either_way(_delete_for_runs)
    copy_thread, acopy_thread = _send_either_way(_copy_thread)
    prune, aprune = _send_either_way(_prune)
    _send_list, _asend_list = _send_either_way(_list_tuples)

    def list(
        self, config: RunnableConfig | None, **search: Any
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, largest id first: `filter`, `before` and `limit`."""
        yield from self._send_list(config, **search)

    async def alist(
        self, config: RunnableConfig | None, **search: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, largest id first: `filter`, `before` and `limit`."""
        for found in await self._asend_list(config, **search):
            yield found


def _choose_lock(config: RunnableConfig, *_: Any, **__: Any) -> int:
    return hash(str(config["configurable"]["thread_id"])) % LOCKS


def _describe_step(checkpoint: Checkpoint, metadata: CheckpointMetadata) -> str:
    """Describe a checkpoint for people: the graph's step, and the nodes that are next.

    Joins and sends are not named: their triggers do not tell a node.
    """
    step = f"Step {metadata.get('step', '?')}"
    if (source := metadata.get("source", "loop")) != "loop":
        step += f" ({source})"
    triggers = sorted(checkpoint["channel_values"])
    nodes = [each[len(_NEXT) :] for each in triggers if each.startswith(_NEXT)]
    return f"{step}, next: {', '.join(nodes)}"[:500] if nodes else step


def _parse_config(config: RunnableConfig) -> tuple[str, Any, str | None]:
    """Return the thread's id as text, the namespace and the checkpoint's id."""
    fields = config["configurable"]
    namespace = fields.get("checkpoint_ns", "")
    return str(fields["thread_id"]), namespace, get_checkpoint_id(config)


def _build_config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": {**place, "checkpoint_id": checkpoint_id}}


def _merge_writes(calls: list[Any]) -> list[Any]:
    """Merge calls by task and position, in the order in which LangGraph applies writes.

    The first write at a position stays; one to a special channel is replaced.
    """
    merged: dict[tuple[str, int], Any] = {}
    for call in calls:
        for position, channel, node in call["writes"]:
            place = (call["task"], position)
            if position < 0 or place not in merged:
                order = writes_sort_key(call["path"], *place)
                merged[place] = (order, channel, node)
    return sorted(merged.values(), key=lambda write: cast("Any", write[0]))


def _list_outdated(found: Found) -> Found:
    """List all but the latest checkpoint of each namespace, and its delta ancestors."""
    stored = {(e.record["ns"], e.record["id"]): e for e in found if e.record}
    kept: set[tuple[str, str]] = set()
    for namespace in {namespace for namespace, _ in stored}:
        place = max(each for each in stored if each[0] == namespace)
        counters = stored[place].metadata.get("counters_since_delta_snapshot")
        deltas = {*(counters or ())}
        while place in stored:
            kept.add(place)
            deltas -= stored[place].record["values"].keys()
            place = (namespace, stored[place].record["parent"] if deltas else "")
    return [stored[place] for place in stored.keys() - kept]
