"""LangGraph checkpointer: checkpoints of graphs as keys of the hub's threads.

    saver = MemoryHubSaver(Client("http://127.0.0.1:8000", key))
    graph = builder.compile(checkpointer=saver)

With an `AsyncClient`, the `a…` methods await the client, and the others raise. With a
`Client`, the `a…` methods run in a worker thread.

Each LangGraph thread is one hub thread, `langgraph:<thread_id>`. Its keys are:

- `c.<namespace>.<id>z`: a checkpoint; its channels hold short values and references;
- `c.<namespace>.<id>z.<time>`: the writes of one `put_writes`;
- `v.<channel>.<digest>`: a text that references name, stored once; an element of a list
  is a text, and 32 elements of a list are a text of references;
- `about`: the secret that digests are made with, and the `thread_id`.

The ids in names are complemented, so that the largest id comes first in a list.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    SerializerProtocol,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memoryhub_client import checkpoints, keys, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.problems import Conflict, NotFound, Problem

if TYPE_CHECKING:

    from langchain_core.runnables import RunnableConfig

    from memoryhub_client.keys import KeyChange
    from memoryhub_client.requests import Request

Result = TypeVar("Result")
Steps = "Generator[Request[Any], Any, Result]"
#: A short value, a reference to texts, or a list of nodes.
Node = dict[str, Any]

PREFIX = "langgraph:"
LABELS = {"kind": "langgraph"}
#: The most that the hub grants a thread.
CONFIG = {"max_keys": 100_000, "max_key_bytes": 2**30}
#: Longest name of a thread, and longest text of a value, in characters: the hub takes
#: 256 KiB, and a character can have four bytes.
MAX_NAME, PIECE = 128, 60_000
#: The hub's limits of one batch: changes, and bytes of the body, less some room.
MAX_CHANGES, MAX_BODY = 200, 900_000
#: Longest text that a checkpoint holds itself, in characters.
INLINE = 256
#: Elements of a list that are referenced together.
CHUNK = 32
#: Up to so many missing texts of a channel are read one by one.
FEW = 3
TRIES = 5
#: Numbers of texts and of threads that a saver remembers.
CACHED_TEXTS, CACHED_THREADS = 20_000, 1_000
LOCKS = 64


@dataclass(slots=True)
class StoredThread:
    """Facts about a hub thread that hold as of its event `head`."""

    name: str
    head: int
    secret: bytes
    about: Node | None
    texts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class StoredCheckpoint:
    """A checkpoint's record, None if only writes are there, and its keys."""

    thread: str
    record: Any = None
    metadata: Any = None
    writes: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def list_nodes(self) -> list[Node]:
        """List the nodes of the record's channels and of the writes."""
        nodes = [node for write in self.writes for *_, node in write["writes"]]
        record = self.record or {"values": {}}
        held = [record[name] for name in ("checkpoint", "metadata") if name in record]
        return [*nodes, *held, *record["values"].values()]


class TextVanished(LookupError):
    """A referenced text is not there: somebody deleted the checkpoint meanwhile."""


class MemoryHubSaver(BaseCheckpointSaver[int]):
    """A checkpointer that keeps checkpoints in MemoryHub.

    A refusal is the client's exception: `Forbidden` for a key without the scope, `Gone`
    for an erased thread. A put is one request, and a second one with `timeline`, which
    adds a checkpoint of the hub for each one of the root graph: the inspector can
    return to it, and the graph then goes on from there. A hub thread takes 1,000.

    `person_field` names the field of `configurable` that holds the user id of the
    person whom a new thread belongs to; erasing the person erases the thread.
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
        self._threads: dict[str, StoredThread] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._async_locks = [asyncio.Lock() for _ in range(LOCKS)]

    # LangGraph's methods

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._run(self._find_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._arun(self._find_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        yield from self._run(self._list_tuples(config, filter, before, limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await self._arun(self._list_tuples(config, filter, before, limit)):
            yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._run(self._put(config, checkpoint, metadata), config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._arun(self._put(config, checkpoint, metadata), config)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._run(self._put_writes(config, writes, task_id, task_path), config)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._arun(self._put_writes(config, writes, task_id, task_path), config)

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints and writes. The hub's history keeps them.

        An erasure removes them from there too: of the thread, or of the person.
        """
        self._run(self._clear(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._arun(self._clear(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._run(self._delete_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._arun(self._delete_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy by forking, which stores nothing twice; into an existing thread by keys."""
        self._run(self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._arun(self._copy(source_thread_id, target_thread_id))

    def prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """Delete old checkpoints, but not those that a delta channel is rebuilt from."""
        self._run(self._prune(thread_ids, strategy))

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        await self._arun(self._prune(thread_ids, strategy))

    # Sending

    def _run(
        self, steps: Steps[Result], config: RunnableConfig | None = None
    ) -> Result:
        """Send each request of the steps; writes of one thread follow each other."""
        if isinstance(self.hub, AsyncClient):
            steps.close()
            raise TypeError("With an AsyncClient, call the method that begins with a.")
        if config is None:
            return self._send_all(steps)
        with self._locks[_choose_lock(config)]:
            return self._send_all(steps)

    def _send_all(self, steps: Steps[Result]) -> Result:
        resume, done = cast("Callable[[Any], Request[Any]]", steps.send), None
        while True:
            try:
                request = resume(done)
            except StopIteration as end:
                return cast("Result", end.value)
            try:
                done, resume = cast("Client", self.hub).send(request), steps.send
            except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
                done, resume = failure, steps.throw  # type: ignore[assignment]

    async def _arun(
        self, steps: Steps[Result], config: RunnableConfig | None = None
    ) -> Result:
        if isinstance(self.hub, Client):
            return await asyncio.to_thread(self._run, steps, config)
        if config is None:
            return await self._asend_all(steps)
        async with self._async_locks[_choose_lock(config)]:
            return await self._asend_all(steps)

    async def _asend_all(self, steps: Steps[Result]) -> Result:
        resume, done = cast("Callable[[Any], Request[Any]]", steps.send), None
        while True:
            try:
                request = resume(done)
            except StopIteration as end:
                return cast("Result", end.value)
            try:
                done = await cast("AsyncClient", self.hub).send(request)
                resume = steps.send
            except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
                done, resume = failure, steps.throw  # type: ignore[assignment]

    # Writing

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
    ) -> Steps[RunnableConfig]:
        thread_id, namespace, parent = _parse_config(config)
        rest = {**checkpoint}
        channels = cast("dict[str, Any]", rest.pop("channel_values"))
        noted = get_checkpoint_metadata(config, metadata)

        def build(encoder: NodeEncoder) -> Any:
            return {
                "id": checkpoint["id"],
                "ns": namespace,
                "parent": parent,
                "checkpoint": encoder.encode_leaf("", rest, inline=PIECE),
                "metadata": encoder.encode_leaf("", noted, inline=PIECE),
                "values": {
                    channel: encoder.encode(channel, value)
                    for channel, value in channels.items()
                },
            }

        key = _build_key(namespace, checkpoint["id"])
        stored = yield from self._write(config, key, build)
        if self.timeline and not namespace:
            # The checkpoint is stored: only the inspector's list lacks the point.
            with suppress(Problem):
                taken = yield checkpoints.take(stored.name, name=checkpoint["id"])
                if taken["seq"] == stored.head + 1:
                    stored.head += 1
        return _build_config(thread_id, namespace, checkpoint["id"])

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Steps[None]:
        _, namespace, checkpoint_id = _parse_config(config)

        def build(encoder: NodeEncoder) -> Any:
            encoded = [
                [WRITES_IDX_MAP.get(channel, idx), channel, encoder.encode(channel, v)]
                for idx, (channel, v) in enumerate(writes)
            ]
            return {"task": task_id, "path": task_path, "writes": encoded}

        # One key a call: reading merges calls in the order of their names.
        moment = f"{time.time_ns():016x}{secrets.token_hex(2)}"
        key = f"{_build_key(namespace, checkpoint_id or '')}.{moment}"
        yield from self._write(config, key, build)

    def _write(
        self,
        config: RunnableConfig,
        key: str,
        build: Callable[[NodeEncoder], Any],
    ) -> Steps[StoredThread]:
        """Set the key to what `build` encodes, together with the texts it lacks."""
        thread_id, *_ = _parse_config(config)
        person = config["configurable"].get(self.person_field or "")

        def plan(stored: StoredThread) -> tuple[list[KeyChange], bool]:
            encoder = NodeEncoder(self.serde, stored.secret)
            record = encoder.shorten(build(encoder))
            missing = encoder.texts.keys() - stored.texts
            sets = [_set(name, encoder.texts[name]) for name in sorted(missing)]
            return [*sets, _set(key, record)], len(missing) < len(encoder.texts)

        return (yield from self._change(thread_id, plan, person))

    def _change(
        self,
        thread_id: str,
        plan: Callable[[StoredThread], tuple[list[KeyChange], bool]],
        person: str | None = None,
    ) -> Steps[StoredThread]:
        """Send planned changes; plan anew if somebody else changed the thread.

        The plan tells whether it relies on texts that are stored already: those may be
        gone since the thread's head that the plan knows.
        """
        name = build_thread_name(thread_id)
        for tried in range(TRIES):
            stored = self._threads.get(name)
            if stored is None:
                stored = yield from self._open(thread_id, person)
            changes, relies = plan(stored)
            try:
                yield from self._send_changes(stored, changes, relies=relies)
            except Conflict as refusal:
                self._threads.pop(name, None)
                if refusal.code not in ("stale", "key_exists") or tried == TRIES - 1:
                    raise
            else:
                return stored
        raise AssertionError("the last try returns or raises")

    def _open(self, thread_id: str, person: str | None) -> Steps[StoredThread]:
        """Make the thread if need be, and list the texts that are stored."""
        name = build_thread_name(thread_id)
        made = {"user_id": person} if person else {}
        head = (yield threads.put(name, labels=LABELS, config=CONFIG, **made))["seq"]
        about, texts = None, set[str]()
        for item in (yield keys.list_all(name, glob="about", values=True))["items"]:
            about = item["value"]
        if about:
            listing = keys.list_all(name, glob="v.*", limit=200, at_seq=head)
            texts = {item["key"] for item in (yield from _list_all(listing))}
        secret = about["secret"] if about else secrets.token_hex(16)
        fresh = None if about else {"secret": secret, "thread_id": thread_id}
        stored = StoredThread(name, head, bytes.fromhex(secret), fresh, texts)
        if len(self._threads) >= CACHED_THREADS:
            self._threads.clear()
        self._threads[name] = stored
        return stored

    def _send_changes(
        self, stored: StoredThread, changes: list[KeyChange], *, relies: bool
    ) -> Steps[None]:
        """Send the changes; those of one batch are made together, the last key last."""
        if stored.about:
            about: KeyChange = {**_set("about", stored.about), "if_none_match": "*"}
            changes = [about, *changes]
        batches = _cut_batches(changes)
        for batch in batches:
            match = {"if_match": stored.head} if relies or len(batches) > 1 else {}
            answer = yield keys.batch(stored.name, batch, **match)
            seqs = [item["seq"] for item in answer["items"] if item["seq"]]
            if seqs and min(seqs) != stored.head + 1:
                # Others wrote in between: their changes are unknown.
                self._threads.pop(stored.name, None)
            stored.head, stored.about = max(seqs, default=stored.head), None
            stored.texts |= {c["key"] for c in batch if c["op"] == "set"}
            stored.texts -= {c["key"] for c in batch if c["op"] == "delete"}

    # Reading

    def _find_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        thread_id, namespace, checkpoint_id = _parse_config(config)
        name = build_thread_name(thread_id)
        glob = f"{_build_key(namespace, checkpoint_id)}*"
        for tried in range(TRIES):
            try:
                found = yield from self._list_stored(name, glob, most=1)
                return (yield from self._build_tuple(found[0])) if found else None
            except TextVanished:
                if tried == TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    def _list_tuples(
        self,
        config: RunnableConfig | None,
        where: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Steps[list[CheckpointTuple]]:
        glob, end = "c.*", get_checkpoint_id(before) if before else None
        if config:
            thread_id, namespace, checkpoint_id = _parse_config(config)
            if "checkpoint_ns" not in config["configurable"]:
                namespace = None
            names = [build_thread_name(thread_id)]
            glob = f"{_build_key(namespace, checkpoint_id)}*"
        else:
            names = yield from _list_threads()
        most = limit if config and namespace is not None and not where else None
        found: list[StoredCheckpoint] = []
        for name in names:
            found += yield from self._list_stored(name, glob, most=most, before=end)
        found = [each for each in found if _has_all(each.metadata, where or {})]
        found.sort(key=lambda each: each.record["id"], reverse=True)
        tuples = []
        for each in found[:limit]:
            # A checkpoint that is deleted meanwhile is no part of the list.
            with suppress(TextVanished):
                tuples.append((yield from self._build_tuple(each)))
        return tuples

    def _list_stored(
        self,
        name: str,
        glob: str,
        *,
        most: int | None = None,
        before: str | None = None,
        bare: bool = False,
        **as_of: int,
    ) -> Steps[list[StoredCheckpoint]]:
        """List checkpoints, largest id first; `bare` ones are writes without a record.

        Checkpoints have an id below `before`. An unknown thread has none.
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
                if base not in found and most is not None:
                    whole = [each for each in found.values() if each.record]
                    if len(whole) >= most:
                        return whole
                each = found.setdefault(base, StoredCheckpoint(name))
                each.names.append(item["key"])
                value = item["value"]
                if "record" in value:
                    value = json.loads(
                        (yield from self._open_node(name, value["record"]))
                    )
                if moment:
                    each.writes.append(value)
                elif before is None or value["id"] < before:
                    each.record = value
                    each.metadata = yield from self._open_node(name, value["metadata"])
            if part["next"] is None:
                return [each for each in found.values() if bare or each.record]
            listing = listing.going_on(part["next"])

    def _open_node(self, name: str, node: Node) -> Steps[Any]:
        texts = yield from self._fetch(name, [node])
        return decode_node(node, texts, self.serde)

    def _build_tuple(self, found: StoredCheckpoint) -> Steps[CheckpointTuple]:
        record, name = found.record, found.thread
        texts = yield from self._fetch(name, found.list_nodes())
        thread_id = parse_thread_name(name)
        if thread_id is None:
            thread_id = (yield keys.get(name, "about"))["value"]["thread_id"]
        checkpoint = decode_node(record["checkpoint"], texts, self.serde)
        checkpoint["channel_values"] = {
            channel: decode_node(node, texts, self.serde)
            for channel, node in record["values"].items()
        }
        writes = [
            (task, channel, decode_node(node, texts, self.serde))
            for (_, task, _), channel, node in _merge_writes(found.writes)
        ]
        parent, namespace = record["parent"], record["ns"]
        return CheckpointTuple(
            _build_config(thread_id, namespace, record["id"]),
            checkpoint,
            found.metadata,
            _build_config(thread_id, namespace, parent) if parent else None,
            writes,
        )

    def _fetch(
        self, name: str, nodes: Iterable[Node], *, leaves: bool = True
    ) -> Steps[dict[str, str]]:
        """Return the texts of the nodes by reference. Raises TextVanished.

        Without `leaves` only texts of references are read; the others are empty.
        """
        texts: dict[str, str] = {}
        waiting = [*nodes]
        while waiting:
            wanted = {
                ref: leaves or "chunk" in leaf
                for node in waiting
                for leaf in node.get("list", [node])
                for ref in _list_references(leaf)
                if ref not in texts
            }
            missing = [
                ref for ref in wanted if wanted[ref] and (name, ref) not in self._texts
            ]
            read = yield from _read_texts(name, missing)
            for ref, text in read.items():
                self._texts[name, ref] = text
            texts |= {
                ref: (read.get(ref) or self._texts[name, ref]) if wanted[ref] else ""
                for ref in wanted
            }
            waiting = [
                {"list": json.loads(texts[leaf["chunk"]])}
                for node in waiting
                for leaf in node.get("list", [node])
                if "chunk" in leaf
            ]
        if len(self._texts) > CACHED_TEXTS:
            self._texts.clear()
        return texts

    # Deleting and copying

    def _clear(self, thread_id: str) -> Steps[None]:
        name = build_thread_name(thread_id)
        self._threads.pop(name, None)
        with suppress(NotFound):
            yield keys.clear(name)

    def _delete_runs(self, run_ids: Sequence[str]) -> Steps[None]:
        runs = {*run_ids}

        def is_of_run(each: StoredCheckpoint) -> bool:
            return each.metadata is not None and each.metadata.get("run_id") in runs

        if runs:
            for name in (yield from _list_threads()):
                yield from self._delete(
                    name, lambda found: [each for each in found if is_of_run(each)]
                )

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Steps[None]:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy: {strategy}")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self._clear(thread_id)
            else:
                name = build_thread_name(thread_id)
                yield from self._delete(name, _list_outdated)

    def _delete(
        self,
        name: str,
        choose: Callable[[list[StoredCheckpoint]], list[StoredCheckpoint]],
    ) -> Steps[None]:
        """Delete the chosen checkpoints and the texts that no other one references."""
        for _ in range(TRIES):
            try:
                head = (yield threads.get(name))["seq"]
            except NotFound:
                return
            found = yield from self._list_stored(name, "c.*", bare=True, at_seq=head)
            chosen = choose(found)
            if not chosen:
                return
            nodes = [
                node
                for each in found
                if each not in chosen
                for node in each.list_nodes()
            ]
            used = yield from self._fetch(name, nodes, leaves=False)
            listing = keys.list_all(name, glob="v.*", limit=200, at_seq=head)
            texts = {item["key"] for item in (yield from _list_all(listing))}
            unused = texts - {f"v.{ref}" for ref in used}
            gone = [each for found in chosen for each in found.names] + sorted(unused)
            stored = StoredThread(name, head, b"", None)
            self._threads.pop(name, None)
            try:
                deletes: list[KeyChange] = [
                    {"op": "delete", "key": key} for key in gone
                ]
                yield from self._send_changes(stored, deletes, relies=True)
            except Conflict as refusal:
                if refusal.code != "stale":
                    raise
            else:
                return

    def _copy(self, source_id: str, target_id: str) -> Steps[None]:
        source, target = build_thread_name(source_id), build_thread_name(target_id)
        with suppress(NotFound):
            if parse_thread_name(target) is not None:
                with suppress(Conflict):
                    yield threads.fork(source, target, labels=LABELS, config=CONFIG)
                    return
            listing = keys.list_all(source, values=True, limit=200)
            items = yield from _list_all(listing)
            sets = [_set(item["key"], item["value"]) for item in items]
            # Texts go before the checkpoints that reference them.
            sets.sort(key=lambda change: change["key"], reverse=True)
            sets = [change for change in sets if change["key"] != "about"]
            yield from self._change(target_id, lambda stored: (sets, False))


# Names


def build_thread_name(thread_id: str) -> str:
    """Build the hub thread's name: the id, other characters as `@` and hex digits.

    The name of a long id ends with a digest.
    """
    safe = re.sub(
        r"[^A-Za-z0-9._-]",
        lambda found: "".join(f"@{byte:02x}" for byte in _to_bytes(found[0])),
        thread_id,
    )
    if len(PREFIX + safe) <= MAX_NAME:
        return PREFIX + safe
    digest = blake2b(_to_bytes(thread_id), digest_size=16).hexdigest()
    return f"{PREFIX}{safe[:60]}@@{digest}"


def parse_thread_name(name: str) -> str | None:
    """Return the id that the name was built from; None for a long id."""
    safe = name.removeprefix(PREFIX)
    if "@@" in safe:
        return None
    return re.sub(
        "(?:@[0-9a-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("@", "")).decode(
            errors="surrogatepass"
        ),
        safe,
    )


def _build_key(namespace: str | None, checkpoint_id: str | None) -> str:
    """Build the key of a checkpoint, or the beginning of the keys of all of them."""
    digest = "*"
    if namespace is not None:
        digest = blake2b(_to_bytes(namespace), digest_size=6).hexdigest()
    if checkpoint_id is None:
        return f"c.{digest}."
    plain = _to_bytes(checkpoint_id)
    order = bytes(255 - byte for byte in plain[:48]).hex()
    if len(plain) > 48:
        order = order[:64] + blake2b(plain, digest_size=8).hexdigest()
    # A letter after the hex digits: an id comes after those that it begins.
    return f"c.{digest}.{order}z"


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _choose_lock(config: RunnableConfig) -> int:
    return hash(str(config["configurable"]["thread_id"])) % LOCKS


def _parse_config(config: RunnableConfig) -> tuple[str, Any, str | None]:
    fields = config["configurable"]
    return (
        str(fields["thread_id"]),
        fields.get("checkpoint_ns", ""),
        get_checkpoint_id(config),
    )


def _build_config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


# Nodes


class NodeEncoder:
    """Encoder of values into nodes, and of what nodes reference into texts."""

    def __init__(self, serde: SerializerProtocol, secret: bytes) -> None:
        self.serde, self.secret = serde, secret
        #: Texts by key.
        self.texts: dict[str, str] = {}

    def encode(self, channel: str, value: Any) -> Node:
        if type(value) is not list:
            return self.encode_leaf(channel, value)
        nodes = [self.encode_leaf(channel, each) for each in value]
        return {"list": self._chunk(channel, nodes)}

    def encode_leaf(self, channel: str, value: Any, *, inline: int = INLINE) -> Node:
        kind, text = _dump_value(value, self.serde)
        if len(text) <= inline:
            return {"as": kind, "text": text}
        pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        return {"as": kind, "refs": [self._store(channel, each) for each in pieces]}

    def shorten(self, record: Any) -> Any:
        """Return a record that one key can hold."""
        text = json.dumps(record, ensure_ascii=False)
        if len(text) <= PIECE:
            return record
        return {"record": self.encode_leaf("", text)}

    def _chunk(self, channel: str, nodes: list[Node]) -> list[Node]:
        """Replace full chunks of the list by references; what is appended is last."""
        whole = len(nodes) - len(nodes) % CHUNK
        chunks = [
            {"chunk": self._store(channel, json.dumps(nodes[at : at + CHUNK]))}
            for at in range(0, whole, CHUNK)
        ]
        if len(chunks) >= CHUNK:
            chunks = self._chunk(channel, chunks)
        return [*chunks, *nodes[whole:]]

    def _store(self, channel: str, text: str) -> str:
        digest = self._digest(text.encode(), size=18)
        ref = f"{self._digest(_to_bytes(channel), size=6)}.{digest}"
        self.texts[f"v.{ref}"] = text
        return ref

    def _digest(self, plain: bytes, *, size: int) -> str:
        """Digest with the thread's secret: a name must not confirm a guessed text."""
        found = blake2b(plain, digest_size=size, key=self.secret).digest()
        return base64.urlsafe_b64encode(found).decode()


def decode_node(node: Node, texts: dict[str, str], serde: SerializerProtocol) -> Any:
    if "list" in node:
        return [
            value for leaf in node["list"] for value in _iter_leaf(leaf, texts, serde)
        ]
    text = node["text"] if "text" in node else "".join(texts[r] for r in node["refs"])
    kind: str = node["as"]
    if kind == "=text":
        return text
    if kind == "=json":
        return json.loads(text)
    return serde.loads_typed((kind, base64.b64decode(text)))


def _iter_leaf(
    leaf: Node, texts: dict[str, str], serde: SerializerProtocol
) -> Iterator[Any]:
    if "chunk" not in leaf:
        yield decode_node(leaf, texts, serde)
        return
    for each in json.loads(texts[leaf["chunk"]]):
        yield from _iter_leaf(each, texts, serde)


def _list_references(leaf: Node) -> list[str]:
    return [leaf["chunk"]] if "chunk" in leaf else leaf.get("refs", [])


def _dump_value(value: Any, serde: SerializerProtocol) -> tuple[str, str]:
    """Return kind and text: JSON if nothing is lost by it, else the serde's bytes.

    A serde that encrypts is never passed by.
    """
    if type(serde) is JsonPlusSerializer and _is_plain(value):
        text = value if type(value) is str else json.dumps(value, ensure_ascii=False)
        if "\0" not in text and _is_storable(text):
            return ("=text" if type(value) is str else "=json"), text
    kind, data = serde.dumps_typed(value)
    return kind, base64.b64encode(data).decode()


def _is_plain(value: Any) -> bool:
    """Return whether JSON gives the value back, types included."""
    if type(value) is dict:
        return all(type(key) is str and _is_plain(value[key]) for key in value)
    if type(value) is list:
        return all(_is_plain(each) for each in value)
    if type(value) is float:
        return value - value == 0  # neither infinite nor no number
    return value is None or type(value) in (str, int, bool)


def _is_storable(text: str) -> bool:
    """Return whether the text is UTF-8: the hub refuses half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Requests and their answers


def _set(key: str, value: Any) -> KeyChange:
    return {"op": "set", "key": key, "value": value}


def _cut_batches(changes: list[KeyChange]) -> list[list[KeyChange]]:
    batches: list[list[KeyChange]] = []
    size = MAX_BODY
    for change in changes:
        added = len(json.dumps(change)) + 2
        if size + added > MAX_BODY or len(batches[-1]) == MAX_CHANGES:
            batches.append([])
            size = 0
        batches[-1].append(change)
        size += added
    return batches


def _list_all(listing: Any) -> Steps[list[dict[str, Any]]]:
    items: list[dict[str, Any]] = []
    while True:
        part = yield listing
        items += part["items"]
        if part["next"] is None:
            return items
        listing = listing.going_on(part["next"])


def _list_threads() -> Steps[list[str]]:
    found = yield from _list_all(threads.list_all(labels=LABELS, limit=200))
    return [each["thread"] for each in found if each["thread"].startswith(PREFIX)]


def _read_texts(name: str, refs: list[str]) -> Steps[dict[str, str]]:
    """Read stored texts: a few by name, many by their channel. Raises TextVanished."""
    found: dict[str, str] = {}
    for channel in {ref.partition(".")[0] for ref in refs}:
        wanted = {ref for ref in refs if ref.startswith(f"{channel}.")}
        if len(wanted) <= FEW:
            for ref in wanted:
                try:
                    found[ref] = (yield keys.get(name, f"v.{ref}"))["value"]
                except NotFound as refusal:
                    raise TextVanished(ref) from refusal
            continue
        listing = keys.list_all(name, glob=f"v.{channel}.*", values=True, limit=200)
        for item in (yield from _list_all(listing)):
            found[item["key"].removeprefix("v.")] = item["value"]
        if gone := wanted - found.keys():
            raise TextVanished(min(gone))
    return found


def _has_all(metadata: Any, where: dict[str, Any]) -> bool:
    return all(metadata.get(name) == value for name, value in where.items())


def _merge_writes(calls: list[Any]) -> list[Any]:
    """Merge calls by task and position: the first write stays, a special one is last.

    In the order in which LangGraph applies writes.
    """
    merged: dict[tuple[str, int], Any] = {}
    for call in calls:
        for idx, channel, node in call["writes"]:
            place = (call["task"], idx)
            if idx < 0 or place not in merged:
                order = writes_sort_key(call["path"], *place)
                merged[place] = (order, channel, node)
    return sorted(merged.values(), key=lambda write: write[0])


def _list_outdated(found: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
    """List all but the latest checkpoint of each namespace, and its delta ancestors."""
    by_id = {
        (each.record["ns"], each.record["id"]): each for each in found if each.record
    }
    kept: set[tuple[str, str]] = set()
    for namespace in {namespace for namespace, _ in by_id}:
        latest = max(each for each in by_id if each[0] == namespace)
        deltas = {*(by_id[latest].metadata.get("counters_since_delta_snapshot") or ())}
        place: tuple[str, Any] = latest
        while place in by_id and place not in kept:
            kept.add(place)
            deltas -= by_id[place].record["values"].keys()
            place = (namespace, by_id[place].record["parent"] if deltas else None)
    return [by_id[place] for place in by_id.keys() - kept]
