"""Page of one event."""

from __future__ import annotations

import orjson
import pytest
from django.test import Client

from memoryhub.models.events import Event
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, retract, say
from tests.inspector.paged import make_paged

pytestmark = pytest.mark.django_db


def test_event_by_which_pages_left_lists_them_with_words_and_scores(
    agent: Agent, owner: Client
) -> None:
    thread = make_paged(agent)
    event = Event.objects.filter(thread=thread, type="pages.evicted").earliest("seq")
    page = owner.get(f"/p/acme/threads/paged/events/{event.seq}")
    listed = page.context["departed"]
    assert [each.page_id for each in listed] == orjson.loads(event.body)["page_ids"]
    assert len(listed) > 1
    assert {each.words.text.partition(" ")[0] for each in listed} <= {
        "Answer",
        "Round",
        "{",
    }
    scores = [each.score for each in listed]
    assert scores == sorted(scores)
    text = page.content.decode()
    for each in listed:
        assert f"left={each.page_id}#why" in text
    before = owner.get(f"/p/acme/threads/paged/events/{event.seq - 1}")
    assert before.context["departed"] == []


def test_event_of_a_retraction_names_what_it_retracted(
    agent: Agent, owner: Client
) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    said = say(agent, ann, claim("OSL <b>", 0)).seq
    gone = retract(agent, ann, said, "wrong").seq
    journal = find_home(ann)
    assert journal is not None
    home = f"/p/acme/threads/{journal.name}/events"
    text = owner.get(f"{home}/{gone}").content.decode()
    assert "home airport OSL &lt;b&gt;" in text
    assert f'href="{home}/{said}"' in text
    link = f"/p/acme/subjects/{ann.id}/facts?known={gone - 1}&amp;fact={said}"
    assert link in text
    assert owner.get(link.replace("&amp;", "&")).status_code == 200
    where = {"thread": journal, "seq": said}
    forgetting.forget(ann, "record", until="rows_erased", **where)
    assert "<em>Erased.</em>" in owner.get(f"{home}/{gone}").content.decode()
