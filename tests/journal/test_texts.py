"""Opened texts: a process keeps as much of them as it says."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from memoryhub.journal import texts
from memoryhub.journal.texts import BESIDE_BYTES, KEPT_BYTES, Texts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.cast.factories import run

pytestmark = pytest.mark.django_db
COUNT = 200


def test_cached_text_weighs_its_size(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (f"Number {n} goes on for a while." * 4 for n in range(COUNT))
    factories.append(agent, "t-1", *said)
    every, half = Texts(KEPT_BYTES), Texts(COUNT * BESIDE_BYTES // 2)
    taken = list[int]()
    for kept in (every, half):
        monkeypatch.setattr(texts, "texts", kept)
        tracemalloc.start()
        run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn()))
        gc.collect()
        taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert len(every.list_items()) == COUNT
    assert BESIDE_BYTES / 2 < taken[0] / COUNT < BESIDE_BYTES * 2
    assert COUNT / 4 < len(half.list_items()) < COUNT / 2
