from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.http.reading import GONE, find_state, find_thread, seq_of
from memoryhub.api.paging.page_acts import ActIn
from memoryhub.api.paging.page_conditions import conditions
from memoryhub.api.paging.paging_schemas import (
    MutationsOut,
    MutationsQuery,
    PagingOut,
    PagingTallyOut,
    TurnTallyOut,
)
from memoryhub.api.paging.working_set_schemas import (
    BudgetOut,
    DroppedOut,
    InvalidateIn,
    ManifestOut,
    PrefetchOut,
    TlbEntryOut,
    TlbOut,
    VerdictOut,
    WorkingSetOut,
)
from memoryhub.errors import BadCursorError, SeqUnknownError
from memoryhub.journal import Receipt
from memoryhub.kernel.paging.page_commands import FlushTlb, InvalidateTlb
from memoryhub.kernel.state.page_events import TlbFlushed, TlbInvalidated
from memoryhub.queries.paging.paging_metrics import Tally, get_metrics
from memoryhub.queries.paging.residency import get_residency
from memoryhub.queries.threads.mutations import MutationFilter, list_mutations
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import manifests, prefetch
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages as writing

router = StrictRouter(tags=["working set"])

_READS = (*GONE, SeqUnknownError)


@router.route(
    "GET",
    "/threads/{thread}/working-set",
    needs=auth.READ,
    out=WorkingSetOut,
    refusals=_READS,
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """What stands in the model's context, and why each page stays or goes."""
    return await read(_get, auth.caller(request), thread, query)


@router.route(
    "GET", "/threads/{thread}/tlb", needs=auth.READ, out=TlbOut, refusals=_READS
)
async def get_tlb(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """The page-table entries that were looked up last. Looking here counts nothing."""
    return await read(_get_tlb, auth.caller(request), thread, query)


@router.route(
    "GET", "/threads/{thread}/paging", needs=auth.READ, out=PagingOut, refusals=_READS
)
async def get_paging(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Look-ups, faults, evictions: in total, in this turn, and by turn."""
    return await read(_get_paging, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/manifest",
    needs=auth.READ,
    out=ManifestOut,
    refusals=_READS,
)
async def get_manifest(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """What a model can be told of the pages there are, all frames among them."""
    return await read(_get_manifest, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/prefetch",
    needs=auth.READ,
    out=PrefetchOut,
    refusals=_READS,
)
async def get_prefetch(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """What a turn would bring along whatever it is asked, and by what counts."""
    return await read(_get_prefetch, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/mutations",
    needs=auth.READ,
    out=MutationsOut,
    refusals=[*_READS, BadCursorError],
)
async def mutations(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MutationsQuery]
) -> HttpResponse:
    """What changed pages, oldest first; of a fork, with the steps it inherits."""
    return await read(_mutations, auth.caller(request), thread, query)


@router.route(
    "POST",
    "/threads/{thread}/tlb:flush",
    needs=auth.WRITE,
    out=DroppedOut,
    refusals=CONDITIONAL,
)
async def flush_tlb(
    request: HttpRequest, thread: Path[ThreadName], body: ActIn
) -> HttpResponse:
    """Drop every entry; each is read again when it is next looked up."""
    receipt = await writing.apply(
        auth.caller(request),
        thread,
        FlushTlb(by=body.by),
        preconditions=conditions(request, body),
    )
    return _dropped(receipt, receipt.one(TlbFlushed).dropped)


@router.route(
    "POST",
    "/threads/{thread}/tlb:invalidate",
    needs=auth.WRITE,
    out=DroppedOut,
    refusals=CONDITIONAL,
)
async def invalidate_tlb(
    request: HttpRequest, thread: Path[ThreadName], body: InvalidateIn
) -> HttpResponse:
    """Drop the entry of one page, or those of all pages that stand in a tier."""
    receipt = await writing.apply(
        auth.caller(request),
        thread,
        InvalidateTlb(page_id=body.page_id, tier=body.tier, by=body.by),
        preconditions=conditions(request, body),
    )
    return _dropped(receipt, receipt.one(TlbInvalidated).dropped)


def _dropped(receipt: Receipt, dropped: int) -> HttpResponse:
    out = DroppedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        dropped=dropped,
    )
    return rendered(out, replayed=receipt.replayed)


# What is read is rendered where it was read: the event loop has others to serve.


def _get(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread = find_thread(agent, name)
    seq = seq_of(thread, moment)
    found = get_residency(thread, thread.head_seq if seq is None else seq)
    return rendered(WorkingSetOut.of(name, found))


def _get_tlb(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    _, state = find_state(agent, name, moment)
    tlb = state.paging.tlb
    out = TlbOut(
        thread=name,
        seq=state.seq,
        size=state.paging.settings.tlb_entries,
        hits=tlb.hits,
        misses=tlb.misses,
        hit_rate=Tally(counts={"hits": tlb.hits, "misses": tlb.misses}).hit_rate,
        items=[TlbEntryOut.of(state, entry) for entry in tlb.oldest_first()[::-1]],
    )
    return rendered(out)


def _get_paging(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread, state = find_state(agent, name, moment)
    found, exchanges = get_metrics(thread, state), state.paging.exchanges
    out = PagingOut(
        thread=name,
        seq=state.seq,
        turn=state.turn_count,
        budget=BudgetOut.of(found.residency.budget),
        pages=state.paging.pages,
        mapped=len(state.paging.frames),
        hot=len(state.paging.hot),
        exchanges=exchanges.begun,
        resident_rate=exchanges.rate,
        resident_rate_in_all=exchanges.rate_in_all,
        total=PagingTallyOut.of(found.total),
        this_turn=PagingTallyOut.of(found.turn),
        turns=[
            TurnTallyOut(
                turn=each.n,
                resident_rate=each.resident_rate,
                counts=PagingTallyOut.of(each.tally),
            )
            for each in found.turns
        ],
        thrash_index=found.residency.thrash_index,
        over_budget=found.residency.over_budget,
        verdict=VerdictOut.model_validate(found.verdict),
    )
    return rendered(out)


def _get_prefetch(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread, state = find_state(agent, name, moment)
    found = prefetch.get_prefetch(thread, state) | {"thread": name}
    return rendered(PrefetchOut.model_validate(found))


def _get_manifest(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread, state = find_state(agent, name, moment)
    return rendered(
        ManifestOut(**manifests.get_manifest(thread, state) | {"thread": name})
    )


def _mutations(agent: Agent, name: str, query: MutationsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    batch = list_mutations(
        thread,
        where=MutationFilter(
            type=query.type, by=query.by, page_id=query.page_id, turn=query.turn
        ),
        at_seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
    )
    return rendered(MutationsOut.model_validate(batch))
