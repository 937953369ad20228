"""Blocks: texts about a subject that its agents and their models keep up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID
from weakref import WeakValueDictionary

from memoryhub.errors import (
    BlockReadOnlyError,
    ContentErasedError,
    InvalidError,
    NotInBlockError,
    NotUniqueError,
    StaleError,
    ValueTooLargeError,
)
from memoryhub.journal import Receipt, Request
from memoryhub.kernel.knowledge.blocks import DeleteBlock, WriteBlock
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import EST
from memoryhub.kernel.paging.page_commands import NewPage
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.pages import BLOCK, MAX_BLOCK_BYTES, is_reserved_id
from memoryhub.kernel.text import names, strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge.blocks import BlockView, Version
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import homes

MAX_DESCRIPTION_BYTES = 1_024
#: How often a change is made anew because another process was faster: of those who try
#: at the same time one succeeds each time.
_ATTEMPTS = 100
#: Who changes a block in this process waits for who does already.
_changing: WeakValueDictionary[tuple[UUID, str], asyncio.Lock] = WeakValueDictionary()
Change = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDraft:
    """A block as its agent writes it."""

    block: str
    text: str
    #: None: as it was, or nothing.
    description: str | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """On whose account a block is written, and under which conditions."""

    by: By = "tool"
    #: Of the block, 0 for none at all; None: whatever is there.
    version: int | None = None
    request: Request | None = None


ANY = Conditions()


async def put(
    *, agent: Agent, subject: Subject, draft: BlockDraft, conditions: Conditions = ANY
) -> Receipt:
    """Make a block, or write its next version. Emits page.created or page.updated.

    Raises BlocksFullError, PageErasedError for an id that was deleted,
    ValueTooLargeError, ValueErasedError, StaleError, BlockReadOnlyError for a model.
    """
    make = partial(_as_command, subject, draft, conditions)
    return await _write(agent, subject, draft.block, make, conditions)


def put_by_hand(
    subject: Subject, draft: BlockDraft, *, version: int, actor: str
) -> Receipt:
    """Write an operator's block, as `put`, if it is at that version; blocks.

    Version 0 is of one that is not there. Raises InvalidError for a name that is none,
    or a description that is too long; else as `put`.
    """
    reserved = names.reserved(draft.block) or is_reserved_id(draft.block)
    if reserved or not names.valid(draft.block):
        raise InvalidError(loc="block")
    if len((draft.description or "").encode()) > MAX_DESCRIPTION_BYTES:
        raise InvalidError(loc="description")
    command = _as_command(subject, draft, Conditions(version=version))
    return homes.perform(subject, command, actor=actor, epoch=subject.epoch)


def undo_by_hand(home: Thread, block: str, *, seq: int, actor: str) -> Receipt:
    """Write a block as it was before an event, if what that wrote is there; blocks.

    Raises InvalidError of `seq` for an event that made the block, ContentErasedError if
    what was there is gone, StaleError if anything wrote it since.
    """
    version, *before = blocks.list_versions(home, block, seq=seq, limit=2)
    if not before:
        raise InvalidError(loc="seq")
    (was,) = before
    if was.text is None:
        raise ContentErasedError
    return homes.perform(
        home.subject,
        WriteBlock(page=_page_of(block, was), version=version.version),
        actor=actor,
        # Erased meanwhile, what was read here may not be written again.
        epoch=home.subject.epoch,
    )


async def append(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    text: str,
    conditions: Conditions = ANY,
) -> Receipt:
    """Add text to the end of a block; of those who append at once all are kept.

    Raises PageUnknownError, PageErasedError, BlockReadOnlyError for a model,
    ValueTooLargeError.
    """
    change: Change = partial(_appended, text)
    return await _edit(agent, subject, block, change, conditions)


async def replace(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    old: str,
    new: str,
    conditions: Conditions = ANY,
) -> Receipt:
    """Put `new` in the place of the one occurrence of `old`.

    Raises NotInBlockError and NotUniqueError, and as `append`.
    """
    change: Change = partial(_replaced, old, new)
    return await _edit(agent, subject, block, change, conditions)


async def revert(
    *,
    agent: Agent,
    subject: Subject,
    block: str,
    version: int,
    conditions: Conditions = ANY,
) -> Receipt:
    """Write an older version of a block, text and meta, as its next one.

    Raises InvalidError for a version that it never had, PageUnknownError,
    PageErasedError for one whose text is gone, BlockReadOnlyError for a model,
    StaleError if anything of the subject's was erased meanwhile.
    """
    make = partial(_as_it_was, subject, block, version, conditions)
    # Erased meanwhile, what was read here may not be written again.
    return await _write(agent, subject, block, make, conditions, epoch=subject.epoch)


async def delete(
    *, agent: Agent, subject: Subject, block: str, conditions: Conditions = ANY
) -> Receipt:
    """Take a block out for good; its id is never used again. Emits page.deleted.

    Raises PageUnknownError, PageErasedError, SubjectHeldError, StaleError.
    """
    await read(_current, subject, block)
    command = DeleteBlock(page_id=block, version=conditions.version, by=conditions.by)
    return await homes.submit(
        agent=agent, subject=subject, command=command, request=conditions.request
    )


async def _edit(
    agent: Agent,
    subject: Subject,
    block: str,
    change: Change,
    conditions: Conditions,
) -> Receipt:
    make = partial(_changed, subject, block, change, conditions)
    return await _write(agent, subject, block, make, conditions)


async def _write(
    agent: Agent,
    subject: Subject,
    block: str,
    make: Callable[[], WriteBlock],
    conditions: Conditions,
    *,
    epoch: int | None = None,
) -> Receipt:
    """Write what `make` makes of what is there: the command names that version.

    Whoever was slower makes it again, of what is there by then.
    """
    async with _changing.setdefault((subject.id, block), asyncio.Lock()):
        for attempt in range(_ATTEMPTS):
            command = await read(homes.prepared, make, conditions.request)
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


def _current(subject: Subject, block: str) -> BlockView:
    return blocks.get_block(find_home(subject), block)


def _as_command(
    subject: Subject, draft: BlockDraft, conditions: Conditions
) -> WriteBlock:
    """What is not said of a block that is there stays."""
    description, read_only = draft.description, draft.read_only
    version = conditions.version
    if description is None or read_only is None or conditions.by == "model":
        home = find_home(subject)
        there = [] if home is None else blocks.list_named(home, [draft.block])
        if conditions.by == "model" and version is None:
            # Nobody may make it read-only meanwhile.
            version = 0
        for view in there:
            version = _require(view, conditions)
            description = view.description if description is None else description
            read_only = view.read_only if read_only is None else read_only
    page = _page(draft.block, draft.text, description or "", read_only=bool(read_only))
    return WriteBlock(page=page, version=version, by=conditions.by)


def _changed(
    subject: Subject, block: str, change: Change, conditions: Conditions
) -> WriteBlock:
    view = _current(subject, block)
    _require(view, conditions)
    text = change(view.text or "")
    page = _page(block, text, view.description, read_only=view.read_only)
    return WriteBlock(page=page, version=view.version, by=conditions.by)


def _as_it_was(
    subject: Subject, block: str, version: int, conditions: Conditions
) -> WriteBlock:
    there = _require(_current(subject, block), conditions)
    was = blocks.get_version(find_home(subject), block, version)
    return WriteBlock(page=_page_of(block, was), version=there, by=conditions.by)


def _require(view: BlockView, conditions: Conditions) -> int | None:
    """Return the version to write upon; None: whichever is there by then.

    Raises StaleError unless it is the one that was seen, and BlockReadOnlyError for a
    model that may not change it: what it may is judged by what is there.
    """
    if conditions.version not in (None, view.version):
        raise StaleError(version=view.version)
    if conditions.by != "model":
        return conditions.version
    if view.read_only:
        raise BlockReadOnlyError
    return view.version


def _page_of(block: str, was: Version) -> NewPage:
    return _page(block, was.text or "", was.description, read_only=was.read_only)


def _appended(added: str, text: str) -> str:
    return text + added


def _replaced(old: str, new: str, text: str) -> str:
    first = text.find(old)
    if first < 0:
        raise NotInBlockError
    # From the next character on, for occurrences may overlap.
    if text.find(old, first + 1) >= 0:
        raise NotUniqueError
    return text[:first] + new + text[first + len(old) :]


def _page(block: str, text: str, description: str, *, read_only: bool) -> NewPage:
    """Raise ValueTooLargeError beyond MAX_BLOCK_BYTES."""
    if len(text.encode()) > MAX_BLOCK_BYTES:
        raise ValueTooLargeError(max_bytes=MAX_BLOCK_BYTES)
    content = {"text": text}
    opened = Opened(page_id=block, type=BLOCK, modality="text", content=content)
    found = measuring.of_page(opened, sent=None, tokenizer=EST)
    meta = {"description": description, "read_only": read_only}
    return NewPage(
        page_id=block,
        type=BLOCK,
        modality="text",
        payload=strict_json.as_sent({"content": content, "meta": meta}),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.as_sent(content)),
        counted_by=found.counted_by,
        map=False,
    )
