"""Marks of turns: the form of a turn's page, and the list of a project."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_restless
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db
PAGE = "/p/acme/threads/visit/turns/1"
LIST = "/p/acme/marked-turns"


def fetch_text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_editor_marks_a_turn_and_finds_it_again(
    agent: Agent, owner: Client, viewer: Client
) -> None:
    begin(agent, "Is 12A free?", thread="visit")
    assert "No marked turns yet" in fetch_text(viewer, LIST)
    assert "Mark this answer" not in fetch_text(viewer, PAGE)
    form = {"mark": "wrong", "comment": "12A is <b>taken</b>."}
    assert viewer.post(f"{PAGE}/mark", form).status_code == 403
    for refused in ({"mark": "bad"}, {"mark": "good", "comment": "x" * 2_001}):
        answer = owner.post(f"{PAGE}/mark", refused)
        assert answer.status_code == 422
        assert 'role="alert"' in answer.content.decode()
    assert owner.post(f"{PAGE}/mark", form).status_code == 302
    for page in (PAGE, LIST, f"{LIST}?mark=wrong"):
        assert "12A is &lt;b&gt;taken&lt;/b&gt;." in fetch_text(viewer, page)
    assert "No turn is marked good" in fetch_text(viewer, f"{LIST}?mark=good")
    assert owner.post(f"{PAGE}/mark", {"act": "remove"}).status_code == 302
    assert "No marked turns yet" in fetch_text(viewer, LIST)


def test_list_of_turns_flags_what_lacked_and_filters_by_mark(
    agent: Agent, owner: Client
) -> None:
    make_restless(agent, exchanges=4)
    turns = "/p/acme/threads/restless/turns"
    for n in (1, 3):
        owner.post(f"{turns}/{n}/mark", {"mark": "wrong"})
    rows = owner.get(f"{turns}?mark=wrong").context["rows"]
    assert [(row.line.n, row.mark, row.lacked) for row in rows] == [
        (3, "wrong", 1),
        (1, "wrong", 1),
    ]
    first = owner.get(f"{turns}?mark=wrong&limit=1")
    rest = owner.get(f"{turns}?{first.context['more']}")
    assert [row.line.n for row in rest.context["rows"]] == [1]
    whole = owner.get(turns).context["rows"]
    assert {row.line.n: row.lacked for row in whole} == {4: 0, 3: 1, 2: 1, 1: 1}
    empty = fetch_text(owner, f"{turns}?mark=good")
    assert "No turn is marked good" in empty
    assert f'<a href="{turns}">all turns</a>' in empty
    assert owner.get(f"{turns}?mark=bad").status_code == 422
