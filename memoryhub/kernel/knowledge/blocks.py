"""Blocks: texts about a subject that always stand in front of the model. Pure.

A block is a page of type `block` of the subject's home thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.errors import BlocksFullError, StaleError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import page_table
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    DeletePage,
    NewPage,
    PageCommand,
)
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.pages import Entry

#: Of one subject.
MAX_BLOCKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlock(PageCommand):
    """Make a block, or write its next version."""

    page: NewPage
    #: The version that it was made of, 0 for none at all; None: whatever is there.
    version: int | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBlock(PageCommand):
    page_id: str
    #: The version that is to go; None: whatever is there.
    version: int | None = None
    by: By = "tool"


def write_block(decision: Decision, command: WriteBlock, pages: PageTable) -> None:
    """Make a block or its next version. Emits page.created or page.updated.

    Raises StaleError when there is another version than the one it was made of,
    BlocksFullError beyond MAX_BLOCKS, PageErasedError for an id that was deleted.
    """
    entry = _require(decision, command.page.page_id, command.version, pages)
    if entry is None and pages.count() >= MAX_BLOCKS:
        raise BlocksFullError(max_blocks=MAX_BLOCKS)
    made = CreatePages(pages=(command.page,), replace=True, by=command.by)
    page_table.create_pages(decision, made, pages)


def delete_block(decision: Decision, command: DeleteBlock, pages: PageTable) -> None:
    """Take a block out for good. Emits page.deleted; its id is never used again.

    Raises StaleError when there is another version than the one that is to go.
    """
    _require(decision, command.page_id, command.version, pages)
    made = DeletePage(page_id=command.page_id, by=command.by)
    page_table.delete_page(decision, made, pages)


def _require(
    decision: Decision, page_id: str, version: int | None, pages: PageTable
) -> Entry | None:
    """Return the block that is there. Raises StaleError unless it is at `version`."""
    entry = decision.paging.tlb.find(page_id) or pages.entry(page_id)
    there = entry.version if entry else 0
    if version not in (None, there):
        raise StaleError(version=there)
    return entry


PART = Part(
    commands={WriteBlock: write_block, DeleteBlock: delete_block},
    home=frozenset({WriteBlock, DeleteBlock}),
    events={},
)
