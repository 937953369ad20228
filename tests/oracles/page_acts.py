"""Acts on pages: commands for the journal, with texts that can be opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryhub import journal
from memoryhub.journal import Order, OrderReceipt
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.commands import Command, MadeLevels
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    FlushTlb,
    NewPage,
    UpdatePage,
)
from memoryhub.kernel.state.page_events import LevelMade
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.services.acts import state_of


def order(agent: Agent, command: Command, thread: str = "t-1") -> Order:
    address = agent.address(thread, birth=agent.build_birth())
    return Order(address=address, command=command, actor=agent.actor)


def act(agent: Agent, command: Command, thread: str = "t-1") -> OrderReceipt:
    return journal.perform(order(agent, command, thread))


def new_page(page_id: str, text: str = "a claim", **fields: Any) -> NewPage:
    given: dict[str, Any] = {"type": "artifact", "modality": "text", **fields}
    hint = given.pop("hint", None)
    content = {"text": text}
    opened = OpenedPage(
        page_id=page_id, type=given["type"], modality="text", content=content
    )
    measured = measuring.measure_page(opened, sent=None)
    payload: dict[str, Any] = {"content": content, "meta": {}}
    if hint is not None:
        payload["hint"] = hint
    return NewPage(
        page_id=page_id,
        payload=strict_json.dump_stored(payload),
        tokens=measured.tokens,
        cost=measured.cost,
        bytes=len(text),
        hinted=hint is not None,
        **given,
    )


def make_pages(agent: Agent, *pages: NewPage, thread: str = "t-1") -> OrderReceipt:
    return act(agent, CreatePages(pages=pages), thread)


def new_text(page_id: str, text: str) -> UpdatePage:
    page = new_page(page_id, text)
    return UpdatePage(
        page_id=page_id,
        payload=page.payload,
        tokens=page.tokens,
        cost=page.cost,
        bytes=page.bytes,
    )


def levels_of(
    page_id: str, texts: Mapping[int, str], *, version: int = 1
) -> MadeLevels:
    return MadeLevels(
        page_id=page_id,
        version=version,
        producer="extract/1",
        levels=tuple(
            LevelMade(level=level, tokens=4 - level, cost=8 - level)  # type: ignore[arg-type]  # 1 to 3
            for level in texts
        ),
        payload=strict_json.dump_stored(
            {"levels": {str(level): text for level, text in texts.items()}}
        ),
    )


def find_page_entry(thread: Thread, page_id: str) -> PageEntry | None:
    """Return a page's entry from the rows, whatever the TLB holds."""
    return table(thread).find_entry(page_id)


def table(thread: Thread) -> StoredPageTable:
    return StoredPageTable(state_of(thread), ProjectedRows())


def forget(agent: Agent, thread: str = "t-1") -> None:
    """Empty the TLB, so that the next look-up of each page reads its row."""
    act(agent, FlushTlb(), thread)
