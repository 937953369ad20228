"""Pages of a person's memory: their addresses, their head, and who sees them."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import holds as lifting
from tests.cast import factories, forgetting, knowing
from tests.inspector import forgotten
from tests.inspector.paged import text_of

pytestmark = pytest.mark.django_db
PAGES = ("facts", "blocks", "episodes", "recall")
#: Pages that had an address under each thread of the person.
FORMER = (
    *("facts", "add-fact", "facts/2/retract", "blocks", "add-block"),
    *("blocks/people/ann/edit", "recall"),
)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.get_subject(agent, "ann")


def test_former_addresses_redirect_with_their_query(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    home = knowing.say(agent, ann, knowing.claim("OSL", 0)).name
    person = f"/p/acme/subjects/{ann.id}"
    for page in FORMER:
        old = f"/p/acme/threads/visit/{page}"
        for answer in (viewer.get(f"{old}?fact=2-0&known=2"), viewer.head(old)):
            assert answer.status_code == 302
            query = "?fact=2-0&known=2" if answer.request["QUERY_STRING"] else ""
            assert answer.headers["Location"] == f"{person}/{page}{query}"
        assert viewer.post(old).status_code == 405
    # A moment belongs to the thread in the address.
    for thread, query in (("visit", "?block=a"), (home, "?block=a&at_seq=1")):
        asked = f"/p/acme/threads/{thread}/blocks?block=a&at_seq=1"
        assert viewer.get(asked).headers["Location"] == f"{person}/blocks{query}"
    assert not AuditEntry.objects.filter(action="content.read").exists()


@pytest.mark.parametrize("page", PAGES)
def test_person_page_has_one_head_and_needs_no_home_thread(
    ann: Subject, viewer: Client, owner: Client, page: str
) -> None:
    path = f"/p/acme/subjects/{ann.id}"
    shown = text_of(viewer, f"{path}/{page}")
    assert f'<h1>Person <span class="mono">{str(ann.id)[-8:]}</span></h1>' in shown
    # The page is not live, and says so.
    assert re.search(rf'as of <time [^>]*>\d\d:\d\d</time> ·\s+<a href="{path}/', shown)
    (tabs,) = re.findall(r'<nav aria-label="Views of this person">.*?</nav>', shown)
    links = re.findall(r'href="([^"]+)"', tabs)
    threads = f"/p/acme/threads?q=subject%3A{ann.id}"
    pages = [path, *(f"{path}/{each}" for each in PAGES), threads]
    assert sorted(links) == sorted(pages)
    assert f'href="{path}/{page}" aria-current="page"' in tabs
    assert "ann" not in re.sub("<[^>]*>", "", shown).split()
    assert f'href="{path}"' in text_of(owner, f"{path}/{page}")
    for link in links:
        assert viewer.get(link).status_code == 200


def test_crumb_names_the_person_where_the_page_does(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    path, short = f"/p/acme/subjects/{ann.id}", str(ann.id)[-8:]
    knowing.write(agent, ann, "guest", "Ann is a guest of the house.\nLikes tea.")
    acts = ("/export", "/restrict", "/hold", "/forget")
    for page in ("", "/facts", "/facts?known=1", *acts):
        shown = text_of(owner, f"{path}{page}")
        (crumbs,) = re.findall(r'<nav class="crumbs".*?</nav>', shown, re.DOTALL)
        named = "known" not in page
        assert ("Ann is a guest of the house." in crumbs) is named
        assert (short in re.sub("<[^>]*>", "", crumbs)) is not named
        title = re.search("<title>(.*)</title>", shown)
        assert title
        assert short not in title[1]
        assert "guest" not in title[1]


def test_dangerous_pages_and_answers_name_the_person(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    line, path = "Ann is a guest of the house.", f"/p/acme/subjects/{ann.id}"
    knowing.write(agent, ann, "guest", f"{line}\nLikes tea.")
    hold = forgotten.make_hold(ann)
    holds = [f"/p/acme/holds/{hold.id}/{act}" for act in ("lift", "renew")]
    for page in (*(f"{path}/{a}" for a in ("export", "restrict", "hold")), *holds):
        assert line in text_of(owner, page).split("</h1>")[1], page
    asked = {"query": "zebra"}
    said = owner.post(f"{path}/recall", asked).content.decode()
    assert line in said.split("</h1>")[1].split("<nav")[0]
    past = {**asked, "known_at": "2026-01-01T00:00"}
    assert line not in owner.post(f"{path}/recall", past).content.decode()
    lifting.lift_hold(hold.id, actor=forgotten.CAROL)
    assert line in text_of(owner, f"{path}/forget").split("</h1>")[1]
    page = text_of(owner, f"/p/acme/erasures/{forgotten.plan(ann).id}")
    assert page.count(line) == 2


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_a_restricted_person_are_for_officers(
    ann: Subject, viewer: Client, owner: Client, page: str
) -> None:
    Subject.objects.filter(id=ann.id).update(state=Subject.State.RESTRICTED)
    path = f"/p/acme/subjects/{ann.id}/{page}"
    assert (viewer.get(path).status_code, owner.get(path).status_code) == (403, 200)


def test_thread_leads_to_its_person_in_one_click(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    home = knowing.say(agent, ann, knowing.claim("OSL", 0)).name
    facts = f'href="/p/acme/subjects/{ann.id}/facts"'
    page = ""
    for thread in ("visit", home):
        page = text_of(viewer, f"/p/acme/threads/{thread}")
        assert f"{facts}>Person&#x27;s memory" in page.replace("'s", "&#x27;s")
    assert f"{facts}>one person" in page
    memory = text_of(viewer, "/p/acme/threads/visit/keys")
    for name in PAGES:
        assert f"/p/acme/subjects/{ann.id}/{name}" in memory
