"""A project with every state that the inspector shows, and its pages."""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub import journal
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.paging.page_commands import (
    FaultPage,
    PinPage,
    UnpinPage,
    UpdatePage,
)
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers
from memoryhub.queries.threads.evicted_pages import EVICTED
from memoryhub.services.access import operators, webhooks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import marks
from memoryhub.workers.overview import alerts, unhealthy
from tests.cast import factories, knowing, lost_needles
from tests.inspector import denied, forgotten, observed, paged, remembered
from tests.inspector.routes import PICTURED, SINCE, list_routes, variants
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

PROJECT = "/p/acme"
THREADS = f"{PROJECT}/threads"
OF_PAGES = (
    *("pages/sum", "pages/policy", "pages/slot-4", "turns/8", "turns/8/diff"),
    *("turns/8/request", "turns/6", "turns/8/missing", "turns/8/prefix", "prefix"),
)
#: Search words, by the address of the screen.
SEARCHES = (
    ("search", {"q": "promise refund", "thread": "refund"}),
    ("search", {"q": "zzz", "thread": "refund"}),
    ("search/said", {"q": "promise refund"}),
    ("search/preview", {"q": "promise", "thread": "refund", "page": denied.PROMISED}),
)


def build_recall(agent: Agent) -> tuple[str, dict[str, str]]:
    """Build the address of the desk's recall, and the words that are searched."""
    subject = factories.get_thread(agent, "desk").subject_id
    return f"subjects/{subject}/recall", {"query": "home airport"}


def make_world(agent: Agent) -> list[str]:
    """Write the whole world; return the addresses of its pages."""
    town = forgotten.make_town(agent)
    rita = operators.find("rita")
    assert rita is not None
    labels: dict[str, LabelValue] = {"source": "desk", "reward": 1.0, "trial": 0}
    factories.make_thread(agent, "imported", user_id="ann", labels=labels)
    factories.append(agent, "pictured", PICTURED)
    desk = remembered.make_desk(agent)
    ann = desk.subject
    knowing.say(agent, ann, knowing.claim("OSL", 0), knowing.claim("BGO", 31, 60))
    knowing.write(agent, ann, "persona", "Ann flies from Oslo.")
    home = knowing.write(agent, ann, "persona", "Ann flies from OSL.")
    webhook, _ = webhooks.create(
        ann.project,
        url="https://hooks.example.com/",
        types=["task.set"],
        actor="command",
    )
    known = {
        **town.values,
        "webhook": str(webhook.id),
        "operator": str(rita.id),
        "token": "x" * 43,
        "prefix": agent.prefix,
        "thread": desk.name,
        "key": "seat",
        "number": str(get_last_seq(desk, "checkpoint.taken")),
        "seq": "2",
        "index": "1",
        "part": "0",
        "page": "slot-0",
        "fact": "2",
        "block": "persona",
        "verb": "pin",
        "n": "2",
    }
    other = {**known, "thread": paged.make_paged(agent).name}
    particular = [
        *particular_pages(agent, town, desk),
        f"{PROJECT}/subjects/{ann.id}/blocks?block=persona&carried=persona",
        f"{PROJECT}/subjects/{ann.id}/facts?left={home.head_seq}",
    ]
    particular += observed_pages(agent)
    unhealthy.look(clock.now())
    alerts.look(clock.now())
    return [*every_page(known), *every_page(other), *particular]


def every_page(known: dict[str, str]) -> Iterator[str]:
    for route in list_routes():
        for choice in variants(route):
            path = route.fill({**known, **choice})
            yield f"{path}?{SINCE}"
            if "thread" in route.parameters:
                yield f"{path}?at_seq=12&base=1&view=events&tab=changes&open=12"


def particular_pages(agent: Agent, town: forgotten.Town, desk: Thread) -> list[str]:
    """List pages that need a search, a choice, or another thread than the rest."""
    lost = lost_needles.lose(agent)
    before = make_pages(agent)
    paged.make_restless(agent, exchanges=6)
    denied.make_denial(agent)
    denied.make_refusal(agent, "strict")
    paged.ask(agent, "refund", "Which flight was it of days 0, 1, 2 and 3?")
    again = "Was there one, number 0, or number 1, and flights of day 0 or day 1?"
    paged.ask(agent, "refund", again)
    imported = factories.get_thread(agent, "imported")
    operator_threads.close(imported, actor="operator:x", reason="completed")
    for outcome in ("failure", "success"):
        act(agent, RecordCall(tool="fly", arguments={}, outcome=outcome), "paged")
    uses.flush()
    paged_row = factories.get_thread(agent, "paged")
    marks.mark_for_operator(paged_row, 6, "wrong", "Nobody knows.", actor="operator:x")
    restored = get_last_seq(desk, "checkpoint.restored")
    thread = factories.get_thread(agent, "paged")
    # The first eviction: evictions by hand have no score.
    left = Event.objects.filter(thread=thread, type__in=EVICTED)
    evicted = left.order_by("seq")[0].seq
    return [
        f"{THREADS}?q=nothing-like-it",
        f"{PROJECT}/subjects/{desk.subject_id}/facts?fact=2-0",
        f'{THREADS}?q=a"',
        f'{THREADS}/desk/keys?q=a"',
        f'{THREADS}/desk/events?q=a"',
        f"{THREADS}/paged/compare?a={before}&b=head",
        f"{THREADS}/paged/compare?a=head&b={before}",
        *(f"{THREADS}/paged/{path}" for path in OF_PAGES),
        f"{THREADS}/restless",
        *(
            f"{THREADS}/{turn}{panel}"
            for turn in (
                *("paged/turns/6", f"refund/turns/{denied.DENIED + 3}"),
                f"strict/turns/{denied.DENIED + 2}",
            )
            for panel in ("", "/panels/missing")
        ),
        f"{THREADS}/paged?tab=memory",
        f"{THREADS}/paged/panels/moment?at_seq=9&passing=1",
        f"{THREADS}/paged?at_seq={evicted}",
        f"{THREADS}/restless/paging",
        f"{THREADS}/imported/slots",
        f"{THREADS}/pictured/slots/0",
        f"{THREADS}/nowhere/panels/changed",
        f"{THREADS}/gus-1/slots",
        f"{THREADS}/desk/events/{restored}?seen={restored - 3}",
        f"{THREADS}/desk?saved={restored}&seen={restored - 3}",
        f"{PROJECT}/subjects/{town.people['cid'].id}",
        f"{PROJECT}/erasures/{town.complete.id}",
        f"{PROJECT}/erasures/{lost.id}",
        f"{PROJECT}/marked-turns",
        # The pages before were looked at.
        f"{PROJECT}/audit?show=looks",
    ]


def observed_pages(agent: Agent) -> list[str]:
    """List pages of an observed thread with a gap: waiting and erased parts.

    Health shows the failed model.
    """
    activity.count_model_run(agent.project, "observer", "useless", calls=2, tokens=90)
    journal.run(activity.flush)
    row = observed.make_observed(agent)
    (waits, *_) = observers.list_waiting(row)
    observed.fail_observer(agent)
    observed.erase_with_observation(agent)
    asked = ("", f"?observation={waits.page_id}", "?observation=obs-0")
    pages = [f"{observed.PAGE}{each}" for each in asked]
    return [*pages, f"{THREADS}/{row.name}/memory"]


def make_pages(agent: Agent) -> int:
    """Rewrite a derived page and lower another; return the checkpoint before."""
    text, of = paged.PROSE * 20, ["policy"]
    factories.make_page(agent, "sum", thread="paged", text=text, provenance=of)
    act(agent, PinPage(page_id="sum"), "paged")
    before = memory_acts.take(agent, thread="paged").seq
    act(agent, UnpinPage(page_id="sum"), "paged")
    new = UpdatePage(page_id="sum", payload=b'{"content":{"text":"Newer."}}')
    act(agent, new, "paged")
    paged.fetch(agent, "paged", "slot-1")
    lower = FaultPage(page_id="slot-4", level=2)
    factories.run(page_faults.fault_page(agent=agent, thread="paged", command=lower))
    paged.ask(agent, "paged", "And tomorrow?")
    return before


def get_last_seq(thread: Thread, event_type: str) -> int:
    found = Event.objects.filter(thread=thread, type=event_type).order_by("seq").last()
    assert found is not None
    return found.seq
