"""Blocks: texts about a subject that every request of its threads can carry. Pure.

A block is a page of type `block` of the subject's home thread. Its page keeps its id
when the block is renamed, so versions, erasure and export follow the page.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.errors import (
    BlocksFullError,
    NameTakenError,
    PageErasedError,
    StaleError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import page_table
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    DeletePage,
    NewPage,
    PageCommand,
)
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.pages import PageEntry, build_block_id

#: Most blocks of one subject.
MAX_BLOCKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlock(PageCommand):
    """Create a block, or write its next version."""

    page: NewPage
    #: Name by which the writer knows the block; None: the page's id.
    called: str | None = None
    #: Version that the text was based on, 0 for no block; None: any version.
    version: int | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBlock(PageCommand):
    page_id: str
    #: Name by which the writer knows the block; None: any name.
    called: str | None = None
    #: Version to delete; None: any version.
    version: int | None = None
    by: By = "tool"


def decide_write_block(
    decision: Decision, command: WriteBlock, pages: PageTable
) -> None:
    """Create a block or its next version. Emits page.created or page.updated.

    Raises StaleError when the block has another version than the command names,
    BlocksFullError beyond MAX_BLOCKS, PageErasedError for a name that belongs to a
    deleted or renamed block, NameTakenError for the present name of another block.
    """
    page = command.page
    _require_unused(decision, command, pages)
    entry = _require_version(decision, page.page_id, command.version, pages)
    if entry is None and pages.count_pages() >= MAX_BLOCKS:
        raise BlocksFullError(max_blocks=MAX_BLOCKS)
    if entry and entry.called != (command.called or page.page_id):
        raise PageErasedError
    if entry is None or page.name not in (None, entry.name):
        _require_free_name(decision, page, pages)
    made = CreatePages(pages=(page,), replace=True, by=command.by)
    page_table.decide_create_pages(decision, made, pages)


def _require_unused(decision: Decision, command: WriteBlock, pages: PageTable) -> None:
    """Raise PageErasedError if a new block's name is the first one of a renamed block.

    Its writer saw no block of that name, so to read again would not help.
    """
    entry = _find_entry(decision, command.page.page_id, pages)
    called = command.called or command.page.page_id
    if command.version == 0 and entry and entry.called != called:
        raise PageErasedError


def _require_free_name(decision: Decision, page: NewPage, pages: PageTable) -> None:
    """Raise a refusal if another block has or had the page's name.

    The id of a renamed block stays its own: no other block gets it as a name.
    """
    name = page.name or page.page_id
    own = build_block_id(name)
    if own != page.page_id:
        if entry := _find_entry(decision, own, pages):
            raise NameTakenError if entry.called == name else PageErasedError
        if pages.is_deleted(own):
            raise PageErasedError
    named = pages.find_named(name)
    if named is not None and named[0] != page.page_id:
        raise NameTakenError if named[1] else PageErasedError


def decide_delete_block(
    decision: Decision, command: DeleteBlock, pages: PageTable
) -> None:
    """Delete a block. Emits page.deleted; the block's id is never used again.

    Raises StaleError when the block has another version than the command names, and
    PageErasedError when it was renamed since the writer read it.
    """
    entry = _require_version(decision, command.page_id, command.version, pages)
    if entry and command.called not in (None, entry.called):
        raise PageErasedError
    made = DeletePage(page_id=command.page_id, by=command.by)
    page_table.decide_delete_page(decision, made, pages)


def _require_version(
    decision: Decision, page_id: str, version: int | None, pages: PageTable
) -> PageEntry | None:
    """Return the block's entry, or None. Raises StaleError unless at `version`."""
    entry = _find_entry(decision, page_id, pages)
    there = entry.version if entry else 0
    if version not in (None, there):
        raise StaleError(version=there)
    return entry


def _find_entry(decision: Decision, page_id: str, pages: PageTable) -> PageEntry | None:
    return decision.paging.tlb.find(page_id) or pages.find_entry(page_id)


PART = KernelPart(
    commands={WriteBlock: decide_write_block, DeleteBlock: decide_delete_block},
    home=frozenset({WriteBlock, DeleteBlock}),
    events={},
)
