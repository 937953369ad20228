"""Pages on behalf of agents: created, changed, mapped, pinned and fetched back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memoryhub import journal
from memoryhub.errors import DerivedPageError, StaleError
from memoryhub.journal import KeyedRequest, Order, OrderReceipt
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import EST, Tokenizer
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    MapPage,
    NewPage,
    PageCommand,
    UpdatePage,
)
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    By,
    PageCreated,
    PageMapped,
    PagesEvicted,
    list_evictions,
)
from memoryhub.kernel.state.pages import (
    SYSTEM_PROMPT,
    Modality,
    PageEntry,
    PageType,
    build_slot_page_id,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import envelopes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import counting

#: Attempts of a change that other writers of the page overtake.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Preconditions of a command: the expected head and the idempotency request."""

    if_match: int | None = None
    request: KeyedRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDraft:
    """Page as its agent writes it, with content that fits its modality."""

    page_id: str
    type: PageType
    modality: Modality
    content: Mapping[str, Any]
    importance: float | None = None
    #: None: no source pages for a new page, unchanged for an existing one.
    provenance: tuple[str, ...] | None = None
    hint: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    #: Counted by the thread's tokenizer; None: this server counts.
    tokens: int | None = None
    map: bool = True
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChange:
    """Changed fields of a page; None leaves a field unchanged."""

    content: Mapping[str, Any] | None = None
    importance: float | None = None
    hint: str | None = None
    tokens: int | None = None


async def write_pages(
    *,
    agent: Agent,
    thread: str,
    drafts: Sequence[PageDraft],
    replace: bool = False,
    by: By = "tool",
    preconditions: Preconditions | None = None,
) -> OrderReceipt:
    """Create pages, all or none; with `replace` an existing page gets a new version.

    Emits page.created or page.updated each, after the evictions that make room. Raises
    NameTakenError, PageErasedError, UnknownPageError, PinBudgetError, DerivedPageError,
    TokensRequiredError.
    """

    def build_command(tokenizer: Tokenizer, largest: float = 0) -> CreatePages:
        made = tuple(_build_page(draft, tokenizer) for draft in drafts)
        return CreatePages(pages=made, replace=replace, by=by)

    order = _build_order(
        agent, thread, build_command(EST), preconditions=preconditions, born=True
    )
    return await counting.submit(order, build_command)


async def write_system_prompt(
    *,
    agent: Agent,
    thread: str,
    text: str,
    tokens: int | None,
    preconditions: Preconditions,
) -> OrderReceipt:
    """Write the page that stands first in each request.

    Emits page.created or page.updated. Raises PinBudgetError beyond the share of pins.
    """
    draft = PageDraft(
        page_id=SYSTEM_PROMPT,
        type="procedure",
        modality="text",
        content={"text": text},
        tokens=tokens,
        role="system",
    )
    return await write_pages(
        agent=agent,
        thread=thread,
        drafts=[draft],
        replace=True,
        preconditions=preconditions,
    )


async def amend_page(
    *,
    agent: Agent,
    thread: Thread,
    entry: PageEntry,
    change: PageChange,
    by: By = "tool",
    preconditions: Preconditions | None = None,
) -> OrderReceipt:
    """Change a page that was read just now. Emits page.updated.

    If somebody wrote the page since, the change is made upon that version. Raises
    DerivedPageError for a change of a message's content, PinBudgetError when a pinned
    page outgrows its share, PageErasedError, TokensRequiredError, StaleError.
    """
    if change.content is not None and entry.slot is not None:
        raise DerivedPageError
    name = agent.get_thread_name(thread.name)
    for attempt in range(_ATTEMPTS):
        command = await read(_build_update, thread, entry, change, by)
        try:
            return await submit_command(
                agent, name, command, preconditions=preconditions
            )
        except StaleError as stale:
            newer = await read(pages.find_current_entry, thread, entry.page_id)
            # The content was checked against the modality that the page had.
            same = newer is not None and newer.modality == entry.modality
            if attempt == _ATTEMPTS - 1 or "version" not in stale.detail or not same:
                raise
            entry = newer or entry
    raise AssertionError("no attempt was left")


async def map_page(
    *,
    agent: Agent,
    thread: str,
    command: MapPage,
    preconditions: Preconditions | None = None,
) -> OrderReceipt:
    """Map a page at a level; makes its lower levels first when one may be needed.

    Emits page.mapped. Raises NoRoomError, PinnedError, PinBudgetError.
    """
    made = await read(
        make_missing_levels,
        agent,
        thread,
        command.page_id,
        level=command.level,
        whole=False,
    )
    command = MapPage(
        page_id=command.page_id, level=command.level, made=made, by=command.by
    )
    return await submit_command(agent, thread, command, preconditions=preconditions)


async def submit_command(
    agent: Agent,
    thread: str,
    command: PageCommand,
    *,
    preconditions: Preconditions | None = None,
) -> OrderReceipt:
    """Submit a paging command that needs no levels made beforehand.

    Raises what the command raises.
    """
    return await journal.submit(
        _build_order(agent, thread, command, preconditions=preconditions)
    )


def make_missing_levels(
    agent: Agent, thread: str, page_id: str, *, level: int, whole: bool
) -> MadeLevels | None:
    """Make the lower levels that a command may need and the page does not have yet.

    None for FULL, unless the page may be too large and `whole` is not required. At most
    five queries. None for an unknown page: the command refuses it.
    """
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    settings = pages.parse_settings(row)
    entry = pages.find_current_entry(row, page_id)
    if entry is None:
        return None
    if level == 0 and (whole or entry.full.cost <= settings.largest):
        return None
    return envelopes.make_levels(row, entry, tokenizer=settings.tokenizer)


async def get_state_after(receipt: OrderReceipt) -> ThreadState:
    """Get the state after the command; a query only for an earlier receipt."""
    return receipt.state or (await read(get_thread_after, receipt))[1]


def get_thread_after(receipt: OrderReceipt) -> tuple[Thread, ThreadState]:
    """Get the thread and its state after the command.

    Four queries, or one.
    """
    rows = Thread.objects.select_related("subject")
    if receipt.state is not None:
        # Columns needed to open a text: all columns cost half as much as the write.
        rows = rows.only("project", "config", "subject__epoch")
    row = rows.get(id=receipt.thread)
    return row, receipt.state or states.load_state(row, receipt.seq)


def list_evicted(receipt: OrderReceipt) -> list[str]:
    """List the pages that the command evicted from the working set."""
    evicted = (page for each in receipt.events for page in list_evictions(each.event))
    gone = [page.page_id for page in evicted if page.tier_before == "L0"]
    return [*dict.fromkeys(gone)]


def map_residency(receipt: OrderReceipt) -> dict[str, bool]:
    """Map each page of the command to whether the working set holds it afterwards."""
    found: dict[str, bool] = {}
    for each in receipt.events:
        event = each.event
        if isinstance(event, SlotAppended) and event.page is not None:
            found[build_slot_page_id(event.index)] = event.page.mapped
        elif isinstance(event, PageCreated):
            found[event.page_id] = event.mapped
        elif isinstance(event, PageMapped):
            found[event.page_id] = True
        elif isinstance(event, PagesEvicted):
            found |= dict.fromkeys(event.page_ids, False)
        else:
            found |= {page.page_id: False for page in list_evictions(event)}
    return found


def _build_order(
    agent: Agent,
    thread: str,
    command: PageCommand,
    *,
    preconditions: Preconditions | None,
    born: bool = False,
) -> Order:
    """Build the order; with `born` an unknown name creates the thread."""
    preconditions = preconditions or Preconditions()
    return Order(
        address=agent.address(thread, birth=agent.build_birth() if born else None),
        command=command,
        actor=agent.actor,
        if_match=preconditions.if_match,
        request=preconditions.request,
        size=_measure_size(command),
    )


def _build_page(draft: PageDraft, tokenizer: Tokenizer) -> NewPage:
    """Build the new page of a draft, with its tokens counted."""
    found = measuring.measure_page(
        _build_opened(draft), sent=draft.tokens, tokenizer=tokenizer
    )
    plain: dict[str, Any] = {"content": draft.content}
    if draft.hint is not None:
        plain["hint"] = draft.hint
    if draft.meta:
        plain["meta"] = draft.meta
    return NewPage(
        page_id=draft.page_id,
        type=draft.type,
        modality=draft.modality,
        payload=strict_json.dump_stored(plain),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.dump_stored(draft.content)),
        counted_by=found.counted_by,
        importance=draft.importance,
        provenance=draft.provenance,
        hinted=draft.hint is not None,
        map=draft.map,
        role=draft.role,
    )


def _build_opened(draft: PageDraft) -> OpenedPage:
    """Build the opened form of a draft, for counting."""
    size = draft.meta.get("dimensions")
    return OpenedPage(
        page_id=draft.page_id,
        type=draft.type,
        modality=draft.modality,
        content=draft.content,
        role=draft.role,
        dimensions=(size[0], size[1]) if size else None,
    )


def _build_update(
    thread: Thread, entry: PageEntry, change: PageChange, by: By
) -> UpdatePage:
    """Build the command of a page's change."""
    plain: dict[str, Any] = {} if change.hint is None else {"hint": change.hint}
    command = partial(
        UpdatePage,
        page_id=entry.page_id,
        importance=change.importance,
        hinted=change.hint is not None,
        by=by,
    )
    if change.content is None:
        return command(payload=strict_json.dump_stored(plain))
    # A version stands alone: meta beside the content is copied to the new version.
    meta = envelopes.get_meta(thread, entry)
    plain |= {"content": change.content, **({"meta": meta} if meta else {})}
    opened = _build_opened(_build_renewed_draft(entry, change.content, meta))
    found = measuring.measure_page(
        opened, sent=change.tokens, tokenizer=tokenizers.get_for_thread(thread)
    )
    return command(
        payload=strict_json.dump_stored(plain),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.dump_stored(change.content)),
        counted_by=found.counted_by,
        version=entry.version,
    )


def _build_renewed_draft(
    entry: PageEntry, content: Mapping[str, Any], meta: Mapping[str, Any]
) -> PageDraft:
    """Build a draft of the page with other content."""
    return PageDraft(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=content,
        meta=meta,
        role=entry.role,
    )


def _measure_size(command: PageCommand) -> int:
    """Measure the bytes of text that wait in the queue with a command."""
    if isinstance(command, CreatePages):
        return sum(len(page.payload) for page in command.pages)
    if isinstance(command, UpdatePage):
        return len(command.payload)
    made = getattr(command, "made", None)
    return len(made.payload) if isinstance(made, MadeLevels) else 0
