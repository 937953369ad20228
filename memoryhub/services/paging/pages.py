"""Pages: made, changed, mapped, pinned and fetched back, on an agent's account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memoryhub import journal
from memoryhub.errors import DerivedPageError
from memoryhub.journal import Order, Receipt, Request
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import EST, Tokenizer
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
    list_evictions,
)
from memoryhub.kernel.state.pages import (
    SYSTEM_PROMPT,
    Entry,
    Modality,
    PageType,
    slot_page_id,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Under which conditions a command is given, and on whose account."""

    if_match: int | None = None
    request: Request | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDraft:
    """A page as its agent writes it; the content is of its modality already."""

    page_id: str
    type: PageType
    modality: Modality
    content: Mapping[str, Any]
    importance: float | None = None
    #: None: of no page, or of a page that is there the same as before.
    provenance: tuple[str, ...] | None = None
    hint: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    #: By the thread's tokenizer; None leaves the counting to us.
    tokens: int | None = None
    map: bool = True
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChange:
    """What of a page changes; None stays as it is."""

    content: Mapping[str, Any] | None = None
    importance: float | None = None
    hint: str | None = None
    tokens: int | None = None


async def write(
    *,
    agent: Agent,
    thread: str,
    drafts: Sequence[PageDraft],
    replace: bool = False,
    by: By = "tool",
    preconditions: Preconditions | None = None,
) -> Receipt:
    """Make pages, all or none; `replace` gives one that exists a new version.

    Emits page.created or page.updated each, after what leaves for it. Raises
    NameTakenError, PageErasedError, UnknownPageError, PinBudgetError, DerivedPageError,
    TokensRequiredError.
    """

    def counted(tokenizer: Tokenizer, largest: float = 0) -> CreatePages:
        made = tuple(_new_page(draft, tokenizer) for draft in drafts)
        return CreatePages(pages=made, replace=replace, by=by)

    order = _order(agent, thread, counted(EST), preconditions=preconditions, born=True)
    return await counting.submit(order, counted)


async def write_system_prompt(
    *,
    agent: Agent,
    thread: str,
    text: str,
    tokens: int | None,
    preconditions: Preconditions,
) -> Receipt:
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
    return await write(
        agent=agent,
        thread=thread,
        drafts=[draft],
        replace=True,
        preconditions=preconditions,
    )


async def amend(
    *,
    agent: Agent,
    thread: Thread,
    entry: Entry,
    change: PageChange,
    by: By = "tool",
    preconditions: Preconditions | None = None,
) -> Receipt:
    """Change a page that was read just now. Emits page.updated.

    Raises DerivedPageError for another content of a message, PinBudgetError when a
    pinned page outgrows its share, PageErasedError, TokensRequiredError.
    """
    if change.content is not None and entry.slot is not None:
        raise DerivedPageError
    command = await read(_update_page, thread, entry, change, by)
    return await apply(
        agent, agent.calls(thread.name), command, preconditions=preconditions
    )


async def map_page(
    *,
    agent: Agent,
    thread: str,
    command: MapPage,
    preconditions: Preconditions | None = None,
) -> Receipt:
    """Map a page at a level, its lower levels made first when one may be needed.

    Emits page.mapped. Raises NoRoomError, PinnedError, PinBudgetError.
    """
    made = await read(
        prepared, agent, thread, command.page_id, level=command.level, whole=False
    )
    command = MapPage(
        page_id=command.page_id, level=command.level, made=made, by=command.by
    )
    return await apply(agent, thread, command, preconditions=preconditions)


async def apply(
    agent: Agent,
    thread: str,
    command: PageCommand,
    *,
    preconditions: Preconditions | None = None,
) -> Receipt:
    """Run a command of paging that needs nothing made beforehand.

    Raises what the command does.
    """
    return await journal.submit(
        _order(agent, thread, command, preconditions=preconditions)
    )


def prepared(
    agent: Agent, thread: str, page_id: str, *, level: int, whole: bool
) -> MadeLevels | None:
    """Lower levels of a page that a command may need and that are not there yet.

    Not for FULL, unless the page may turn out too large for it and `whole` is no must.
    At most five queries. None for a page that there is not: the command finds out.
    """
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    settings = pages.settings_now(row)
    entry = pages.current_entry(row, page_id)
    if entry is None:
        return None
    if level == 0 and (whole or entry.full.cost <= settings.largest):
        return None
    return envelopes.make_levels(row, entry, tokenizer=settings.tokenizer)


async def after(receipt: Receipt) -> ThreadState:
    """Return the state after the command; read only for what was served before."""
    return receipt.state or (await read(state_after, receipt))[1]


def state_after(receipt: Receipt) -> tuple[Thread, ThreadState]:
    """Return the thread and its state once the command was done.

    Four queries, or one.
    """
    rows = Thread.objects.select_related("subject")
    if receipt.state is not None:
        # What it takes to open a text: all columns cost half as much as the write.
        rows = rows.only("project", "config", "subject__epoch")
    row = rows.get(id=receipt.thread)
    return row, receipt.state or states.state_of(row, receipt.seq)


def evictions(receipt: Receipt) -> list[str]:
    """List the pages that left the working set for what the command did."""
    evicted = (page for each in receipt.events for page in list_evictions(each.event))
    gone = [page.page_id for page in evicted if page.tier_before == "L0"]
    return [*dict.fromkeys(gone)]


def mapped(receipt: Receipt) -> dict[str, bool]:
    """Return which of the command's pages stand in the working set after it."""
    found: dict[str, bool] = {}
    for each in receipt.events:
        event = each.event
        if isinstance(event, SlotAppended) and event.page is not None:
            found[slot_page_id(event.index)] = event.page.mapped
        elif isinstance(event, PageCreated):
            found[event.page_id] = event.mapped
        elif isinstance(event, PageMapped):
            found[event.page_id] = True
        else:
            found |= {page.page_id: False for page in list_evictions(event)}
    return found


def _order(
    agent: Agent,
    thread: str,
    command: PageCommand,
    *,
    preconditions: Preconditions | None,
    born: bool = False,
) -> Order:
    """`born`: a name that is new makes the thread."""
    preconditions = preconditions or Preconditions()
    return Order(
        address=agent.address(thread, birth=agent.birth() if born else None),
        command=command,
        actor=agent.actor,
        if_match=preconditions.if_match,
        request=preconditions.request,
        size=_weight(command),
    )


def _new_page(draft: PageDraft, tokenizer: Tokenizer) -> NewPage:
    found = measuring.of_page(_opened(draft), sent=draft.tokens, tokenizer=tokenizer)
    plain: dict[str, Any] = {"content": draft.content}
    if draft.hint is not None:
        plain["hint"] = draft.hint
    if draft.meta:
        plain["meta"] = draft.meta
    return NewPage(
        page_id=draft.page_id,
        type=draft.type,
        modality=draft.modality,
        payload=strict_json.as_sent(plain),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.as_sent(draft.content)),
        counted_by=found.counted_by,
        importance=draft.importance,
        provenance=draft.provenance,
        hinted=draft.hint is not None,
        map=draft.map,
        role=draft.role,
    )


def _opened(draft: PageDraft) -> Opened:
    size = draft.meta.get("dimensions")
    return Opened(
        page_id=draft.page_id,
        type=draft.type,
        modality=draft.modality,
        content=draft.content,
        role=draft.role,
        dimensions=(size[0], size[1]) if size else None,
    )


def _update_page(
    thread: Thread, entry: Entry, change: PageChange, by: By
) -> UpdatePage:
    plain: dict[str, Any] = {} if change.hint is None else {"hint": change.hint}
    command = partial(
        UpdatePage,
        page_id=entry.page_id,
        importance=change.importance,
        hinted=change.hint is not None,
        by=by,
    )
    if change.content is None:
        return command(payload=strict_json.as_sent(plain))
    # A version stands alone: what was said beside the content goes on with it.
    meta = envelopes.get_meta(thread, entry)
    plain |= {"content": change.content, **({"meta": meta} if meta else {})}
    opened = _opened(_renewed(entry, change.content, meta))
    found = measuring.of_page(
        opened, sent=change.tokens, tokenizer=tokenizers.of(thread)
    )
    return command(
        payload=strict_json.as_sent(plain),
        tokens=found.tokens,
        cost=found.cost,
        bytes=len(strict_json.as_sent(change.content)),
        counted_by=found.counted_by,
    )


def _renewed(
    entry: Entry, content: Mapping[str, Any], meta: Mapping[str, Any]
) -> PageDraft:
    return PageDraft(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=content,
        meta=meta,
        role=entry.role,
    )


def _weight(command: PageCommand) -> int:
    """Bytes of text that wait in the queue with a command."""
    if isinstance(command, CreatePages):
        return sum(len(page.payload) for page in command.pages)
    if isinstance(command, UpdatePage):
        return len(command.payload)
    made = getattr(command, "made", None)
    return len(made.payload) if isinstance(made, MadeLevels) else 0
