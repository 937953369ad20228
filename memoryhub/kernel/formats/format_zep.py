"""The format `zep`: pages of Zep's API, in any order.

Pure. Zep writes no export of its own: a file holds what its lists return. The messages
of each thread are a thread. Each edge of the graph is a claim: its source node, its
name and its fact, with the times from which and until which the fact is valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedClaim,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    Omission,
    get_code,
    is_empty,
    parse_record,
    read_message,
    read_user_id,
    render_limits,
    require_thread_name,
)
from memoryhub.kernel.knowledge.facts import NewFact
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json, times
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = strict_json.JsonLimits(
    max_bytes=64 * 1_048_576, max_nodes=1_000_000, content=True
)
#: Members that hold lists of records.
_LISTS = ("messages", "edges", "items", "threads", "nodes", "users")
#: Members that name the thread or user of the records below.
_SCOPE = ("thread_uuid", "thread_id", "user_uuid", "user_id")
_MESSAGE = frozenset({
    *(*_SCOPE, "role", "role_type", "content", "uuid", "created_at", "processed"),
})  # fmt: skip
#: Members of an edge that make the claim, or only identify it in Zep.
_EDGE = frozenset({
    *("fact", "name", "valid_at", "invalid_at", "expired_at", "created_at", "uuid"),
    *("source_node_name", "source_node_uuid", "target_node_uuid"),
    *("graph_uuid", *_SCOPE),
})  # fmt: skip

#: Members with which Zep's pages count their records.
_PAGING = frozenset({"row_count", "total_count", "total_size", "next_cursor"})

Members = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ZepRecord:
    """A message or edge, the thread and user of its page, and its place."""

    value: Members
    scope: Members
    record: FileRecord


@dataclass(slots=True)
class _ZepFile:
    """All records of a file."""

    messages: dict[str, list[_ZepRecord]] = field(default_factory=dict)
    #: Ids and texts of the messages.
    seen: set[tuple[str, str]] = field(default_factory=set)
    edges: list[_ZepRecord] = field(default_factory=list)
    #: Names of nodes, and ids of users by Zep's own ids; users of threads.
    nodes: dict[str, str] = field(default_factory=dict)
    users: dict[str, Any] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)

    def add(self, value: Any, scope: Members, record: FileRecord, kind: str) -> None:
        """Sort a value into the file's records, and all that stands in its lists."""
        if isinstance(value, list):
            for each in value:
                self.add(each, scope, record, kind)
            return
        if not isinstance(value, dict):
            self.parts["unknown"] += 1
            return
        below = {**scope, **{n: v for n in _SCOPE if (v := value.get(n))}}
        lists = [name for name in _LISTS if isinstance(value.get(name), list)]
        if kind == "threads" or (lists and "thread_id" in value):
            thread = str(value.get("uuid") or value.get("thread_id"))
            below["thread_uuid"] = thread
            self.users[thread] = value.get("user_id") or value.get("user_uuid")
        found = _ZepRecord(value=value, scope=below, record=record)
        if isinstance(value.get("fact"), str):
            self.edges.append(found)
        elif can_be_message(value):
            named = below.get("thread_uuid") or below.get("thread_id") or ""
            self._add_message(str(named), found)
        elif not lists and kind != "threads":
            self._add_other(value, kind)
        for name in lists:
            self.add(value[name], below, record, name)

    def _add_message(self, thread: str, found: _ZepRecord) -> None:
        """Add a message to its thread, once where pages overlap."""
        key = (str(found.value.get("uuid") or ""), str(found.value["content"]))
        if not key[0] or key not in self.seen:
            self.seen.add(key)
            self.messages.setdefault(thread, []).append(found)

    def _add_other(self, value: Members, kind: str) -> None:
        """Count a record that has no place, and note the name of a node or user."""
        own = str(value.get("uuid"))
        if kind == "users":
            self.users[own] = value.get("user_id")
        elif kind == "nodes" or "labels" in value:
            kind = "nodes"
            self.nodes[own] = str(value.get("name") or "")
        self.parts[kind or "unknown"] += 1

    def find_user(self, found: _ZepRecord, options: ImportOptions) -> str | None:
        """Find the subject's id: the operator's, the file's, or Zep's own."""
        scope = found.scope
        named = scope.get("user_id") or self.users.get(str(scope.get("thread_uuid")))
        named = named or scope.get("user_uuid")
        return options.user_id or read_user_id(self.users.get(str(named)) or named)


def can_be_message(value: Any) -> bool:
    """Return whether a value has the members of a message."""
    return isinstance(value, dict) and "content" in value and "role" in value


def can_be_file(value: Any) -> bool:
    """Return whether a value may be the first record: a page, or an edge."""
    if not isinstance(value, dict) or "core_memory" in value:
        return False
    if "fact" in value:
        return "source_node_uuid" in value
    if isinstance(value.get("edges"), list):
        return True
    lists = any(isinstance(value.get(name), list) for name in ("items", "messages"))
    return lists and not _PAGING.isdisjoint(value)


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedRun for each thread, and an ImportedClaim for each edge.

    Holds the whole file: names of nodes and users may follow their edges.
    """
    file = _ZepFile()
    for record in found:
        value = record
        if isinstance(record, FileRecord):
            value = parse_record(record, LIMITS)
        if isinstance(value, BadRecord):
            yield value
        elif isinstance(record, FileRecord):
            file.add(value, {}, record, "")
    for number, (thread, messages) in enumerate(file.messages.items()):
        yield _read_thread(file, thread, messages, number, options)
    for number, edge in enumerate(file.edges):
        yield _read_edge(file, edge, number, options)
    if file.parts:
        yield Omission(parts=file.parts)


def _read_thread(
    file: _ZepFile,
    thread: str,
    found: list[_ZepRecord],
    number: int,
    options: ImportOptions,
) -> ImportedRun | BadRecord:
    record, nth, calls = found[0].record, None, Calls()
    found = sorted(found, key=_build_time_key)
    try:
        name = f"{options.source}:{thread}" if thread else options.source
        built = ImportedThread(
            name=require_thread_name(name),
            user_id=file.find_user(found[0], options),
            scope=ScopeLabels(agent_type=options.agent_type or options.source),
            labels={"source": options.source, "format": "zep"},
            format="zep",
        )
        messages = list[ImportedMessage]()
        for index, each in enumerate(found):
            nth = index
            at = each.value.get("reference_time") or each.value.get("created_at")
            messages.append(
                read_message(
                    _build_content(each.value),
                    thread=name,
                    calls=calls,
                    agent_at=times.parse_instant(at),
                )
            )
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), run=number, message=nth, detail=render_limits(refusal)
        )
    return ImportedRun(
        thread=built, messages=tuple(messages), index=number, place=record.place
    )


def _build_time_key(found: _ZepRecord) -> tuple[str, str]:
    """Build a key of a message's time; as text, Zep's times have no order.

    Zep leaves out the last zeros of a second's fraction. What Python cuts off a
    fraction, behind the microsecond, is compared last.
    """
    text = str(found.value.get("created_at") or "")
    at = times.parse_instant(text)
    return (at.isoformat(timespec="microseconds") if at else "", text.rstrip("Zz"))


def _build_content(value: Members) -> Members:
    """Build the message; older versions have the role in role_type, a name in role."""
    role, kind = value.get("role"), value.get("role_type")
    rest = {n: v for n, v in value.items() if n not in _MESSAGE and not is_empty(v)}
    if isinstance(kind, str) and kind in ROLES:
        rest |= {"name": role} if role else {}
        role = kind
    return {"role": role, "content": value.get("content"), **rest}


def _read_edge(
    file: _ZepFile, edge: _ZepRecord, number: int, options: ImportOptions
) -> ImportedClaim | BadRecord:
    value, record = edge.value, edge.record
    node = file.nodes.get(str(value.get("source_node_uuid")))
    begin = times.parse_instant(value.get("valid_at") or value.get("created_at"))
    try:
        user_id = file.find_user(edge, options)
        if begin is None:
            raise InvalidError(code="time", loc="valid_at")
    except InvalidError as refusal:
        return record.build_bad(get_code(refusal), message=number)
    if user_id is None:
        file.parts["edges.without_user"] += 1
    file.parts.update(
        f"edge.{name}"
        for name, member in value.items()
        if name not in _EDGE and not is_empty(member)
    )
    fact = NewFact(
        entity=str(value.get("source_node_name") or node or "user"),
        predicate=str(value.get("name") or "fact"),
        value=value["fact"],
        origin="import",
        valid_from=begin,
        valid_until=times.parse_instant(
            value.get("invalid_at") or value.get("expired_at")
        ),
        many=True,
    )
    return ImportedClaim(
        user_id=user_id,
        fact=fact,
        index=number,
        place=record.place,
    )
