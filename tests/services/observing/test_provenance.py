"""Provenance of observations: each line and each source leads to existing slots."""

from __future__ import annotations

import pytest

from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers
from memoryhub.queries.threads.slots import get_slots
from memoryhub.queries.turns import prefixes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers as acts
from tests.cast.erasings import erase
from tests.cast.factories import get_thread, make_thread, run
from tests.services.acts import state_of
from tests.services.observing.test_extraction import SETTINGS, talk

pytestmark = pytest.mark.django_db


def check_provenance(thread: Thread) -> int:
    """Check all observations in the log or waiting, and return their number.

    A reflection is made of what it covers, an observation of all messages of its range
    but those that were erased before, and a model's of observations that it was shown
    and of the thread's own instructions.
    """
    views = [*observers.list_log(thread), *observers.list_waiting(thread)]
    for view in views:
        lines = get_slots(thread, range(view.begin, view.end), content=False)
        assert [line.index for line in lines] == [*range(view.begin, view.end)]
        for line in view.lines or ():
            assert view.begin <= line.first < line.end <= view.end
        made = Derivation.objects.filter(
            derived_thread=view.home, derived_seq=view.seq
        ).values_list("thread", "source_seq")
        if view.body.covers is None:
            there = {(line.home, line.seq) for line in lines if not line.erased}
        else:
            found = [observers.get_observation(thread, n) for n in view.body.covers]
            there = {(each.home, each.seq) for each in found if each is not None}
            assert len(there) == len(view.body.covers)
        rows = Event.objects.filter_places({*made} - there)
        shown = rows.exclude(type="observer.instructed").values_list("page")
        assert {*made} >= there
        assert all((page or "").startswith(("obs-", "ref-")) for (page,) in shown)
        assert not shown or view.body.method == "model"
    return len(views)


def test_new_observations_end_the_prefix(agent: Agent) -> None:
    make_thread(agent, "t-1", **SETTINGS)
    talk(agent, 0, 120)
    thread = get_thread(agent)
    lenses = [prefixes.get_lens(thread, n + 1) for n in range(thread.turn_count)]
    found = {lens.cause for lens in lenses if lens.section == "log"}
    assert found == {"log"}


def test_provenance_of_observations_is_complete(agent: Agent) -> None:
    make_thread(agent, "t-1", **SETTINGS)
    talk(agent, 0, 120)
    run(acts.reflect_log(agent=agent, thread="t-1"))
    talk(agent, 120, 160)
    row = get_thread(agent)
    watermark = state_of(row).observing.watermark
    (line,) = get_slots(row, [watermark + 1])
    erase(row, (line.seq, line.seq))
    run(acts.observe_now(agent=agent, thread="t-1"))
    assert observers.list_log(get_thread(agent))[0].reflection
    assert observers.list_waiting(get_thread(agent))[0].begin == watermark
    assert check_provenance(get_thread(agent)) > 2
