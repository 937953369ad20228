"""The page of a person: what members see, what officers see, and its audit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inspector.words.record_words import RECORDS
from memoryhub.kernel.registry import TYPES
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories, graves
from tests.cast.knowing import claim, say, write
from tests.inspector import forgotten
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db

P = "/p/acme/subjects"
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make a person with a message, a fact learnt from it, a block and a turn."""
    factories.make_thread(agent, "talk", user_id="ann")
    factories.append(agent, "talk", f"I moved to Bergen. {EVIL}")
    found = subjects.find_or_create(agent.project, "ann")
    say(agent, found, claim(f"Bergen {EVIL}", 0, source=("talk", 2)))
    write(agent, found, "persona", f"Ann flies. {EVIL}")
    factories.run(turns.begin_turn(agent=agent, thread="talk", new=NewTurn()))
    return found


def fetch_page(browser: Browser, subject: Subject, role: str = "viewer") -> str:
    answer: Any = browser(role).get(f"{P}/{subject.id}")
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text


def test_person_page_shows_memory_with_links(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    text = fetch_page(browser, ann)
    assert EVIL not in text
    # A fact of today has its time.
    assert re.search(r'data-label="since"><time [^>]*>1 Jan 2026</time>', text)
    for part in (
        *("home airport", "Bergen", "I moved to Bergen.", "Ann flies."),
        'href="/p/acme/threads/talk?at_seq=2"',
        'href="/p/acme/threads/talk/turns/1"',
        f'action="/p/acme/subjects/{ann.id}/recall"',
        'name="query"',
    ):
        assert part in text, part
    head = re.search("<h1>Person.*?</h1>(.*?)<nav", text, re.DOTALL)
    assert head is not None
    assert "Ann flies." in head[1]
    assert "Subject" not in text
    say(agent, ann, claim("rye", predicate="eats"))
    today = fetch_page(browser, ann)
    assert re.search(r'data-label="since"><time [^>]*>[^<]+, \d\d:\d\d</time>', today)


def test_person_page_audits_each_thread_it_shows(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    fetch_page(browser, ann)
    shown = AuditEntry.objects.filter(action="content.read")
    names = ("talk", f"mh.home.{ann.id}")
    wanted = {str(factories.get_thread(agent, name).id) for name in names}
    assert {each.target_id for each in shown} == wanted


def test_person_page_has_officers_parts_for_officers_alone(
    browser: Browser, ann: Subject
) -> None:
    hold = forgotten.make_hold(ann)
    parts = ("/reveal", "/restrict", "/hold", "/forget", "/export", str(hold.id))
    for role, sees in (("editor", False), ("officer", True)):
        text = fetch_page(browser, ann, role)
        for part in (*parts, "<b>Held.</b>", "Erasures"):
            assert (part in text) is sees, (role, part)


def test_restricted_person_opens_for_officers_alone(
    browser: Browser, ann: Subject
) -> None:
    Subject.objects.filter(id=ann.id).update(state=Subject.State.RESTRICTED)
    for path in ("", "/panels/records"):
        for role, status in (("editor", 403), ("officer", 200)):
            answer = browser(role).get(f"{P}/{ann.id}{path}")
            assert answer.status_code == status, (path, role)


def test_list_shows_a_line_of_a_restricted_person_to_officers_alone(
    browser: Browser, ann: Subject
) -> None:
    assert "Ann flies" in browser("viewer").get(P).content.decode()
    Subject.objects.filter(id=ann.id).update(state=Subject.State.RESTRICTED)
    for role, shown in (("viewer", False), ("editor", False), ("officer", True)):
        listed = browser(role).get(P).content.decode()
        assert ("Ann flies" in listed) is shown, role
        assert "newest thread: " not in listed
        assert str(ann.id) in listed


def test_list_tells_who_has_no_memory_by_a_thread(
    browser: Browser, agent: Agent
) -> None:
    factories.make_thread(agent, "desk-<b>", user_id="bea")
    bea = subjects.find_or_create(agent.project, "bea")
    assert "newest thread: desk-&lt;b&gt;" in browser("viewer").get(P).content.decode()
    Subject.objects.filter(id=bea.id).update(state=Subject.State.RESTRICTED)
    for role, shown in (("editor", False), ("officer", True)):
        listed = browser(role).get(P).content.decode()
        assert ("newest thread: " in listed) is shown, role


def test_empty_person_page_has_a_sentence_for_each_part(
    browser: Browser, agent: Agent
) -> None:
    text = fetch_page(browser, subjects.find_or_create(agent.project, "nobody"))
    for sentence in (
        *("No fact about", "written no message", "No episode yet", "No block yet"),
        *("None of the last turns", "No thread yet"),
    ):
        assert sentence in text
    assert not AuditEntry.objects.filter(action="content.read").exists()


def test_person_page_costs_the_same_for_any_memory(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    client, counts = browser("viewer"), []
    for _ in range(2):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get(f"{P}/{ann.id}").status_code == 200
        counts.append(len(queries))
        say(agent, ann, *[claim("x", n, predicate=f"p {n}") for n in range(20)])
        for n in range(12):
            factories.make_thread(agent, f"more-{n}", user_id="ann")
            factories.append(agent, f"more-{n}", "Hello.")
    # The second page audits the new threads, and has no source to look up.
    assert counts[1] <= counts[0] + 2


def test_day_leads_to_the_facts_at_its_end(browser: Browser, ann: Subject) -> None:
    client, facts = browser("viewer"), f"/p/acme/subjects/{ann.id}/facts"
    past = client.get(f"{P}/{ann.id}?as_of=2026-01-05").headers["Location"]
    assert past == f"{facts}?valid={29_453_759 + 5 * 1_440}"
    assert "Bergen" in client.get(past).content.decode()
    day = (clock.now() + timedelta(days=3)).date()
    later = client.get(f"{P}/{ann.id}?as_of={day}").headers["Location"]
    assert int(later.partition("=")[2]) <= clock.now().timestamp() / 60
    assert client.get(f"{P}/{ann.id}?as_of=soon").status_code == 422


def test_records_are_counted_in_words(browser: Browser, ann: Subject) -> None:
    for role, sees in (("viewer", False), ("officer", True)):
        client = browser(role)
        panel = client.get(f"{P}/{ann.id}/panels/records")
        assert panel.headers["MH-Panel"] == "1"
        for text in (panel, client.get(f"{P}/{ann.id}?records")):
            page = text.content.decode()
            assert "Messages" in page
            assert "slot.appended" not in page
            assert ("Tombstones" in page) is sees
            assert ('data-label="erased"' in page) is sees
    others = browser("officer").get(f"{P}/{ann.id}/panels/others")
    assert others.status_code == 404


def test_records_have_words_for_every_event_type() -> None:
    assert {*RECORDS} == {*TYPES}


def test_list_of_people_hides_officers_marks_from_members(
    browser: Browser, agent: Agent, ann: Subject
) -> None:
    forgotten.make_hold(ann)
    gone = subjects.find_or_create(agent.project, "gone")
    graves.bury_subject(gone)
    for role, sees in (("viewer", False), ("officer", True)):
        client = browser(role)
        text = client.get(P).content.decode()
        assert str(ann.id) in text
        for part in (str(gone.id), ">held<", "Exact user id", "data-export"):
            assert (part in text) is sees, (role, part)
        assert client.get(f"{P}.csv").status_code == (200 if sees else 403)
        status = client.get(f"{P}?state=erased").status_code
        assert status == (200 if sees else 422)
