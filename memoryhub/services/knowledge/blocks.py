"""Blocks: texts about a subject, kept up to date by agents and their models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID
from weakref import WeakValueDictionary

from memoryhub.errors import (
    BlockReadOnlyError,
    ContentErasedError,
    InvalidError,
    NameTakenError,
    NotInBlockError,
    NotUniqueError,
    PageErasedError,
    PageUnknownError,
    StaleError,
    ValueTooLargeError,
)
from memoryhub.journal import KeyedRequest, OrderReceipt
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import EST
from memoryhub.kernel.knowledge.blocks import DeleteBlock, WriteBlock
from memoryhub.kernel.paging.page_commands import NewPage
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.pages import (
    BLOCK,
    MAX_BLOCK_BYTES,
    build_block_id,
    is_block_name,
    is_reserved_id,
)
from memoryhub.kernel.text import names, strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge.blocks import BlockVersion, BlockView
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import homes

MAX_DESCRIPTION_BYTES = 1_024
#: Attempts of a change that loses to other processes: of concurrent writers one
#: succeeds in each round.
_ATTEMPTS = 100
#: Lock of each block, so that writers of this process wait for each other.
_changing: WeakValueDictionary[tuple[UUID, str], asyncio.Lock] = WeakValueDictionary()
Change = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDraft:
    """Block as an agent writes it."""

    block: str
    text: str
    #: None: unchanged, or empty for a new block.
    description: str | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConditions:
    """Author of a write to a block, and the write's conditions."""

    by: By = "tool"
    #: Version of the block, 0 for a block that does not exist; None: any version.
    version: int | None = None
    request: KeyedRequest | None = None


ANY = BlockConditions()


async def put_block(
    *,
    agent: Agent,
    subject: Subject,
    draft: BlockDraft,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Create a block, or write its next version. Emits page.created or page.updated.

    Raises BlocksFullError, PageErasedError for an id that was deleted,
    ValueTooLargeError, ValueErasedError, StaleError, BlockReadOnlyError for a model.
    """
    make = partial(_build_write, subject, draft, conditions)
    return await _write_block(agent, subject, draft.block, make, conditions)


def put_for_operator(
    subject: Subject, draft: BlockDraft, *, version: int, actor: str
) -> OrderReceipt:
    """Write a block for an operator if the block is at that version; blocks.

    Version 0 requires that the block does not exist. Raises InvalidError for an invalid
    name or a description that is too long; else as `put_block`.
    """
    reserved = names.is_reserved(draft.block) or is_reserved_id(draft.block)
    if reserved or not is_block_name(draft.block):
        raise InvalidError(loc="block")
    if len((draft.description or "").encode()) > MAX_DESCRIPTION_BYTES:
        raise InvalidError(loc="description")
    command = _build_write(subject, draft, BlockConditions(version=version))
    return homes.perform(subject, command, actor=actor, epoch=subject.epoch)


def undo_for_operator(
    home: Thread, page_id: str, *, seq: int, actor: str
) -> OrderReceipt:
    """Write a block as it was before an event, if unchanged since; blocks.

    The block gets the name of before, too.

    Raises InvalidError of `seq` for an event that created the block, ContentErasedError
    if the earlier text is erased, StaleError if a later write changed the block.
    """
    version, *before = blocks.list_versions(home, page_id, seq=seq, limit=2)
    if not before:
        raise InvalidError(loc="seq")
    (was,) = before
    if was.text is None:
        raise ContentErasedError
    return homes.perform(
        home.subject,
        WriteBlock(
            page=replace(
                _build_version_page(page_id, was),
                name=was.name if version.renamed_from else None,
            ),
            called=version.name,
            version=version.version,
        ),
        actor=actor,
        # The epoch stops a write of content that was erased since the read.
        epoch=home.subject.epoch,
    )


def build_lines_edit(view: BlockView, lines: Mapping[int, str]) -> WriteBlock:
    """Build the command that gives a block other lines, by their numbers from 1 on.

    Line ends stay. The command names the view's version. Raises ValueTooLargeError.
    """
    edited = (view.text or "").splitlines(keepends=True)
    for number, text in lines.items():
        was = edited[number - 1]
        edited[number - 1] = text + was[len(was.splitlines()[0]) :]
    return _build_next_version(view, "".join(edited), ANY)


async def append_text(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    text: str,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Append text to a block, made if need be; concurrent appends are all kept.

    Raises PageErasedError, BlockReadOnlyError for a model, ValueTooLargeError,
    BlocksFullError, PageUnknownError where a version of a missing block was named.
    """
    make = partial(_build_append, subject, block, text, conditions)
    return await _write_block(agent, subject, block, make, conditions)


async def replace_text(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    old: str,
    new: str,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Replace the only occurrence of `old` by `new`.

    Raises NotInBlockError, NotUniqueError, PageUnknownError, PageErasedError,
    BlockReadOnlyError for a model, ValueTooLargeError.
    """
    change: Change = partial(_replace_text, old, new)
    return await _edit_block(agent, subject, block, change, conditions)


async def insert_lines(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    line: int,
    text: str,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Insert text as lines after a line; the block then ends with a line break.

    Line 0 is the top. Raises InvalidError beyond the last line, PageUnknownError,
    PageErasedError, BlockReadOnlyError for a model, ValueTooLargeError.
    """
    change: Change = partial(_insert_lines, line, text)
    return await _edit_block(agent, subject, block, change, conditions, inserted=line)


async def rename_block(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    name: str,
    description: str | None = None,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Give a block another name, in a version with the same text.

    `description` None: as before. The block keeps its page, and so its history. Raises
    NameTakenError, PageErasedError for a name that another block had,
    PageUnknownError, BlockReadOnlyError for a model.
    """
    make = partial(_build_rename, subject, block, name, description, conditions)
    return await _write_block(agent, subject, block, make, conditions)


async def revert_block(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    version: int,
    conditions: BlockConditions = ANY,
) -> OrderReceipt:
    """Write an older version of a block, text and meta, as its next version.

    Raises InvalidError for an unknown version, PageUnknownError, PageErasedError for a
    version whose text is erased, BlockReadOnlyError for a model, StaleError if anything
    of the subject's was erased meanwhile.
    """
    make = partial(_build_revert, subject, block, version, conditions)
    # The epoch stops a write of content that was erased since the read.
    return await _write_block(
        agent, subject, block, make, conditions, epoch=subject.epoch
    )


async def delete_block(
    *, agent: Agent, subject: Subject, block: str, conditions: BlockConditions = ANY
) -> OrderReceipt:
    """Delete a block for good; its id is never used again. Emits page.deleted.

    Raises PageUnknownError, PageErasedError, SubjectHeldError, StaleError.
    """
    page_id = (await read(_get_block, subject, block)).page_id
    command = DeleteBlock(
        page_id=page_id, called=block, version=conditions.version, by=conditions.by
    )
    return await homes.submit(
        agent=agent, subject=subject, command=command, request=conditions.request
    )


async def _edit_block(
    agent: Agent,
    subject: Subject,
    block: str,
    change: Change,
    conditions: BlockConditions,
    *,
    inserted: int | None = None,
) -> OrderReceipt:
    """Write the block's text as `change` returns it."""
    make = partial(_build_edit, subject, block, change, conditions, inserted)
    return await _write_block(agent, subject, block, make, conditions)


async def _write_block(
    agent: Agent,
    subject: Subject,
    block: str,
    make: Callable[[], WriteBlock],
    conditions: BlockConditions,
    *,
    epoch: int | None = None,
) -> OrderReceipt:
    """Write the command that `make` builds from the present block.

    The command names the version it was built from. A writer that was slower builds the
    command again from the then present block.
    """
    async with _changing.setdefault((subject.id, block), asyncio.Lock()):
        for attempt in range(_ATTEMPTS):
            command = await read(homes.build_or_refuse, make, conditions.request)
            made = isinstance(command, WriteBlock) and command.version is not None
            try:
                return await homes.submit(
                    agent=agent,
                    subject=subject,
                    command=command,
                    texts=[command.page.payload]
                    if isinstance(command, WriteBlock)
                    else [],
                    epoch=epoch,
                    request=conditions.request,
                )
            except StaleError:
                again = made and conditions.version is None and epoch is None
                if not again or attempt == _ATTEMPTS - 1:
                    raise
    raise AssertionError("no attempt was left")


def _get_block(subject: Subject, block: str) -> BlockView:
    """Get the present block. Raises PageUnknownError, PageErasedError."""
    return blocks.get_block(find_home(subject), block)


def _build_write(
    subject: Subject, draft: BlockDraft, conditions: BlockConditions
) -> WriteBlock:
    """Build the command of a draft; fields absent from the draft stay."""
    description, read_only = draft.description, draft.read_only
    version = conditions.version
    home = find_home(subject)
    there = [] if home is None else blocks.list_named(home, [draft.block])
    keeps = description is None or read_only is None
    if version is None and (keeps or conditions.by == "model"):
        # Fails if somebody writes the block meanwhile: what stays must be as it is by
        # then, and the block may be read-only by then.
        version = there[0].version if there else 0
    for view in there:
        _require_writable(view, conditions)
        description = view.description if description is None else description
        read_only = view.read_only if read_only is None else read_only
    page_id = there[0].page_id if there else build_block_id(draft.block)
    page = _build_page(
        page_id, draft.text, description or "", read_only=bool(read_only)
    )
    if not there and page_id != draft.block:
        page = replace(page, name=draft.block)
    return _build_command(page, draft.block, version, conditions)


def _build_append(
    subject: Subject, block: str, text: str, conditions: BlockConditions
) -> WriteBlock:
    """Build the command that appends text, or creates the block with that text."""
    try:
        change: Change = partial(_append_text, text)
        return _build_edit(subject, block, change, conditions)
    except PageUnknownError:
        if conditions.version:
            raise
    made = _build_write(subject, BlockDraft(block=block, text=text), conditions)
    # Version 0 fails if another writer creates the block meanwhile: the text of that
    # block must stay.
    return replace(made, version=0)


def _build_edit(
    subject: Subject,
    block: str,
    change: Change,
    conditions: BlockConditions,
    inserted: int | None = None,
) -> WriteBlock:
    """Build the command that writes the edited text."""
    view = _get_block(subject, block)
    _require_writable(view, conditions)
    made = _build_next_version(view, change(view.text or ""), conditions)
    return replace(made, page=replace(made.page, inserted=inserted))


def _build_next_version(
    view: BlockView, text: str, conditions: BlockConditions
) -> WriteBlock:
    """Build the command that writes another text upon the version of the view."""
    page = _build_page(view.page_id, text, view.description, read_only=view.read_only)
    return _build_command(page, view.block, view.version, conditions)


def _build_rename(
    subject: Subject,
    block: str,
    name: str,
    description: str | None,
    conditions: BlockConditions,
) -> WriteBlock:
    """Build the command that writes the present text under another name."""
    view = _get_block(subject, block)
    _require_writable(view, conditions)
    if view.text is None:
        raise PageErasedError
    if name == block:
        raise NameTakenError
    described = view.description if description is None else description
    page = _build_page(view.page_id, view.text, described, read_only=view.read_only)
    return _build_command(replace(page, name=name), block, view.version, conditions)


def _build_revert(
    subject: Subject, block: str, version: int, conditions: BlockConditions
) -> WriteBlock:
    """Build the command that writes an earlier version again."""
    view = _get_block(subject, block)
    there = _require_writable(view, conditions)
    was = blocks.get_version(find_home(subject), block, version)
    page = _build_version_page(view.page_id, was)
    return _build_command(page, block, there, conditions)


def _build_command(
    page: NewPage, block: str, version: int | None, conditions: BlockConditions
) -> WriteBlock:
    return WriteBlock(page=page, called=block, version=version, by=conditions.by)


def _require_writable(view: BlockView, conditions: BlockConditions) -> int | None:
    """Return the version to write upon; None: any version.

    Raises StaleError unless the block is at the caller's version, and
    BlockReadOnlyError for a model: a model's rights depend on the present block.
    """
    if conditions.version not in (None, view.version):
        raise StaleError(version=view.version)
    if conditions.by != "model":
        return conditions.version
    if view.read_only:
        raise BlockReadOnlyError
    return view.version


def _build_version_page(page_id: str, was: BlockVersion) -> NewPage:
    """Build the page of a version."""
    return _build_page(
        page_id, was.text or "", was.description, read_only=was.read_only
    )


def _append_text(added: str, text: str) -> str:
    """Append text to a text."""
    return text + added


def _insert_lines(line: int, added: str, text: str) -> str:
    """Insert lines after a line. Raises InvalidError beyond the last line."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if line > len(lines):
        raise InvalidError(loc="body.line", allowed=f"0 to {len(lines)}")
    lines.insert(line, added.removesuffix("\n"))
    return "\n".join(lines) + "\n"


def _replace_text(old: str, new: str, text: str) -> str:
    """Replace the only occurrence. Raises NotInBlockError, NotUniqueError."""
    first = text.find(old)
    if first < 0:
        raise NotInBlockError
    # Search from the next character on, as occurrences may overlap.
    if text.find(old, first + 1) >= 0:
        raise NotUniqueError
    return text[:first] + new + text[first + len(old) :]


def _build_page(
    page_id: str, text: str, description: str, *, read_only: bool
) -> NewPage:
    """Build a block's page. Raises ValueTooLargeError beyond MAX_BLOCK_BYTES."""
    if len(text.encode()) > MAX_BLOCK_BYTES:
        raise ValueTooLargeError(max_bytes=MAX_BLOCK_BYTES)
    content = {"text": text}
    opened = OpenedPage(page_id=page_id, type=BLOCK, modality="text", content=content)
    found = measuring.measure_page(opened, sent=None, tokenizer=EST)
    meta = {"description": description, "read_only": read_only}
    return NewPage(
        page_id=page_id,
        type=BLOCK,
        modality="text",
        payload=strict_json.dump_stored({"content": content, "meta": meta}),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.dump_stored(content)),
        counted_by=found.counted_by,
        map=False,
    )
