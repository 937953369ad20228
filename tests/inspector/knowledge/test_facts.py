"""The page of facts: lanes, two clocks, one fact at hand, and what changes it."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.web import read_audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, every, retract, say, spans

pytestmark = pytest.mark.django_db
PAGE = "/p/acme/threads/visit/facts"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.of(agent, "ann")


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def test_an_empty_page_shows_the_call_that_fills_it(
    viewer: Client, ann: Subject
) -> None:
    assert "/api/v1/threads/visit/facts" in text(viewer, PAGE)


def test_lanes_are_drawn_as_of_two_clocks(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    say(agent, ann, claim("OSL <b>", 0), claim("tea", 3, predicate="likes"))
    known = say(agent, ann, claim("jam", 4, predicate="likes")).seq
    gone = say(agent, ann, claim("BGO", 31, 60)).seq
    page = text(viewer, PAGE)
    assert "4 facts" not in page
    assert page.count('class="lane"') == 2
    assert "OSL &lt;b&gt;" in page
    assert "BGO" in page
    assert "many values" in page
    before = text(viewer, f"{PAGE}?known={known}")
    assert "BGO" not in before
    retract(agent, ann, gone, "wrong")
    assert "BGO, retracted as wrong" in text(viewer, PAGE)
    # As of a day: 14 Feb 2026, in minutes.
    of_day = text(viewer, f"{PAGE}?known={gone}&valid=29519280")
    assert re.search(r'<th scope="row">home airport</th><td>BGO</td>', of_day)


def test_a_fact_opens_what_it_rests_on(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    say(agent, ann, claim("OSL", 0, confidence=0.5))
    say(agent, ann, claim("OSL", 9))
    page = text(viewer, PAGE)
    link = re.search(r'href="([^"]+\?fact=[^"]+)"', page)
    assert link
    opened = text(viewer, link[1])
    assert "2 confirmations" in opened
    assert "confidence 0.5" in opened
    assert "Retract" not in opened
    for wrong in ("?fact=x", "?fact=1-99999999999", "?from=zz", "?valid=-1"):
        assert viewer.get(PAGE + wrong).status_code == 422
    assert "first recorded" not in text(viewer, f"{PAGE}?fact=999-0")


def test_looks_are_noted_at_the_home_thread(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    home = factories.get_thread(agent, say(agent, ann, claim("OSL", 0)).name)
    read_audit.forget()
    for path in ("", "/2/end"):
        text(owner, PAGE + path)
    looks = AuditEntry.objects.filter(action="content.read")
    assert {*looks.values_list("target_id", flat=True)} == {str(home.id)}


def test_a_closed_thread_leaves_the_facts_of_its_subject_open(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    home = say(agent, ann, claim("OSL", 0)).name
    row = factories.get_thread(agent, "visit")
    operator_threads.close(row, actor="operator:x", reason="completed")
    act = f"/p/acme/threads/{home}/facts/2/retract"
    assert f'href="{act}"' in text(owner, f"{PAGE}?fact=2-0")
    assert "Show what changes" in text(owner, act)


def test_operators_change_facts_once_they_saw_what_it_leads_to(
    agent: Agent, ann: Subject, viewer: Client, owner: Client
) -> None:
    home = say(agent, ann, claim("OSL", 0)).name
    say(agent, ann, claim("BGO", 31))
    osl, bgo = (fact.id for fact in every(ann, ended=True))
    assert viewer.get(f"{PAGE}/{bgo}/retract").status_code == 403
    preview = text(owner, f"{PAGE}/{bgo}/end?at=2026-03-01T00:00")
    assert preview.count("BGO") == 3
    assert "until" in preview
    assert spans(every(ann)) == [("BGO", 31, None)]
    sent = owner.post(f"{PAGE}/{bgo}/end", {"at": "2026-03-01T00:00"})
    shown = f"/p/acme/threads/{home}/facts"
    assert (sent.status_code, sent.headers["Location"]) == (302, shown)
    assert spans(every(ann)) == [("OSL", 59, None)]
    owner.post(f"{PAGE}/{bgo}/cardinality", {"cardinality": "multi"})
    assert spans(every(ann, ended=True)) == [("OSL", 0, None), ("BGO", 31, 59)]
    owner.post(f"{PAGE}/{osl}/retract", {"reason": "duplicate"})
    assert every(ann) == []
    refused = owner.post(f"{PAGE}/{bgo}/end", {"at": "1999-03-01T00:00"})
    assert refused.status_code == 422
    assert owner.get(f"{PAGE}/{bgo}/burn").status_code == 404
    assert owner.get(f"{PAGE}/{osl}/end").status_code == 404
