"""Page searches: what a model finds by its words, and is told in a few lines."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from memoryhub.errors import InvalidError
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.levels.tools import Failure, SearchCall
from memoryhub.kernel.paging.page_commands import RecordSearch
from memoryhub.kernel.search.parsing import Filters
from memoryhub.kernel.state.page_events import PagesSearched
from memoryhub.kernel.turns import searches
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.replay import states
from memoryhub.queries.search.hits import Hit
from memoryhub.queries.search.searching import FETCHED, SearchRequest, search_thread
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages

_NONE_LEFT = "No searches are left in this exchange."
_NOTHING = "nothing was found beside this exchange"


class _Answer(NamedTuple):
    """What a search says, and how many pages it tells of; None: it was refused."""

    content: str
    results: int | None = None


async def search(agent: Agent, thread: str, call: SearchCall) -> str:
    """Search the thread for a model, and return the text of its tool's message.

    Emits pages.searched, unless the query can't be followed or three searches of the
    exchange are over. It is no fault: nothing is charged or mapped. What the running
    exchange shows whole is left out: a question is not its own answer.
    """
    found = await read(_search, agent, thread, call)
    if found.results is not None:
        await pages.apply(agent, thread, RecordSearch(results=found.results))
    return found.content


def _search(agent: Agent, name: str, call: SearchCall) -> _Answer:
    row = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    state = states.state_of(row)
    since = searches.exchange_seq(state)
    made = Event.objects.filter(
        thread_id=row.id, seq__gt=since, type=PagesSearched.event_type
    ).count()
    left = searches.MOST - made
    if left <= 0:
        return _Answer(Failure(_NONE_LEFT))
    try:
        request = SearchRequest.parse(
            call.query, filters=Filters(kinds=FETCHED), limit=call.limit
        )
        request = replace(request, where=FactFilter(valid_at=clock.now()))
    except InvalidError as refusal:
        return _Answer(Failure(f"{refusal.loc} takes {refusal.allowed}."))
    uses.read(agent.prefix, row.subject_id)
    found = search_thread(row, request, without=searches.list_running(state))
    head = f"{len(found.items)} of {found.total} pages" if found.items else _NOTHING
    lines = [f"{head} · {left - 1} searches left", "", *map(_line, found.items)]
    return _Answer("\n".join(lines).rstrip(), len(found.items))


def _line(hit: Hit) -> str:
    """A hit as a model is told: its page, whose it is, when, and the excerpt."""
    about = (hit.page, hit.role or hit.type, f"{hit.at:%Y-%m-%d}", hit.marks)
    before, after = ("… " * hit.excerpt.before, " …" * hit.excerpt.after)
    text = " ".join(hit.excerpt.text.split())
    return f"{' · '.join(filter(None, about))}: {before}{text}{after}"
