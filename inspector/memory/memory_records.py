"""Records: working memory as JSON, as the agent API words it. Pure."""

from __future__ import annotations

from inspector.drawing.memories import Jotted
from inspector.web.records import Record
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.keys import KeyLine

#: The fields of each kind of record, in order: the headings of a table.
KEY = (
    "thread", "key", "bytes", "version", "expires_at", "set_at", "set_by",
    "inherited",
)  # fmt: skip
NOTE = ("thread", "seq", "at", "by", "bytes")
CHECKPOINT = (
    "thread", "seq", "name", "at", "by", "auto", "parent", "keys", "notes",
    "has_task", "touched",
)  # fmt: skip
#: What is added to each when its content is asked for.
KEY_CONTENT = ("value", "erased")
NOTE_CONTENT = ("text",)
CHECKPOINT_CONTENT = ("description",)


def key(thread: str, line: KeyLine, *, content: bool = True) -> Record:
    record = {
        "thread": thread,
        "key": line.name,
        "bytes": line.bytes,
        "version": line.version,
        "expires_at": line.expires_at.isoformat() if line.expires_at else None,
        "set_at": line.set_at.isoformat(),
        "set_by": line.set_by,
        "inherited": line.inherited,
    }
    if not content:
        return record
    return record | {"value": line.value, "erased": line.erased}


def note(thread: str, line: Jotted, *, content: bool = True) -> Record:
    record = {
        "thread": thread,
        "seq": line.seq,
        "at": line.at.isoformat(),
        "by": line.by,
        "bytes": line.bytes,
    }
    return record | {"text": line.text} if content else record


def checkpoint(thread: str, line: CheckpointLine, *, content: bool = True) -> Record:
    record = {
        "thread": thread,
        "seq": line.seq,
        "name": line.name,
        "at": line.at.isoformat(),
        "by": line.by,
        "auto": line.auto,
        "parent": line.parent,
        **line.counts,
        "touched": line.touched,
    }
    return record | {"description": line.description} if content else record
