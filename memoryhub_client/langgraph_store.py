"""LangGraph store: items of agents as keys of the hub's threads.

store = MemoryHubStore(Client("http://127.0.0.1:8000", key), person_part=1)
store.put(("memories", "user-7"), "seat", {"text": "Likes the window."})
graph = builder.compile(store=store)

It answers as LangGraph's own stores do, with these choices:

- In a batch, all reads see the store as before the batch. Of several puts to a key,
  the last alone is carried out. The writes to one thread are one transaction, up to 200
  or 900 kB; the requests of a batch are not one.
- A search without a query is by last write, latest first. A rewrite resets
  `created_at`; both times are the hub's, with a zone. Items that one batch writes to
  several threads are in the order of the threads.
- A search with a query ranks items by the hub's search for its words, best first with a
  score. It has at most 50 hits in a thread, past values among them; the other items
  follow by last write, without a score. `index` is ignored: all items are searched.
- An item is gone when its TTL ends by the hub's clock, up to a second late, and nothing
  revives it. A TTL is a whole number of seconds, rounded up, of at most a year. With
  `refresh_on_read` each read item is written anew, so that both its times change.
- A value is JSON: a tuple comes back as a list. What the hub does not take is its
  refusal: above 256 KiB or 32 levels, or a NUL in a text.
- Deleting hides: the hub's history keeps values until an erasure.
- Filters are described in `memoryhub_client.langgraph_filters`.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast

from memoryhub_client import keys, searches, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import cut_batches
from memoryhub_client.client import Client
from memoryhub_client.escapes import escape_name
from memoryhub_client.extras import require_extra
from memoryhub_client.langgraph_filters import is_match
from memoryhub_client.langgraph_items import (
    ItemThread,
    Namespace,
    StoredItem,
    is_below,
    is_long,
)
from memoryhub_client.langgraph_keys import (
    CONFIG,
    Changes,
    allow_repeats,
    list_everything,
    set_key,
)
from memoryhub_client.problems import Conflict, Invalid, NotFound
from memoryhub_client.steps import Steps, arun_steps, run_steps
from memoryhub_client.threads import Making

with require_extra("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        validate_op_namespace,
    )

#: The hub's limits: characters and words of a query, and hits of a search.
MAX_QUERY, MAX_WORDS, MAX_HITS = 1_000, 64, 50


@dataclass(slots=True)
class OpBatch:
    """Results of a batch's reads, and what is left to write."""

    results: list[Result] = field(default_factory=list)
    #: The last put of each key, in the order of these.
    puts: dict[tuple[Namespace, str], PutOp] = field(default_factory=dict)
    #: Read items whose TTL begins anew, by thread and name.
    refreshed: dict[tuple[str, str], StoredItem] = field(default_factory=dict)


class MemoryHubStore(BaseStore):
    """A store that keeps items in the hub's thread `store:<name>`.

    With an `AsyncClient`, only the `a…` methods can be called. With a `Client`, they
    run in a worker thread. A refusal is the client's exception: `Forbidden` for a key
    without the scope, `Gone` for an erased thread, `TooLarge` for a large value.

    Erasing a person erases the person's threads. `user_id` is the person to whom the
    whole store belongs. `person_part` is for a store of many: it is the position of the
    user id in namespaces, 1 for `("memories", user_id)`. Each person's items then lie
    in a thread of the person's, which a key bound to another person cannot read.
    Namespaces without that part lie in the store's own thread. The part must be a user
    id that the hub takes: one line, not only of `*` and `%`. The hub uses no name of an
    erased thread again: a readmitted person needs a store with another `name`.
    """

    supports_ttl = True

    def __init__(
        self,
        hub: Client | AsyncClient,
        *,
        name: str = "main",
        user_id: str | None = None,
        person_part: int | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.hub, self.user_id, self.person_part = hub, user_id, person_part
        self.ttl_config = ttl
        self.thread = f"store:{escape_name(name)}"
        self.labels = {"kind": "langgraph-store", "store": escape_name(name)}
        #: Threads of persons by name, and names of threads that exist.
        self._persons: dict[str, ItemThread] = {}
        self._opened: set[str] = set()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out reads, then writes. Raises Problem, Unreachable."""
        if isinstance(self.hub, AsyncClient):
            raise TypeError("With an AsyncClient, call the method that begins with a.")
        return run_steps(self.hub, self._carry_out([*ops]))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out reads, then writes. Raises Problem, Unreachable."""
        if isinstance(self.hub, Client):
            return await asyncio.to_thread(self.batch, [*ops])
        return await arun_steps(self.hub, self._carry_out([*ops]))

    def _carry_out(self, ops: list[Op]) -> Steps[list[Result]]:
        batch = OpBatch()
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                # Popped, so that the last put also has its place in the order.
                batch.puts.pop((op.namespace, op.key), None)
                batch.puts[op.namespace, op.key] = op
        for op in ops:
            batch.results.append((yield from self._read(op, batch)))
        for item in batch.refreshed.values():
            # Not an item that was rewritten or deleted since.
            with suppress(Conflict, NotFound):
                yield keys.retime(
                    item.thread,
                    item.name,
                    ttl_seconds=item.ttl_seconds,
                    if_match=item.seq,
                )
        yield from self._write([*batch.puts.values()])
        return batch.results

    # Reading

    def _read(self, op: Op, batch: OpBatch) -> Steps[Result]:
        if isinstance(op, GetOp):
            found = yield from self._get(op)
            self._refresh(op, [found] if found else [], batch)
            return Item(**_build_fields(found)) if found else None
        if isinstance(op, SearchOp):
            ranked = yield from self._search(op)
            self._refresh(op, [item for item, _ in ranked], batch)
            return [
                SearchItem(**_build_fields(item), score=score) for item, score in ranked
            ]
        if isinstance(op, ListNamespacesOp):
            return (yield from self._list_namespaces(op))
        if isinstance(op, PutOp):
            return None
        raise ValueError(f"unknown operation: {type(op).__name__}")

    def _refresh(
        self, op: GetOp | SearchOp, items: list[StoredItem], batch: OpBatch
    ) -> None:
        if op.refresh_ttl and (self.ttl_config or {}).get("refresh_on_read"):
            expiring = [item for item in items if item.expires_at]
            batch.refreshed |= {(item.thread, item.name): item for item in expiring}

    def _get(self, op: GetOp) -> Steps[StoredItem | None]:
        thread = self._choose_thread(op.namespace)
        try:
            found = yield keys.get(
                thread.name, thread.build_name(op.namespace, str(op.key))
            )
        except NotFound:
            return None
        return thread.parse_item(found)

    def _search(self, op: SearchOp) -> Steps[list[tuple[StoredItem, float | None]]]:
        is_match({}, op.filter or {})  # Raises ValueError whatever is stored.
        prefix, items = tuple(op.namespace_prefix), list[StoredItem]()
        scores: dict[tuple[str, str], float] = {}
        for thread in (yield from self._list_threads(prefix)):
            listed = yield from self._list_keys(thread, prefix, values=True)
            found = [thread.parse_item(each) for each in listed]
            items += [
                item
                for item in found
                if is_below(item.namespace, prefix)
                and is_match(item.value, op.filter or {})
            ]
            if op.query and found:
                hits = yield from _search_words(thread.name, op.query)
                scores |= _list_scores(found, hits)
        items.sort(key=lambda item: (item.at, item.seq), reverse=True)
        ranked = [(item, scores.get((item.thread, item.name))) for item in items]
        ranked.sort(key=lambda each: math.inf if each[1] is None else -each[1])
        return ranked[op.offset : op.offset + op.limit]

    def _list_namespaces(self, op: ListNamespacesOp) -> Steps[list[Namespace]]:
        conditions = op.match_conditions or ()
        prefix = _find_prefix(conditions)
        found: set[Namespace] = set()
        for thread in (yield from self._list_threads(prefix)):
            for each in (yield from self._list_keys(thread, prefix)):
                if not is_long(each["key"]):
                    found.add(thread.parse_name(each["key"])[0])
            # A long name does not tell its namespace: its value does.
            for each in (yield from self._list_keys(thread, prefix, "@@*")):
                found.add(thread.parse_item(each).namespace)
        chosen = {
            namespace[: op.max_depth]
            for namespace in found
            if all(_has_match(namespace, each) for each in conditions)
        }
        return sorted(chosen)[op.offset : op.offset + op.limit]

    def _list_keys(
        self,
        thread: ItemThread,
        prefix: Namespace,
        end: str = "",
        *,
        values: bool = False,
    ) -> Steps[list[dict[str, Any]]]:
        """List keys below a prefix, with `end` only long names, and their values."""
        listing = keys.list_all(
            thread.name,
            glob=thread.build_glob(prefix) + end,
            values=values or bool(end),
            limit=200,
        )
        try:
            return (yield from list_everything(listing))
        except NotFound:
            return []

    # Threads

    def _choose_thread(self, namespace: Namespace) -> ItemThread:
        part = self.person_part
        if part is None or len(namespace) <= part:
            return ItemThread(self.thread)
        person = namespace[part]
        digest = blake2b(person.encode(errors="surrogatepass"), digest_size=16)
        return ItemThread(f"{self.thread}:{digest.hexdigest()}", part, person)

    def _list_threads(self, prefix: Namespace) -> Steps[list[ItemThread]]:
        """List the threads with namespaces below a prefix: one, or also of persons."""
        own = self._choose_thread(prefix)
        if self.person_part is None or own.person is not None:
            return [own]
        found = [own]
        listing = threads.list_all(labels=self.labels, limit=200)
        for each in (yield from list_everything(listing)):
            name = each["thread"]
            if name == self.thread or each["status"] == "erased":
                continue
            if name not in self._persons:
                # A thread without it has nothing yet.
                with suppress(NotFound):
                    about = (yield keys.get(name, "about"))["value"]
                    self._persons[name] = self._choose_thread_of(about["user_id"])
            found += [self._persons[name]] if name in self._persons else []
        return found

    def _choose_thread_of(self, person: str) -> ItemThread:
        return self._choose_thread(("",) * cast("int", self.person_part) + (person,))

    # Writing

    def _write(self, puts: list[PutOp]) -> Steps[None]:
        changes: dict[ItemThread, Changes] = {}
        for op in puts:
            thread = self._choose_thread(op.namespace)
            changes.setdefault(thread, []).append(_build_change(thread, op))
        for thread, each in changes.items():
            if any(change["op"] == "set" for change in each):
                each[:0] = yield from self._open(thread)
            for batch in cut_batches(each):
                # Without the thread, there is nothing to delete.
                with suppress(NotFound):
                    yield allow_repeats(keys.batch(thread.name, batch))
                    self._opened.add(thread.name)

    def _open(self, thread: ItemThread) -> Steps[Changes]:
        """Make the thread if need be; return the change that says whose it is."""
        if thread.name in self._opened:
            return []
        making: Making = {"labels": self.labels, "config": CONFIG}
        person = thread.person or self.user_id
        if person is not None:
            making["user_id"] = person
        yield threads.put(thread.name, **making)
        return [set_key("about", {"user_id": thread.person})] if thread.person else []


def _build_change(thread: ItemThread, op: PutOp) -> Any:
    """Build the change of a put. Raises TypeError, ValueError unless it is JSON."""
    if op.value is None:
        return {"op": "delete", "key": thread.build_name(op.namespace, str(op.key))}
    value = dict(op.value)
    if any(type(name) is not str for name in value):
        raise TypeError("A value's names must be texts.")
    json.dumps(value, allow_nan=False)
    ttl = None if op.ttl is None else math.ceil(op.ttl * 60)
    return thread.build_set(op.namespace, str(op.key), value, ttl)


def _build_fields(item: StoredItem) -> dict[str, Any]:
    times = {"created_at": item.at, "updated_at": item.at}
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        **times,
    }


def _search_words(thread: str, query: str) -> Steps[list[dict[str, Any]]]:
    """Search for the words; the hub's filters and phrases in them count as words.

    Words of a long query are left out at its end.
    """
    words = re.sub(r'[":]', " ", query)[:MAX_QUERY].split()[:MAX_WORDS]
    while words:
        request = searches.search(
            thread, " ".join(words), kinds=["value"], limit=MAX_HITS
        )
        try:
            return cast("list[dict[str, Any]]", (yield request)["items"])
        except Invalid:
            # The hub counts parts of a word, too.
            words = words[: len(words) // 2]
    return []


def _list_scores(
    items: list[StoredItem], hits: list[dict[str, Any]]
) -> dict[tuple[str, str], float]:
    """List the scores of present values: the hub finds past values of a key, too.

    A refreshed item has a later seq than its value has.
    """
    stored = {item.name: item for item in items}
    scores: dict[tuple[str, str], float] = {}
    for hit in sorted(hits, key=lambda hit: cast("int", hit["seq"])):
        item = stored.get(hit["key"])
        if item and (item.seq == hit["seq"] or item.expires_at):
            scores[item.thread, item.name] = hit["score"]
    return scores


def _find_prefix(conditions: Sequence[MatchCondition]) -> Namespace:
    """Find the longest prefix that conditions require, up to a `*`."""
    prefixes: list[Namespace] = [()]
    for each in conditions:
        if each.match_type == "prefix":
            path = (*each.path, "*")
            prefixes.append(tuple(path[: path.index("*")]))
    return max(prefixes, key=len)


def _has_match(namespace: Namespace, condition: MatchCondition) -> bool:
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"unknown match type: {condition.match_type}")
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    at = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    pairs = zip(namespace[at:], path, strict=False)
    return all(wanted in ("*", label) for label, wanted in pairs)
