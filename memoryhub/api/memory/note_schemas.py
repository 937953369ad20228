"""Notes on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import MAX_BATCH, In, Out, RefusedError, example
from memoryhub.api.document.memory_fields import sized, text_schema
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.memory.newest import Newest

_MAX_BYTES: Final = 16 * 1024
NoteText = Annotated[str, sized(_MAX_BYTES, least=1), text_schema(_MAX_BYTES, least=1)]

NOTE = {"seq": 43, "at": AT, "bytes": 64, "text": "The fare allows one free change."}
_ADDED = {"seq": 43, "at": AT, "trimmed": 0}


class NotesQuery(AsOf, Pagination):
    order: Literal["asc", "desc"] = "asc"
    content: Literal["full", "none"] = "full"


class NoteIn(In):
    model_config = example({"text": NOTE["text"]})

    text: NoteText


def _batch(items: list[NoteIn]) -> list[NoteIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    return items


class NotesIn(In):
    model_config = example({"items": [{"text": NOTE["text"]}]})

    items: Annotated[
        list[NoteIn],
        AfterValidator(_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class AddedOut(Out):
    model_config = example(_ADDED)

    seq: int
    at: datetime
    trimmed: int = Field(description="Oldest notes that left the scratchpad for it.")


class AddedBatchOut(Out):
    model_config = example({"items": [_ADDED]})

    items: list[AddedOut]


class NoteOut(Out):
    seq: int
    at: datetime
    bytes: int
    text: str | None


class NotesOut(Out):
    model_config = example({"items": [NOTE], "next": None})

    items: list[NoteOut]
    next: str | None


NEWEST = Newest(
    name="notes", kind=list[NoteOut], example=NOTE, figures={"note_bytes": 32}
)
