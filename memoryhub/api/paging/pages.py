from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document import contents
from memoryhub.api.document.fields import FieldRefusedError, Name, OwnPageId, ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING, parse_if_match
from memoryhub.api.http.reading import GONE, get_agent_state, get_agent_thread
from memoryhub.api.paging.page_conditions import PAGE_REFUSALS, parse_conditions
from memoryhub.api.paging.page_schemas import (
    DeletedOut,
    EnvelopeOut,
    HistoryQuery,
    PageIn,
    PageOut,
    PagePatch,
    PagePut,
    PageQuery,
    PagesIn,
    PagesOut,
    PagesQuery,
    PageViewOut,
    PromptIn,
    WrittenBatchOut,
    WrittenOut,
)
from memoryhub.api.paging.paging_schemas import MutationsOut
from memoryhub.errors import (
    BadCursorError,
    DerivedPageError,
    InvalidError,
    NameTakenError,
    PageErasedError,
    PageUnknownError,
    PinBudgetError,
    ProjectFullError,
    SeqUnknownError,
    SubjectHeldError,
    TokensRequiredError,
    UnknownPageError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated, list_evictions
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, PageEntry
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states
from memoryhub.queries.threads.mutations import list_history
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import envelopes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages as writing

router = StrictRouter(tags=["pages"])

_WRITES = (
    *KEEPING,
    DerivedPageError,
    NameTakenError,
    PageErasedError,
    PinBudgetError,
    ProjectFullError,
    TokensRequiredError,
    UnknownPageError,
)


@router.route(
    "POST",
    "/threads/{thread}/pages",
    needs=auth.WRITE,
    out=WrittenOut,
    status=(201,),
    refusals=_WRITES,
)
async def create(
    request: HttpRequest, thread: Path[ThreadName], body: PageIn
) -> HttpResponse:
    """Create a page, mapped at FULL if it fits. An existing id is refused.

    Makes the thread if the name is new. `mapped` is false where there was no room;
    the page is kept.
    """
    receipt = await writing.write_pages(
        agent=auth.get_caller(request),
        thread=thread,
        drafts=[body.to_draft(body.page_id or _build_id())],
        by=body.by,
        preconditions=parse_conditions(request, body),
    )
    (made,) = _build_written(receipt, writing.map_residency(receipt))
    return render_answer(made, status=201, replayed=receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/pages:batch",
    needs=auth.WRITE,
    out=WrittenBatchOut,
    status=(201,),
    refusals=_WRITES,
)
async def create_batch(
    request: HttpRequest, thread: Path[ThreadName], body: PagesIn
) -> HttpResponse:
    """Create up to 200 pages in order, all or nothing; later may name earlier."""
    receipt = await writing.write_pages(
        agent=auth.get_caller(request),
        thread=thread,
        drafts=[item.to_draft(item.page_id or _build_id()) for item in body.items],
        by=body.by,
        preconditions=parse_conditions(request, body),
    )
    made = WrittenBatchOut(
        items=_build_written(receipt, writing.map_residency(receipt))
    )
    return render_answer(made, status=201, replayed=receipt.replayed)


@router.route(
    "PUT",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.WRITE,
    out=WrittenOut,
    status=(200, 201),
    refusals=_WRITES,
)
async def put(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[OwnPageId],
    body: PagePut,
) -> HttpResponse:
    """Create a page or write its next version; older ones stay readable at their seq.

    An existing page keeps its provenance, unless `provenance` is sent.
    """
    receipt = await writing.write_pages(
        agent=auth.get_caller(request),
        thread=thread,
        drafts=[body.to_draft(page_id)],
        replace=True,
        by=body.by,
        preconditions=writing.Preconditions(if_match=parse_if_match(request)),
    )
    return await _render_put(receipt)


@router.route(
    "PUT",
    "/threads/{thread}/system-prompt",
    needs=auth.WRITE,
    out=WrittenOut,
    status=(200, 201),
    refusals=_WRITES,
)
async def put_system_prompt(
    request: HttpRequest, thread: Path[ThreadName], body: PromptIn
) -> HttpResponse:
    """Write the system prompt: pinned, and first in every request."""
    receipt = await writing.write_system_prompt(
        agent=auth.get_caller(request),
        thread=thread,
        text=body.text,
        tokens=body.tokens,
        preconditions=writing.Preconditions(if_match=parse_if_match(request)),
    )
    return await _render_put(receipt)


@router.route(
    "GET",
    "/threads/{thread}/pages",
    needs=auth.READ,
    out=PagesOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[PagesQuery]
) -> HttpResponse:
    """List pages in order of creation, filtered by type, modality, tier and pin."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    batch = pages.list_pages(
        thread_row,
        state,
        where=pages.PageFilter(
            type=query.type,
            modality=query.modality,
            tier=query.tier,
            pinned=None if query.pinned is None else query.pinned == "true",
        ),
        after=query.after,
        limit=query.limit,
    )
    items = [PageOut.from_line(line) for line in batch.items]
    tokenizer = state.paging.settings.tokenizer
    return render_answer(PagesOut(tokenizer=tokenizer, items=items, next=batch.next))


@router.route(
    "GET",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.READ,
    out=PageViewOut,
    refusals=[*GONE, *PAGE_REFUSALS, SeqUnknownError],
)
def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    query: Query[PageQuery],
) -> HttpResponse:
    """Read a page at a level, or at the nearest more faithful one there is.

    `page.level` is the level served. Reading changes nothing: no look-up is counted.
    """
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    line = pages.build_line(state, pages.find_entry(state, page_id))
    envelope = envelopes.get_envelope(
        thread_row, line.entry, level=query.level, tier=line.tier
    )
    out = PageViewOut.from_line(
        line,
        tokenizer=state.paging.settings.tokenizer,
        hint=envelopes.get_hint(thread_row, line.entry),
        provenance=list(pages.get_provenance(state, page_id)),
        page=EnvelopeOut.from_envelope(envelope),
    )
    return render_answer(out)


@router.route(
    "GET",
    "/threads/{thread}/pages/{page_id}/history",
    needs=auth.READ,
    out=MutationsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError, PageUnknownError],
)
def history(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    query: Query[HistoryQuery],
) -> HttpResponse:
    """List all events of a page, oldest first, even if deleted."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    batch = list_history(
        thread_row,
        pages.list_segments(state),
        page_id,
        after=query.after,
        limit=query.limit,
    )
    if not batch.items and query.after is None:
        raise PageUnknownError
    return render_answer(MutationsOut.model_validate(batch))


@router.route(
    "PATCH",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.WRITE,
    out=WrittenOut,
    refusals=[
        *KEEPING,
        *PAGE_REFUSALS,
        DerivedPageError,
        PinBudgetError,
        TokensRequiredError,
    ],
)
async def patch(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    body: PagePatch,
) -> HttpResponse:
    """Change a page's content, importance or hint; of a message, only the latter two.

    New content has the page's modality and replaces the whole old content.
    """
    agent = auth.get_caller(request)
    row, entry = await read(_get_entry, agent, thread, page_id)
    if body.content is not None and entry.slot is None:
        _require_shape(body.content, entry)
    receipt = await writing.amend_page(
        agent=agent,
        thread=row,
        entry=entry,
        change=body.to_change(),
        by=body.by,
        preconditions=writing.Preconditions(if_match=parse_if_match(request)),
    )
    return await _render_put(receipt)


@router.route(
    "DELETE",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.WRITE,
    out=DeletedOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS, DerivedPageError, SubjectHeldError],
)
async def delete(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name]
) -> HttpResponse:
    """Delete a page for good; its id is never used again.

    A message goes with its thread or subject; the system prompt is only rewritten. No
    page of a held subject is deleted before the hold ends.
    """
    if page_id == SYSTEM_PROMPT:
        raise InvalidError(code="reserved_id", loc="path.page_id")
    receipt = await writing.submit_command(
        auth.get_caller(request),
        thread,
        DeletePage(page_id=page_id),
        preconditions=writing.Preconditions(if_match=parse_if_match(request)),
    )
    name, home = receipt.name, receipt.thread
    out = DeletedOut(thread=name, thread_id=home, seq=receipt.seq, page_id=page_id)
    return render_answer(out)


def _build_id() -> str:
    return f"page-{uuid7().hex}"


async def _render_put(receipt: OrderReceipt) -> HttpResponse:
    frames = (await writing.get_state_after(receipt)).paging.frames
    ids = [event.page_id for event in receipt.list_events(PageCreated)]
    ids += [event.page_id for event in receipt.list_events(PageUpdated)]
    mapped = {page_id: page_id in frames for page_id in ids}
    (out,) = _build_written(receipt, mapped)
    return render_answer(out, status=201 if receipt.list_events(PageCreated) else 200)


def _build_written(receipt: OrderReceipt, mapped: dict[str, bool]) -> list[WrittenOut]:
    """Build an answer for each created or changed page, with the pages it evicted."""
    found: list[WrittenOut] = []
    leaving: list[str] = []
    for each in receipt.events:
        event = each.event
        gone = (page for page in list_evictions(event) if page.tier_before == "L0")
        leaving += [page.page_id for page in gone]
        if isinstance(event, PageCreated | PageUpdated):
            out = WrittenOut(
                thread=receipt.name,
                thread_id=receipt.thread,
                seq=each.seq,
                page_id=event.page_id,
                version=1 if isinstance(event, PageCreated) else event.version,
                mapped=mapped[event.page_id],
                evictions=leaving,
            )
            found.append(out)
            leaving = []
    if found and leaving:
        found[-1].evictions += leaving
    return found


def _require_shape(content: dict[str, Any], entry: PageEntry) -> None:
    try:
        contents.check_content(content, modality=entry.modality)
    except FieldRefusedError as refused:
        loc = ".".join(map(str, ("content", *refused.loc)))
        raise InvalidError(
            code=refused.code, loc=loc, allowed=refused.allowed
        ) from None


# Reads are rendered in the reader's thread, which keeps the event loop free.


def _get_entry(agent: Agent, name: str, page_id: str) -> tuple[Thread, PageEntry]:
    thread = get_agent_thread(agent, name)
    entry = pages.find_current_entry(thread, page_id)
    # The slower look-up raises the reason why there is no entry.
    return thread, entry or pages.find_entry(states.load_state(thread), page_id)
