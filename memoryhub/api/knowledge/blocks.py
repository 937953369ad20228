from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from django.urls.converters import StringConverter
from ninja import Path, Query
from pydantic import Field

from memoryhub.api.document.fields import (
    BlockName,
    By,
    In,
    Out,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.memory_fields import build_size_check, build_text_schema
from memoryhub.api.document.samples import SUBJECT_ID, THREAD_ID
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    KEEPING,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_home, get_agent_subject
from memoryhub.api.http.subject_routes import Place, SubjectRouter
from memoryhub.errors import (
    BlockReadOnlyError,
    BlocksFullError,
    NameTakenError,
    NotInBlockError,
    NotUniqueError,
    PageErasedError,
    PageUnknownError,
    SeqUnknownError,
    SubjectHeldError,
    ValueTooLargeError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.threads.readers import read
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.knowledge.blocks import (
    MAX_DESCRIPTION_BYTES,
    BlockConditions,
    BlockDraft,
)

BlockText = Annotated[
    str,
    build_size_check(MAX_BLOCK_BYTES, least=0),
    build_text_schema(MAX_BLOCK_BYTES, least=0),
]
Part = Annotated[
    str,
    build_size_check(MAX_BLOCK_BYTES, least=1),
    build_text_schema(MAX_BLOCK_BYTES, least=1),
]
Description = Annotated[
    str,
    build_size_check(MAX_DESCRIPTION_BYTES, least=0),
    build_text_schema(MAX_DESCRIPTION_BYTES, least=0),
]

BLOCK = {
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
    """`at_seq` is of the home thread."""


class BlockIn(In):
    """A whole block."""

    model_config = build_example(
        {"text": BLOCK["text"], "description": BLOCK["description"]}
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
    model_config = build_example({"text": " Prefers seats at the window."})

    text: Part
    by: By = "tool"


class ReplaceIn(In):
    model_config = build_example({"old": "twice a month", "new": "weekly"})

    old: Part = Field(description="It must stand in the block exactly once.")
    new: BlockText
    by: By = "tool"


class InsertIn(In):
    model_config = build_example({"line": 2, "text": "Has a cat."})

    line: Annotated[
        int,
        build_range_check(0, MAX_BLOCK_BYTES),
        build_range_schema(0, MAX_BLOCK_BYTES),
    ] = Field(description="Line after which the text is inserted; 0 is the top.")
    text: Part
    by: By = "tool"


class RenameIn(In):
    model_config = build_example({"name": "people/ann"})

    name: BlockName = Field(description="No name that another block has or had.")
    description: Description | None = Field(
        None, description="What belongs in it; absent: as before."
    )
    by: By = "tool"


class RevertIn(In):
    model_config = build_example({"version": 1})

    version: Annotated[
        int, build_range_check(1, MAX_INTEGER), build_range_schema(1, MAX_INTEGER)
    ]
    by: By = "tool"


class BlockOut(Out):
    model_config = build_example(BLOCK)

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
    """A subject's blocks, in order of creation."""

    model_config = build_example(
        {"subject": SUBJECT_ID, "thread": None, "items": [BLOCK]}
    )

    subject: UUID
    thread: str | None = Field(description="The home thread; null before its first.")
    items: list[BlockOut]


class BlockWrittenOut(Out):
    model_config = build_example(
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
    model_config = build_example({"subject": SUBJECT_ID, "seq": 13, "block": "persona"})

    subject: UUID
    seq: int
    block: str


class BlockConverter(StringConverter):
    """Converter of names between slashes; `BlockName` checks each."""

    regex = "[^/]+(?:/[^/]+)*"


register_converter(BlockConverter, "block")
router = SubjectRouter(tags=["blocks"])

_BLOCK_REFUSALS = (PageUnknownError, PageErasedError)
_READS = (*GONE, SeqUnknownError)
_EDITS = (*KEEPING, *_BLOCK_REFUSALS, BlockReadOnlyError, ValueTooLargeError)
_Body = BlockIn | AppendIn | InsertIn | RenameIn | ReplaceIn | RevertIn


@router.route_both("GET", "/blocks", needs=auth.READ, out=BlocksOut, refusals=_READS)
def list_all(
    request: HttpRequest, place: Place, query: Query[BlocksQuery]
) -> BlocksOut:
    """List a subject's blocks with their texts, in order of creation."""
    subject, home, seq = get_agent_home(auth.get_caller(request), place, query)
    found = [] if home is None else blocks.list_blocks(home, seq=seq)
    return BlocksOut(
        subject=subject.id,
        thread=None if home is None else home.name,
        items=[BlockOut.model_validate(each) for each in found],
    )


@router.route_both(
    "POST",
    "/blocks/{block:block}/append",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    status=(200, 201),
    refusals=[*_EDITS, BlocksFullError],
)
async def append(
    request: HttpRequest, place: Place, block: Path[BlockName], body: AppendIn
) -> HttpResponse:
    """Append text to a block, made if need be; concurrent appends are all kept."""
    agent = auth.get_caller(request)
    receipt = await writing.append_text(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        text=body.text,
        conditions=_build_conditions(request, body),
    )
    return _render_written(receipt)


@router.route_both(
    "POST",
    "/blocks/{block:block}/replace",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    refusals=[*_EDITS, NotInBlockError, NotUniqueError],
)
async def replace(
    request: HttpRequest, place: Place, block: Path[BlockName], body: ReplaceIn
) -> HttpResponse:
    """Replace a text that occurs in the block exactly once."""
    agent = auth.get_caller(request)
    receipt = await writing.replace_text(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        old=body.old,
        new=body.new,
        conditions=_build_conditions(request, body),
    )
    return _render_written(receipt)


@router.route_both(
    "POST",
    "/blocks/{block:block}/revert",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    refusals=[*KEEPING, *_BLOCK_REFUSALS, BlockReadOnlyError],
)
async def revert(
    request: HttpRequest, place: Place, block: Path[BlockName], body: RevertIn
) -> HttpResponse:
    """Write an older version as the next one."""
    agent = auth.get_caller(request)
    receipt = await writing.revert_block(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        version=body.version,
        conditions=_build_conditions(request, body),
    )
    return _render_written(receipt)


@router.route_both(
    "POST",
    "/blocks/{block:block}/insert",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    refusals=_EDITS,
)
async def insert(
    request: HttpRequest, place: Place, block: Path[BlockName], body: InsertIn
) -> HttpResponse:
    """Insert text as lines after a line; the block then ends with a line break."""
    agent = auth.get_caller(request)
    receipt = await writing.insert_lines(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        line=body.line,
        text=body.text,
        conditions=_build_conditions(request, body),
    )
    return _render_written(receipt)


@router.route_both(
    "POST",
    "/blocks/{block:block}/rename",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    refusals=[*KEEPING, *_BLOCK_REFUSALS, BlockReadOnlyError, NameTakenError],
)
async def rename(
    request: HttpRequest, place: Place, block: Path[BlockName], body: RenameIn
) -> HttpResponse:
    """Give a block another name, as its next version; its history stays.

    No other block gets the first name of a block.
    """
    agent = auth.get_caller(request)
    receipt = await writing.rename_block(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        name=body.name,
        description=body.description,
        conditions=_build_conditions(request, body),
    )
    return _render_written(receipt)


# A name may hold slashes: the routes of a whole block come after those of acts.


@router.route_both(
    "GET",
    "/blocks/{block:block}",
    needs=auth.READ,
    out=BlockOut,
    refusals=[*_READS, *_BLOCK_REFUSALS],
)
def get(
    request: HttpRequest,
    place: Place,
    block: Path[BlockName],
    query: Query[BlocksQuery],
) -> HttpResponse:
    """Read a block, now or as of an event of the home thread.

    `ETag` is its version, for If-Match of a write.
    """
    _, home, seq = get_agent_home(auth.get_caller(request), place, query)
    out = BlockOut.model_validate(blocks.get_block(home, block, seq=seq))
    answer = render_answer(out)
    answer["ETag"] = f'"{out.version}"'
    return answer


@router.route_both(
    "PUT",
    "/blocks/{block:block}",
    needs=auth.WRITE,
    out=BlockWrittenOut,
    status=(200, 201),
    refusals=[*KEEPING, BlocksFullError, PageErasedError, BlockReadOnlyError],
)
async def put(
    request: HttpRequest, place: Place, block: Path[BlockName], body: BlockIn
) -> HttpResponse:
    """Create a block or write its next version; the first creates the home."""
    agent = auth.get_caller(request)
    receipt = await writing.put_block(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        draft=BlockDraft(
            block=block,
            text=body.text,
            description=body.description,
            read_only=body.read_only,
        ),
        conditions=BlockConditions(by=body.by, version=parse_if_match(request)),
    )
    return _render_written(receipt)


@router.route_both(
    "DELETE",
    "/blocks/{block:block}",
    needs=auth.WRITE,
    out=BlockDeletedOut,
    refusals=[*CONDITIONAL, *_BLOCK_REFUSALS, SubjectHeldError],
)
async def delete(
    request: HttpRequest, place: Place, block: Path[BlockName]
) -> HttpResponse:
    """Delete a block for good; its id is never used again."""
    agent = auth.get_caller(request)
    receipt = await writing.delete_block(
        agent=agent,
        subject=await read(get_agent_subject, agent, place),
        block=block,
        conditions=BlockConditions(version=parse_if_match(request)),
    )
    out = BlockDeletedOut(subject=receipt.subject, seq=receipt.seq, block=block)
    return render_answer(out)


def _build_conditions(request: HttpRequest, body: _Body) -> BlockConditions:
    return BlockConditions(
        by=body.by,
        version=parse_if_match(request),
        request=parse_idempotency(request, body),
    )


def _render_written(receipt: OrderReceipt) -> HttpResponse:
    (each,) = receipt.events[-1:]
    event = each.event
    assert isinstance(event, PageCreated | PageUpdated)
    made = isinstance(event, PageCreated)
    out = BlockWrittenOut(
        subject=receipt.subject,
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=each.seq,
        block=event.name or event.page_id,
        version=1 if isinstance(event, PageCreated) else event.version,
        tokens=event.tokens or 0,
    )
    answer = render_answer(out, status=201 if made else 200, replayed=receipt.replayed)
    answer["ETag"] = f'"{out.version}"'
    return answer
