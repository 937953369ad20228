"""The length of the prefix that a request shares with the previous request.

The packer counts the shared bytes once per turn; all screens show this figure.
"""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.templatetags import units
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts, prefixes, turns
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged, text_of

pytestmark = pytest.mark.django_db

T = "/p/acme/threads/paged"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_every_query_returns_the_recorded_prefix_figure(paged: Thread) -> None:
    points = {each.turn: each for each in prefixes.list_points(paged)}
    listed = {each.n: each for each in turns.list_turns(paged).items}
    assert len(points) == len(listed) == paged.turn_count
    for n, line in listed.items():
        prefix = contexts.get_recorded_turn(paged, n).event.prefix_tokens
        assert prefix is not None
        lens = prefixes.get_lens(paged, n)
        assert line.packed is not None
        places = (line.packed, points[n], lens)
        assert {each.prefix_tokens for each in places} == {prefix}
        assert {each.share for each in (points[n], lens)} == {prefix / lens.tokens}


def test_every_screen_shows_the_recorded_prefix_figure(
    viewer: Client, paged: Thread
) -> None:
    rows = text_of(viewer, f"{T}/turns")
    series = text_of(viewer, f"{T}/prefix")
    for n in range(1, paged.turn_count + 1):
        event = contexts.get_recorded_turn(paged, n).event
        assert event.prefix_tokens is not None
        tokens = units.number(event.prefix_tokens)
        share = units.share(event.prefix_tokens, event.tokens)
        page = text_of(viewer, f"{T}/turns/{n}")
        lens = text_of(viewer, f"{T}/turns/{n}/prefix")
        if n > 1:
            assert f"<dd>{share}<small>{tokens} token" in page
        assert f"<dd>{tokens} <small" in lens
        # The total is the same on both screens, too.
        packed = units.number(event.tokens)
        assert f"<dd>{packed}<small>of " in page
        assert f"of {packed} packed" in lens
        assert f'data-label="prefix">{share}</td>' in get_row(rows, f"/turns/{n}")
        assert f'<td class="n">{tokens}</td>' in get_row(series, f"/turns/{n}/prefix")


def get_row(page: str, path: str) -> str:
    """Return the table row that links to this address."""
    rows: list[str] = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    (found,) = (each for each in rows if f'{path}"' in each)
    return found
