"""Turns whose request lacked the best match, of a thread and of a project."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.inspector.denied import DENIED, QUESTION, make_denial, say
from tests.inspector.paged import ask, make_restless
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db
TURNS = "/p/acme/threads/refund/turns"
LIST = "/p/acme/lacking-turns"
FLIGHTS = "Which flights are those of day 0?"


def test_filter_finds_the_turn_that_lacked_its_best_match(
    agent: Agent, owner: Client
) -> None:
    make_denial(agent)
    page = owner.get(f"{TURNS}?mark=lacking")
    assert DENIED in [row.line.n for row in page.context["rows"]]
    whole = page.content.decode()
    assert "Best match missing" in whole
    assert QUESTION[:40] in whole
    assert f"turns 1 to {page.context['thread'].turns} lacked" in " ".join(
        whole.split()
    )
    first = owner.get(f"{TURNS}?mark=lacking&limit=1")
    assert first.context["rows"] == []
    assert "No turns" not in first.content.decode()
    assert owner.get(f"{TURNS}?{first.context['more']}").status_code == 200


def test_turn_that_continues_shows_its_question_where_it_stands_alone(
    agent: Agent, owner: Client
) -> None:
    make_restless(agent, exchanges=2)
    turns = "/p/acme/threads/restless/turns"
    begin(agent, thread="restless")
    owner.post(f"{turns}/3/mark", {"mark": "wrong"})
    whole = {row.line.n: row.excerpt for row in owner.get(turns).context["rows"]}
    (row,) = owner.get(f"{turns}?mark=wrong").context["rows"]
    assert (row.begins, whole[3]) == (False, None)
    assert row.excerpt == whole[2]


def test_project_lists_newest_turns_that_lacked_their_best_match(
    agent: Agent, owner: Client, browser: Callable[[str], Client]
) -> None:
    thread = make_denial(agent)
    listed = owner.get(LIST).context["listed"]
    assert [turn.line.n for _, turn in listed] == [DENIED]
    ask(agent, "refund", FLIGHTS)
    say(agent, "refund", "Nothing was paid.")
    listed = owner.get(LIST).context["listed"]
    assert [(row.name, turn.line.n) for row, turn in listed] == [
        ("refund", DENIED + 2),
        ("refund", DENIED),
    ]
    Subject.objects.filter(id=thread.subject_id).update(state=Subject.State.RESTRICTED)
    assert len(owner.get(LIST).context["listed"]) == 2
    hidden = browser("viewer").get(LIST)
    assert hidden.context["listed"] == []
    assert FLIGHTS not in hidden.content.decode()
