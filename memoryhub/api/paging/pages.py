from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document import contents
from memoryhub.api.document.fields import Name, OwnPageId, RefusedError, ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING, if_match
from memoryhub.api.http.reading import GONE, find_state, find_thread
from memoryhub.api.paging.page_conditions import OF_A_PAGE, conditions
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
from memoryhub.journal import Receipt
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated, list_evictions
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, Entry
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
    """Make a page, mapped at FULL if it fits. An id that exists is refused.

    Makes the thread if the name is new. `mapped` is false where no room could be made;
    the page is kept all the same.
    """
    receipt = await writing.write(
        agent=auth.caller(request),
        thread=thread,
        drafts=[body.draft(body.page_id or _new_id())],
        by=body.by,
        preconditions=conditions(request, body),
    )
    (made,) = _written(receipt, writing.mapped(receipt))
    return rendered(made, status=201, replayed=receipt.replayed)


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
    """Make up to 200 pages in order, all or nothing; later ones may name earlier."""
    receipt = await writing.write(
        agent=auth.caller(request),
        thread=thread,
        drafts=[item.draft(item.page_id or _new_id()) for item in body.items],
        by=body.by,
        preconditions=conditions(request, body),
    )
    made = WrittenBatchOut(items=_written(receipt, writing.mapped(receipt)))
    return rendered(made, status=201, replayed=receipt.replayed)


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
    """Make the page, or write its next version; older ones stay readable at their seq.

    What a page that is there was made of stays, unless `provenance` says otherwise.
    """
    receipt = await writing.write(
        agent=auth.caller(request),
        thread=thread,
        drafts=[body.draft(page_id)],
        replace=True,
        by=body.by,
        preconditions=writing.Preconditions(if_match=if_match(request)),
    )
    return await _put(receipt)


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
    """Write what stands first in every request. It counts as pinned."""
    receipt = await writing.write_system_prompt(
        agent=auth.caller(request),
        thread=thread,
        text=body.text,
        tokens=body.tokens,
        preconditions=writing.Preconditions(if_match=if_match(request)),
    )
    return await _put(receipt)


@router.route(
    "GET",
    "/threads/{thread}/pages",
    needs=auth.READ,
    out=PagesOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[PagesQuery]
) -> HttpResponse:
    """Pages in the order they were made, narrowed by type, modality, tier and pin."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.READ,
    out=PageViewOut,
    refusals=[*GONE, *OF_A_PAGE, SeqUnknownError],
)
async def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    query: Query[PageQuery],
) -> HttpResponse:
    """A page at a level, or at the nearest more faithful one that there can be.

    `page.level` says which was served. Reading changes nothing: no look-up is counted.
    """
    return await read(_get, auth.caller(request), thread, page_id, query)


@router.route(
    "GET",
    "/threads/{thread}/pages/{page_id}/history",
    needs=auth.READ,
    out=MutationsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError, PageUnknownError],
)
async def history(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    query: Query[HistoryQuery],
) -> HttpResponse:
    """All that happened to a page, oldest first; also to one that is deleted."""
    return await read(_history, auth.caller(request), thread, page_id, query)


@router.route(
    "PATCH",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.WRITE,
    out=WrittenOut,
    refusals=[
        *KEEPING,
        *OF_A_PAGE,
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

    A content is of the page's modality, and stands in the place of the whole old one.
    """
    agent = auth.caller(request)
    row, entry = await read(_found, agent, thread, page_id)
    if body.content is not None and entry.slot is None:
        _require_shape(body.content, entry)
    receipt = await writing.amend(
        agent=agent,
        thread=row,
        entry=entry,
        change=body.change(),
        by=body.by,
        preconditions=writing.Preconditions(if_match=if_match(request)),
    )
    return await _put(receipt)


@router.route(
    "DELETE",
    "/threads/{thread}/pages/{page_id}",
    needs=auth.WRITE,
    out=DeletedOut,
    refusals=[*CONDITIONAL, *OF_A_PAGE, DerivedPageError, SubjectHeldError],
)
async def delete(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name]
) -> HttpResponse:
    """Take a page out for good; its id is never used again.

    A message goes with its thread or subject, and the system prompt is written anew.
    Of a subject that is held no page goes before the hold ends.
    """
    if page_id == SYSTEM_PROMPT:
        raise InvalidError(code="reserved_id", loc="path.page_id")
    receipt = await writing.apply(
        auth.caller(request),
        thread,
        DeletePage(page_id=page_id),
        preconditions=writing.Preconditions(if_match=if_match(request)),
    )
    name, home = receipt.name, receipt.thread
    out = DeletedOut(thread=name, thread_id=home, seq=receipt.seq, page_id=page_id)
    return rendered(out)


def _new_id() -> str:
    return f"page-{uuid7().hex}"


async def _put(receipt: Receipt) -> HttpResponse:
    frames = (await writing.after(receipt)).paging.frames
    ids = [event.page_id for event in receipt.all(PageCreated)]
    ids += [event.page_id for event in receipt.all(PageUpdated)]
    mapped = {page_id: page_id in frames for page_id in ids}
    (out,) = _written(receipt, mapped)
    return rendered(out, status=201 if receipt.all(PageCreated) else 200)


def _written(receipt: Receipt, mapped: dict[str, bool]) -> list[WrittenOut]:
    """One for each page that was made or changed, with what left for it."""
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


def _require_shape(content: dict[str, Any], entry: Entry) -> None:
    try:
        contents.checked(content, modality=entry.modality)
    except RefusedError as refused:
        loc = ".".join(map(str, ("content", *refused.loc)))
        raise InvalidError(
            code=refused.code, loc=loc, allowed=refused.allowed
        ) from None


# What is read is rendered where it was read: the event loop has others to serve.


def _found(agent: Agent, name: str, page_id: str) -> tuple[Thread, Entry]:
    thread = find_thread(agent, name)
    entry = pages.current_entry(thread, page_id)
    # Slower, but it knows why there is none.
    return thread, entry or pages.find_entry(states.state_of(thread), page_id)


def _list(agent: Agent, name: str, query: PagesQuery) -> HttpResponse:
    thread, state = find_state(agent, name, query)
    batch = pages.list_pages(
        thread,
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
    items = [PageOut.of(line) for line in batch.items]
    tokenizer = state.paging.settings.tokenizer
    return rendered(PagesOut(tokenizer=tokenizer, items=items, next=batch.next))


def _get(agent: Agent, name: str, page_id: str, query: PageQuery) -> HttpResponse:
    thread, state = find_state(agent, name, query)
    line = pages.line_of(state, pages.find_entry(state, page_id))
    envelope = envelopes.get_envelope(
        thread, line.entry, level=query.level, tier=line.tier
    )
    out = PageViewOut.of(
        line,
        tokenizer=state.paging.settings.tokenizer,
        hint=envelopes.get_hint(thread, line.entry),
        provenance=list(pages.get_provenance(state, page_id)),
        page=EnvelopeOut.of(envelope),
    )
    return rendered(out)


def _history(
    agent: Agent, name: str, page_id: str, query: HistoryQuery
) -> HttpResponse:
    thread, state = find_state(agent, name, query)
    batch = list_history(
        thread,
        pages.segments(state),
        page_id,
        after=query.after,
        limit=query.limit,
    )
    if not batch.items and query.after is None:
        raise PageUnknownError
    return rendered(MutationsOut.model_validate(batch))
