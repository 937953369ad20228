"""The format `mem0`: memories as mem0's `get_all` returns them.

Pure. A file is an array of memories, or pages whose `results` are memories. The
memories of each user, agent, app and run become the messages of one thread, by time.

A memory is a free sentence without entity, predicate and valid time, and is thus no
claim. Consolidation may derive claims from the threads.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.records import BadRecord, FileRecord, find_elements
from memoryhub.kernel.formats.transcripts import (
    MESSAGE,
    Calls,
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
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import names, strict_json, times
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = strict_json.JsonLimits(
    max_bytes=64 * 1_048_576, max_nodes=1_000_000, content=True
)
#: Members of a page that may hold its memories.
PAGES = ("results", "memories")
#: Members of a page that only count or link the pages.
_PAGING = frozenset({*PAGES, "count", "next", "previous"})
#: Members that say whose a memory is: they name the thread.
_SCOPE = ("user_id", "agent_id", "app_id", "run_id")
#: Members without meaning outside mem0's own store.
_UNPLACED = ("hash", "score", "score_details")


class _Memory(NamedTuple):
    """One memory of a file, with its place."""

    #: Sort key: mem0 lists memories in no order of its own.
    at: str
    id: str
    value: dict[str, Any]
    record: FileRecord


def can_be_file(value: Any) -> bool:
    """Return whether a value may be the file's first record: a memory or a page."""
    if not isinstance(value, dict):
        return False
    found = [each for name in PAGES if isinstance(each := value.get(name), list)]
    first = next(iter(found[0]), None) if found else value
    return isinstance(first, dict) and isinstance(first.get("memory"), str)


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield the bad memories, then an ImportedRun for each user, agent, app and run.

    Holds all memories of the file: mem0's order differs from one export to the next.
    """
    threads, parts = defaultdict[str, list[_Memory]](list), Counter[str]()
    # Pages may overlap.
    seen = set[tuple[str, str]]()
    for record in _iter_memories(found, parts):
        item = record if isinstance(record, BadRecord) else _read_memory(record)
        if isinstance(item, BadRecord):
            yield item
        elif (key := (item.id, item.value["memory"])) not in seen or not item.id:
            seen.add(key)
            threads[_digest_scope(item.value)].append(item)
    for digest, memories in threads.items():
        yield _build_run(digest, sorted(memories, key=lambda each: each[:2]), options)
        for memory in memories:
            parts.update(
                f"memory.{name}"
                for name in _UNPLACED
                if not is_empty(memory.value.get(name))
            )
    if parts:
        yield Omission(parts=parts)


def _iter_memories(
    found: Iterator[FileRecord | BadRecord], parts: Counter[str]
) -> Iterator[FileRecord | BadRecord]:
    """Yield a record for each memory, and count the other members of pages."""
    index = 0
    for record in found:
        page = record if isinstance(record, BadRecord) else parse_record(record, LIMITS)
        if isinstance(page, BadRecord) or isinstance(record, BadRecord):
            yield page
            continue
        member = next((name for name in PAGES if _has_list(page, name)), None)
        spans = [(0, len(record.raw))]
        if member is not None:
            spans = [*find_elements(record.raw, member=member.encode())]
            for name, value in page.items():
                if name not in _PAGING and not is_empty(value):
                    parts[name] += len(value) if isinstance(value, list | dict) else 1
        for begin, end in spans:
            place = record.build_bad("", begin).place
            yield FileRecord(raw=record.raw[begin:end], index=index, place=place)
            index += 1


def _has_list(page: Any, name: str) -> bool:
    return isinstance(page, dict) and isinstance(page.get(name), list)


def _read_memory(record: FileRecord) -> _Memory | BadRecord:
    value = parse_record(record, MESSAGE)
    if isinstance(value, BadRecord):
        return value
    try:
        if not isinstance(value, dict):
            raise InvalidError(code="object_expected")
        if not isinstance(value.get("memory"), str):
            raise InvalidError(code="missing", loc="memory")
        read_user_id(value.get("user_id"))
        _build_message(value, ())
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), message=record.index, detail=render_limits(refusal)
        )
    at = _parse_time(value.get("created_at"))
    return _Memory(
        at=at.isoformat() if at else "",
        id=str(value.get("id") or ""),
        value=value,
        record=record,
    )


def _parse_time(text: Any) -> datetime | None:
    """Parse a memory's time; one without an offset is in UTC, as mem0 reads it."""
    found = times.parse_instant(text)
    return found or (times.parse_instant(f"{text}+00:00") if text else None)


def _digest_scope(value: dict[str, Any]) -> str:
    """Return a digest of whose a memory is, as a name must not tell a user's id."""
    scope = strict_json.dump_canonical([value.get(name) for name in _SCOPE])
    return hashlib.blake2b(scope, digest_size=8).hexdigest()


def _build_run(
    digest: str, memories: list[_Memory], options: ImportOptions
) -> ImportedRun:
    first = memories[0]
    labels: dict[str, LabelValue] = {"source": options.source, "format": "mem0"}
    named = {name: first.value.get(name) for name in _SCOPE[1:]}
    placed = {
        name: value
        for name, value in named.items()
        if isinstance(value, str) and names.is_valid(value)
    }
    if "app_id" in placed:
        labels["app_id"] = placed["app_id"]
    thread = ImportedThread(
        name=require_thread_name(f"{options.source}:{digest}"),
        user_id=options.user_id or read_user_id(first.value.get("user_id")),
        scope=ScopeLabels(
            agent_type=options.agent_type or options.source,
            agent_instance=placed.get("agent_id"),
            session=placed.get("run_id"),
        ),
        labels=labels,
        format="mem0",
    )
    return ImportedRun(
        thread=thread,
        messages=tuple(_build_message(each.value, placed) for each in memories),
        index=first.record.index,
        place=first.record.place,
    )


def _build_message(value: dict[str, Any], placed: Any) -> ImportedMessage:
    """Build the message of a memory; members in `placed` are the thread's.

    A memory kept word for word has the role of who said it. A memory that mem0's model
    inferred was said by nobody, and has the role system.
    """
    role = value.get("role")
    has_role = isinstance(role, str) and role in ROLES
    out = {*placed, *_UNPLACED, "memory", "user_id", "role", "content"}
    rest = {n: v for n, v in value.items() if n not in out and not is_empty(v)}
    if not has_role and role is not None:
        rest["sender"] = role
    content = {
        "role": role if has_role else "system",
        "content": value["memory"],
        **rest,
    }
    at = _parse_time(value.get("created_at"))
    return read_message(content, thread="", calls=Calls(), agent_at=at)
