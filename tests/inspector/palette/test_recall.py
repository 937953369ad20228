"""The Recall page: replies that an agent would get, over the threads of a subject."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from inspector.web import read_audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, say
from tests.oracles.memory_acts import set_task

pytestmark = pytest.mark.django_db
#: The mark of a text, and the address that it links to.
MARK = r'<a class="badge attn"\s+href="([^"]+)">\[no longer so[^<]*BGO\]</a>'


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    factories.make_thread(agent, "talk", user_id="ann")
    seq = factories.append(agent, "talk", "My airport is <b>OSL</b>").seq
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("OSL", 0, predicate="airport", source=("talk", seq)))
    say(agent, ann, claim("BGO", 31, predicate="airport"))
    return ann


def build_path(subject: Subject, page: str = "recall") -> str:
    return f"/p/acme/subjects/{subject.id}/{page}"


def ask(client: Client, subject: Subject, **sent: Any) -> str:
    answer = client.post(build_path(subject), sent)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_empty_recall_page_shows_the_api_call(viewer: Client, ann: Subject) -> None:
    page = viewer.get(build_path(ann)).content.decode()
    assert f"/api/v1/subjects/{ann.id}/recall" in page
    assert f'href="{build_path(ann)}" aria-current="page">Recall' in page
    assert f'href="{build_path(ann, "episodes")}">Episodes' in page


def test_recall_shows_texts_with_residency_and_current_facts(
    viewer: Client, ann: Subject
) -> None:
    page = ask(viewer, ann, query="airport")
    assert "<b>OSL" not in page
    (mark,) = re.findall(MARK, page)
    assert "<h2>BGO, " in viewer.get(mark).content.decode()
    facts = build_path(ann, "facts")
    (fact,) = {*re.findall(rf'href="({facts}\?fact=\d+)"', page)}
    assert "<mark>airport</mark>" in page
    opened = viewer.get(fact).content.decode()
    assert "airport of user" in opened
    assert "2 of 2 found" in page
    assert "3 of 3 found" in ask(viewer, ann, query="airport", ended="1")
    assert "1 of 1 found" in ask(viewer, ann, query="airport", kinds=["message"])
    before = ask(
        viewer, ann, query="airport", kinds=["fact"], valid_at="2026-01-09T12:00"
    )
    assert "OSL" in before
    assert "BGO" not in before
    assert "Nothing found" in ask(viewer, ann, query="zebra")


def test_recall_folds_repeats_and_puts_facts_before_tasks(
    agent: Agent, viewer: Client, ann: Subject
) -> None:
    for name in ("visit", "talk"):
        set_task(agent, name, fields={"description": b'"Airport, airport, airport"'})
    page = " ".join(ask(viewer, ann, query="airport").split())
    assert "4 of 4 found" in page
    hits = page.split('<ol class="recalled"')[1].split("</ol>")[0].split("<li>")[1:]
    kinds = [re.sub("<[^>]+>", "", hit).split("·")[0].split()[-1] for hit in hits]
    assert kinds.index("fact") < kinds.index("task")
    assert kinds.count("task") == 1
    assert "The same text 1 more time, in <a" in page


def test_thread_search_shows_the_residency_of_its_texts(
    viewer: Client, ann: Subject
) -> None:
    sent = {"q": "airport", "thread": "talk"}
    page = viewer.post("/p/acme/search/found", sent).content.decode()
    (mark,) = re.findall(MARK, page)
    assert "<h2>BGO, " in viewer.get(mark).content.decode()
    wide = viewer.post("/p/acme/search/said", {"q": "airport"}).content.decode()
    assert re.findall(MARK, wide) == [mark]
    then = viewer.post("/p/acme/search/found", {**sent, "at_seq": 2}).content.decode()
    assert "OSL" in then
    assert not re.findall(MARK, then)


def test_recall_page_shows_the_call_equal_to_its_form(
    viewer: Client, ann: Subject
) -> None:
    page = ask(
        viewer, ann, query="Ann's airport", kinds=["fact"], known_at="2026-01-09"
    )
    (body,) = re.findall(r"-d '([^\n]*)' \\\n", unescape(page))
    assert json.loads(body) == {
        "query": "Ann's airport",
        "kinds": ["fact"],
        "known_at": "2026-01-09T00:00:00+00:00",
        "limit": 20,
    }


def test_recall_audits_each_thread_it_shows(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    factories.make_thread(agent, "silent", user_id="ann")
    read_audit.forget()
    ask(owner, ann, query="airport")
    names = ("talk", f"mh.home.{ann.id}")
    looks = AuditEntry.objects.filter(action="content.read")
    shown = {str(factories.get_thread(agent, name).id) for name in names}
    assert {*looks.values_list("target_id", flat=True)} == shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": " "},
        {"query": "x" * 1001},
        {"kinds": "dream"},
        {"valid_at": "soon"},
        {"known_at": "0001-01-01T00:00"},
        {"valid_at": "9999-12-31T23:59"},
    ],
)
def test_invalid_recall_query_is_explained_beside_the_form(
    viewer: Client, ann: Subject, wrong: dict[str, str]
) -> None:
    refused = viewer.post(build_path(ann), {"query": "airport", **wrong})
    assert refused.status_code == 422
    assert 'role="alert"' in refused.content.decode()
