"""Integers of any size, shown and exported digit by digit."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.oracles import memory_acts as acts

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"
NUMBER = 10**30 + 7


@pytest.fixture
def kept(agent: Agent) -> None:
    factories.append(agent, "t-1", {"invoice": NUMBER}, NUMBER, f'{{"id": {NUMBER}}}')
    acts.set_key(agent, "k", {"invoice": NUMBER})
    acts.set_key(agent, "n", NUMBER)
    acts.set_task(agent, fields={"data": b'{"invoice":%d}' % NUMBER})


@pytest.mark.parametrize(
    "path",
    [
        *("events", "slots", "slots/0", "slots/1", "slots/2", "messages.ndjson"),
        *("keys/k", "keys/n", "task", "events/2", "events/5", "pages/slot-0"),
    ],
)
def test_big_integers_keep_every_digit(viewer: Client, kept: None, path: str) -> None:
    answer: Any = viewer.get(f"{T}/{path}")
    assert answer.status_code == 200
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert str(NUMBER).encode() in body
