"""Screens of threads that were erased in part."""

from __future__ import annotations

from collections import Counter

import pytest
from django.test import Client

from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns.turns import NewTurn, begin_turn
from tests.cast import factories
from tests.cast.erasings import erase, sound
from tests.inspector.routes import list_routes, make_family, variants
from tests.inspector.web.test_looking import look
from tests.oracles.page_acts import make_pages, new_page

pytestmark = pytest.mark.django_db

ASKED = ("", "seq=4", "page=slot-1", "open=slot-1", "turn=2", "q=a")


@pytest.mark.parametrize(
    "every", [2, pytest.param(1, marks=pytest.mark.nightly)], ids=str
)
def test_thread_screens_are_drawn_after_partial_erasure(
    agent: Agent, owner: Client, every: int
) -> None:
    known = make_family(agent, remembering=True)
    make_pages(agent, new_page("a", "aaa", hint="h"))
    thread = factories.get_thread(agent)
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    seqs = [*sealed.order_by("seq").values_list("seq", flat=True)][::every]
    assert erase(thread, *((seq, seq) for seq in seqs))
    statuses = Counter[int]()
    for route in list_routes():
        if "thread" not in route.parameters:
            continue
        for choice in variants(route):
            for name in ("t-1", "t-1.alt"):
                path = route.fill({**known, "thread": name, **choice})
                for query in ASKED:
                    statuses[look(owner, "GET", f"{path}?{query}")] += 1
    assert max(statuses) < 500
    assert statuses[200] > 200
    sound(thread, factories.get_thread(agent, "t-1.alt"))


def test_turn_with_erased_tools_is_drawn(agent: Agent, owner: Client) -> None:
    tools = SetTools(definitions=b'[{"function":{"name":"a"}}]', names=("a",), tokens=9)
    for sent in (tools, None):
        new = NewTurn(slots=[factories.make_slot()], tools=sent)
        factories.run(begin_turn(agent=agent, thread="t-1", new=new))
    thread = factories.get_thread(agent)
    seq = Event.objects.get(thread=thread, type="tools.set").seq
    assert erase(thread, (seq, seq))
    for path in ("1", "2", "2/request", "2/diff", "2/missing", "2/prefix"):
        status = look(owner, "GET", f"/p/acme/threads/t-1/turns/{path}")
        assert status in (200, 410), path
