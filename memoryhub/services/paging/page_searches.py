"""Page searches: a model's full-text search, answered in a few lines."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from memoryhub.errors import InvalidError
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.paging.page_commands import RecordSearch
from memoryhub.kernel.search.parsing import Filters
from memoryhub.kernel.state.page_events import PagesSearched
from memoryhub.kernel.tools.tools import Failure, SearchCall
from memoryhub.kernel.turns import searches
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.replay import states
from memoryhub.queries.search.hits import SearchHit
from memoryhub.queries.search.searching import FETCHED, SearchRequest, search_thread
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages

_OFF = "This thread does not allow searches."
_NONE_LEFT = "No searches are left in this exchange."
_NOTHING = "nothing was found beside this exchange"


class _SearchAnswer(NamedTuple):
    """Text of a search's answer, and its number of pages; None if refused."""

    content: str
    results: int | None = None


async def search_for_model(agent: Agent, thread: str, call: SearchCall) -> str:
    """Search the thread for a model, and return the text of its tool's message.

    Emits pages.searched, unless the thread allows no search, the query is invalid or
    three searches of the exchange are over. A search is no fault: nothing is charged or
    mapped. Pages that the running exchange shows in full are left out: a question is
    not its own answer.
    """
    found = await read(_find_pages, agent, thread, call)
    if found.results is not None:
        await pages.submit_command(agent, thread, RecordSearch(results=found.results))
    return found.content


def _find_pages(agent: Agent, name: str, call: SearchCall) -> _SearchAnswer:
    """Find pages, and render the answer."""
    row = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    state = states.load_state(row)
    if not state.paging.settings.search_tool:
        return _SearchAnswer(Failure(_OFF))
    since = searches.get_exchange_seq(state)
    made = Event.objects.filter(
        thread_id=row.id, seq__gt=since, type=PagesSearched.event_type
    ).count()
    left = searches.MOST - made
    if left <= 0:
        return _SearchAnswer(Failure(_NONE_LEFT))
    try:
        request = SearchRequest.parse(
            call.query,
            filters=Filters(kinds=FETCHED),
            limit=call.limit,
            modality=call.modality,
        )
        request = replace(request, where=FactFilter(valid_at=clock.now()))
    except InvalidError as refusal:
        return _SearchAnswer(Failure(f"{refusal.loc} takes {refusal.allowed}."))
    uses.count_read(agent.prefix, row.subject_id)
    found = search_thread(row, request, without=searches.list_running(state))
    head = f"{len(found.items)} of {found.total} pages" if found.items else _NOTHING
    lines = [f"{head} · {left - 1} searches left", "", *map(_render_hit, found.items)]
    return _SearchAnswer("\n".join(lines).rstrip(), len(found.items))


def _render_hit(hit: SearchHit) -> str:
    """Render a hit for a model: page, role or type, date, marks, and the excerpt."""
    about = (hit.page, hit.role or hit.type, f"{hit.at:%Y-%m-%d}", hit.marks)
    before, after = ("… " * hit.excerpt.before, " …" * hit.excerpt.after)
    text = " ".join(hit.excerpt.text.split())
    return f"{' · '.join(filter(None, about))}: {before}{text}{after}"
