"""Texts of a bundle: its README, how memory is processed, access and recipients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import orjson
from django.conf import settings
from django.db.models import Max, Min, Sum
from pydantic import TypeAdapter

from memoryhub.journal import audit
from memoryhub.kernel.registry import TYPES
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.projects import Project
from memoryhub.queries import nouns
from memoryhub.queries.export.bundle_cuts import BundleCut
from memoryhub.queries.export.bundle_files import Chunk, render_records
from memoryhub.queries.export.bundle_states import ThreadRecord
from memoryhub.queries.paging import page_states
from memoryhub.queries.people.recipients import list_recipients
from memoryhub.queries.replay.state_files import parse_name

ACCESS: Final = "access.jsonl"
RECIPIENTS: Final = "recipients.json"
#: Lines of access read at once.
BATCH: Final = 1_000

_README: Final = """\
# A person's memory

This archive holds all that is remembered of one person, `{subject}`, as of
{taken}: {threads:,} threads, {events:,} events.

Open `timeline.html` in a browser to read it. For programs:

| file | holds |
|---|---|
| `events.jsonl` | every event, oldest first, by thread; `content` is what was said. \
Episodes are its exchanges: from one message of the user to the next |
| `state/*.jsonl` | what that came to: threads, {nouns} |
| `state/assertions.jsonl` | facts, as the statements that they rest on |
| `state/pages.jsonl` | pages, blocks among them; their texts are in `events.jsonl` |
| `schemas/` | JSON Schemas: of the lines of files, and of bodies by the event's type |
| `access.jsonl` | who read it: API keys by day, operators by the minute |
| `recipients.json` | whom any of it was given to |
| `processing.md` | purposes, sources, how long it is kept |
| `manifest.json` | how far each thread goes, a SHA-256 of each file, a signature |

An event whose content was erased has `content` null, and in `erased` the number of
the event of its thread that took it.

To bring it into another MemoryHub: its command `import FILE.zip --format bundle`.
"""
_PROCESSING: Final = """\
# How this memory is processed

**Purposes.** Agents of the project remember what they were told and did, so that they
can go on from there; operators look after them.

**Sources.** The agents named as `actor` of each event. `import` is a recorded run that
an operator brought in, `worker:…` the upkeep of this server, `eraser:…` an erasure.

**Kinds.** Messages, pages, {nouns} and {last} of working memory, and
the events that tell when each came and went.

**How long.** {retention} {grace}
Backups of the memory are kept for {backup} days, those of its keys for {keys} days.
What is erased stays in them, sealed, until then.

**How it is kept.** Content is sealed under a key of this person's own, which is
destroyed when all of it is forgotten. Names that agents chose (of threads, senders,
keys, pages) stand beside it in the clear until their thread is erased.

**Rights.** Erasure, restriction and export are to be had from who runs the project.
"""


def render_readme(cut: BundleCut) -> bytes:
    return _README.format(
        subject=cut.subject.id,
        taken=cut.taken_at.isoformat(" ", "seconds"),
        threads=len(cut.parts),
        events=cut.events,
        nouns=", ".join(file.name for file in nouns.NOUNS),
    ).encode()


def render_processing(cut: BundleCut) -> bytes:
    project = Project.objects.get(id=cut.subject.project_id)
    days = project.retention_idle_days
    grace = project.expired_value_grace_seconds
    *memory, last = (f.name for f in nouns.NOUNS if f is not page_states.STATES)
    return _PROCESSING.format(
        nouns=", ".join(memory),
        last=last,
        retention="Until it is erased."
        if days is None
        else f"A thread that idles for {days:,} days is retired and erased.",
        grace="Values of keys that have expired stay in history."
        if grace is None
        else f"Values of keys leave history {grace:,} seconds after they expire.",
        backup=settings.BACKUP_DAYS,
        keys=settings.KEYS_BACKUP_DAYS,
    ).encode()


def iter_access_chunks(cut: BundleCut) -> Iterator[Chunk]:
    """Yield `access.jsonl`: uses of keys by day, then operators' reads of content."""
    return render_records(chain(_iter_daily_uses(cut), _iter_content_reads(cut)))


def _iter_daily_uses(cut: BundleCut) -> Iterator[dict[str, Any]]:
    rows = DailyUse.objects.filter(subject=cut.subject.id).order_by("day", "key_id")
    days = rows.values_list("day", "key__prefix", "reads", "writes")
    for day, prefix, reads, writes in days.iterator(chunk_size=BATCH):
        yield {
            "kind": "agent",
            "day": day,
            "who": f"agent:{prefix}",
            "reads": reads,
            "writes": writes,
        }


def _iter_content_reads(cut: BundleCut) -> Iterator[dict[str, Any]]:
    pseudonym = audit.find_pseudonym(cut.subject.id)
    rows = AuditEntry.objects.filter(
        project=cut.subject.project_id, action="content.read", subject=pseudonym
    )
    for row in rows.order_by("seq").iterator(chunk_size=BATCH):
        yield {
            "kind": row.actor_kind,
            "at": row.at,
            "who": f"{row.actor_kind}:{row.actor_ref}",
            "purpose": row.purpose,
            "target": row.target_id,
            "first_seq": row.first_seq,
            "last_seq": row.last_seq,
        }


def render_recipients(cut: BundleCut) -> bytes:
    """Return `recipients.json`: who read content, and where copies of it went."""
    rows = DailyUse.objects.filter(subject=cut.subject.id)
    given = rows.values("key__prefix").annotate(
        first=Min("day"), last=Max("day"), reads=Sum("reads"), writes=Sum("writes")
    )
    agents = [
        {
            "kind": "agent",
            "who": f"agent:{row['key__prefix']}",
            "first_day": row["first"],
            "last_day": row["last"],
            "reads": row["reads"],
            "writes": row["writes"],
        }
        for row in given.order_by("key__prefix")
    ]
    looked: dict[str, dict[str, Any]] = {}
    for look in _iter_content_reads(cut):
        found = looked.setdefault(
            look["who"],
            {"kind": look["kind"], "who": look["who"], "first_at": look["at"]},
        )
        found |= {"last_at": look["at"], "looks": found.get("looks", 0) + 1}
    listed = [*agents, *(looked[who] for who in sorted(looked))]
    # Exports, projects that imported the memory, and hosts of language models.
    copies = list_recipients(cut.subject.id)
    whole = [each for each in copies if not each.startswith("key:")]
    plain = {"recipients": listed, "copies": whole}
    return orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n"


def build_schemas() -> Mapping[str, bytes]:
    """Return the JSON schema of each file's lines and of event bodies, by path."""
    shapes: dict[str, Any] = {
        f"schemas/events/{kind}.json": event.model_json_schema(by_alias=True)
        for kind, event in TYPES.items()
    }
    shapes["schemas/threads.json"] = _build_schema(ThreadRecord)
    for path, file in nouns.FILES.items():
        shapes[build_schema_path(path)] = _build_schema(file.record)
    shapes["schemas/events.json"] = _EVENT
    return {
        path: orjson.dumps(shapes[path], option=orjson.OPT_INDENT_2) + b"\n"
        for path in sorted(shapes)
    }


def build_schema_path(path: str) -> str:
    """Return the path of the schema of a file's lines."""
    return f"schemas/{parse_name(path)}.json"


def _build_schema(record: type[Any]) -> dict[str, Any]:
    return TypeAdapter(record).json_schema(mode="serialization")


_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "minimum": 1}
_EVENT: Final = {
    "title": "Event",
    "description": "One event of a thread, in its place. `body` by its type.",
    "type": "object",
    "properties": {
        "thread": {**_TEXT, "format": "uuid"},
        "seq": _WHOLE,
        "type": {"enum": sorted(TYPES)},
        "at": {**_TEXT, "format": "date-time"},
        "actor": _TEXT,
        "body": {"type": "object"},
        "content": {"type": ["object", "null"]},
        "erased": {"anyOf": [_WHOLE, {"type": "null"}]},
        "chain": {**_TEXT, "pattern": "^[0-9a-f]{64}$"},
    },
    "required": [
        *("thread", "seq", "type", "at", "actor"),
        *("body", "content", "erased", "chain"),
    ],
    "additionalProperties": False,
}
