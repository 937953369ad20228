"""Blocks on the wire."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memoryhub.api.document.fields import In, Out, counted, example, within
from memoryhub.api.document.memory_fields import sized, text_schema
from memoryhub.api.document.samples import SUBJECT_ID, THREAD_ID
from memoryhub.api.document.schemas import AsOf
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES
from memoryhub.kernel.text.strict_json import MAX_INTEGER

By = Literal["user", "model", "tool"]
_MAX_DESCRIPTION = 1024
BlockText = Annotated[
    str, sized(MAX_BLOCK_BYTES, least=0), text_schema(MAX_BLOCK_BYTES, least=0)
]
Part = Annotated[
    str, sized(MAX_BLOCK_BYTES, least=1), text_schema(MAX_BLOCK_BYTES, least=1)
]
Description = Annotated[
    str, sized(_MAX_DESCRIPTION, least=0), text_schema(_MAX_DESCRIPTION, least=0)
]

_BLOCK = {
    "block": "persona",
    "version": 3,
    "seq": 12,
    "text": "Flies twice a month and hates layovers.",
    "description": "Who the customer is.",
    "read_only": False,
    "tokens": 10,
    "bytes": 39,
    "limit_bytes": MAX_BLOCK_BYTES,
}


class BlocksQuery(AsOf):
    """`at_seq` counts in the home thread."""


class BlockIn(In):
    """The whole of a block."""

    model_config = example(
        {"text": _BLOCK["text"], "description": _BLOCK["description"]}
    )

    text: BlockText
    description: Description | None = Field(
        None, description="What belongs in it; absent: as before."
    )
    read_only: bool | None = Field(
        None, description="Models may not change it; absent: as before."
    )
    by: By = "tool"


class AppendIn(In):
    model_config = example({"text": " Prefers seats at the window."})

    text: Part
    by: By = "tool"


class ReplaceIn(In):
    model_config = example({"old": "twice a month", "new": "weekly"})

    old: Part = Field(description="It must stand in the block exactly once.")
    new: BlockText
    by: By = "tool"


class RevertIn(In):
    model_config = example({"version": 1})

    version: Annotated[int, within(1, MAX_INTEGER), counted(1, MAX_INTEGER)]
    by: By = "tool"


class BlockOut(Out):
    model_config = example(_BLOCK)

    block: str
    version: int
    seq: int
    text: str | None
    description: str
    read_only: bool
    tokens: int
    bytes: int
    limit_bytes: int


class BlocksOut(Out):
    """A subject's blocks, in the order in which they were made."""

    model_config = example({"subject": SUBJECT_ID, "thread": None, "items": [_BLOCK]})

    subject: UUID
    thread: str | None = Field(description="The home thread; null before its first.")
    items: list[BlockOut]


class BlockWrittenOut(Out):
    model_config = example(
        {
            "subject": SUBJECT_ID,
            "thread": f"mh.home.{SUBJECT_ID}",
            "thread_id": THREAD_ID,
            "seq": 12,
            "block": "persona",
            "version": 3,
            "tokens": 10,
        }
    )

    subject: UUID
    thread: str
    thread_id: UUID
    seq: int
    block: str
    version: int
    tokens: int


class BlockDeletedOut(Out):
    model_config = example({"subject": SUBJECT_ID, "seq": 13, "block": "persona"})

    subject: UUID
    seq: int
    block: str
