"""The episodes page of a subject: in words, by thread and day, audited as a read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from memoryhub.kernel.threads.exchanges import RememberedCall
from memoryhub.model_settings import ModelSettings
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import pending
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations
from memoryhub.services.people import subjects
from memoryhub.services.threads import episodes
from memoryhub.services.threads.episodes import NewEpisode
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.services.knowledge.test_consolidations import Model

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return subjects.find_or_create(agent.project, "ann")


def remember(agent: Agent, subject: Subject, thread: str, question: str) -> None:
    use = RememberedCall(name="seat_map", arguments="{}", result="free")
    new = NewEpisode(question=question, answer=f"Answer to {question}", uses=[use])
    work = episodes.append_episode(
        agent=agent, subject=subject.id, thread=thread, episode=new
    )
    factories.run(work)


def fetch_page(browser: Browser, subject: Subject, query: str = "") -> Any:
    return browser("viewer").get(f"/p/acme/subjects/{subject.id}/episodes?{query}")


def test_episode_is_told_in_words_with_links(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    remember(agent, ann, "talk", f"Is 12A free? {EVIL}")
    text = fetch_page(browser, ann).content.decode()
    assert "Is 12A free?" in text
    assert EVIL not in text
    assert "Answer to" in text
    assert "seat_map" in text
    assert "/p/acme/threads/talk/slots/0" in text
    assert "/p/acme/threads/talk/events/2" in text
    assert "in progress" in text
    remember(agent, ann, "talk", "And 12B?")
    names = re.findall(
        r'aria-label="(Episode[^"]*)"', str(fetch_page(browser, ann).content)
    )
    assert len(names) == len({*names}) == 2


def test_episodes_page_audits_each_thread_it_shows(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    for name in ("a", "b"):
        remember(agent, ann, name, name)
    client = browser("viewer")
    client.get(f"/p/acme/subjects/{ann.id}/episodes")
    shown = AuditEntry.objects.filter(action="content.read")
    wanted = {str(factories.get_thread(agent, name).id) for name in ("a", "b")}
    assert {each.target_id for each in shown} == wanted


def test_episodes_are_filtered_by_thread_and_day(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    for name in ("a", "b"):
        remember(agent, ann, name, f"in {name}")
    only = fetch_page(browser, ann, "thread=a").content.decode()
    assert "in a" in only
    assert "in b" not in only
    today = clock.now().date().isoformat()
    assert (
        "in b" in fetch_page(browser, ann, f"from={today}&to={today}").content.decode()
    )
    assert (
        "No episode matches"
        in fetch_page(browser, ann, "to=2001-01-01").content.decode()
    )
    assert fetch_page(browser, ann, "from=yesterday").status_code == 422
    assert fetch_page(browser, ann, "thread=nowhere").status_code == 404
    remember(agent, ann, "a", "later")
    first = fetch_page(browser, ann, "limit=2").content.decode()
    assert "Earlier episodes" in first


def test_empty_episodes_page_shows_the_api_call(browser: Browser, ann: Subject) -> None:
    text = fetch_page(browser, ann).content.decode()
    assert "No episodes yet" in text
    assert f"/api/v1/subjects/{ann.id}/episodes" in text


def test_episodes_page_shows_learnt_facts_and_retries_failures(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    remember(agent, ann, "a", "I wear 42.")
    remember(agent, ann, "a", "I moved to Bergen.")
    Project.objects.update(consolidate=Project.Consolidate.AUTO)
    consolidate(agent, "a", '[{"entity":"user","predicate":"town","value":"Bergen"}]')
    consolidate(agent, "a", "I can't.", "Sorry.")
    text = fetch_page(browser, ann).content.decode()
    assert "town Bergen" in text
    assert "search for facts failed, tried again soon" in text
    thread = factories.get_thread(agent, "a").id
    path = f"/p/acme/subjects/{ann.id}/episodes/retry"
    form = {"exchange": f"{thread} 0"}
    assert f'value="{form["exchange"]}"' in edited(browser, ann)
    assert browser("viewer").post(path, form).status_code == 403
    for wrong in (f"{thread} 4", f"{thread} {10**30}", f"{ann.id} 0"):
        answer = browser("editor").post(path, {"exchange": wrong})
        assert answer.status_code == 404, wrong
    for wrong in (f"{thread} x", "t 4", ""):
        answer = browser("editor").post(path, {"exchange": wrong})
        assert answer.status_code == 422, wrong
    assert browser("editor").post(path, form).status_code == 302
    (failed,) = pending.get_consolidated(ann)[str(thread)].failed
    assert failed.retry_at is not None
    assert failed.retry_at <= clock.now()


def test_episodes_page_requests_consolidation_from_editors(
    browser: Browser, agent: Agent, ann: Subject, settings: Any
) -> None:
    for question in ("I wear 42.", "I moved to Bergen."):
        remember(agent, ann, "a", question)
    path = f"/p/acme/subjects/{ann.id}/episodes/consolidate"
    assert "disabled>Consolidate now" in edited(browser, ann)
    assert browser("editor").post(path).status_code == 409
    settings.MODEL = ModelSettings(url="http://127.0.0.1/v1", name="small", key="k")
    assert 'type="submit">Consolidate now' in edited(browser, ann)
    assert "Consolidate now" not in fetch_page(browser, ann).content.decode()
    assert browser("viewer").post(path).status_code == 403
    assert browser("editor").post(path).status_code == 302
    thread = str(factories.get_thread(agent, "a").id)
    assert dict(pending.get_knowledge(ann).requested.items()) == {thread: (0,)}
    assert "1 requested; reload" in edited(browser, ann)


def edited(browser: Browser, subject: Subject) -> str:
    text: str = (
        browser("editor")
        .get(f"/p/acme/subjects/{subject.id}/episodes")
        .content.decode()
    )
    return text


def consolidate(agent: Agent, thread: str, *answers: str) -> None:
    row = factories.get_thread(agent, thread)
    due = consolidations.find_due_exchange(row, now=clock.now() + timedelta(minutes=11))
    assert due is not None
    consolidations.consolidate_exchange(due, Model(*answers))


def test_episodes_of_a_restricted_person_open_for_officers_alone(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    remember(agent, ann, "talk", "Is 12A free?")
    Subject.objects.filter(id=ann.id).update(state=Subject.State.RESTRICTED)
    for role, status in (("editor", 403), ("officer", 200)):
        answer = browser(role).get(f"/p/acme/subjects/{ann.id}/episodes")
        assert answer.status_code == status, role
    path = f"/p/acme/subjects/{ann.id}/episodes/consolidate"
    assert browser("editor").post(path).status_code == 403
