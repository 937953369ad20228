"""Search of contents in a thread and in a project; each read is audited."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from inspector.palette import contents, project_scans
from inspector.web import read_audit, stored_searches
from memoryhub.kernel.paging.page_commands import FaultPage
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers
from memoryhub.queries.search import project_search
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories, graves
from tests.inspector.conftest import Browser
from tests.inspector.denied import PROMISED, make_denial
from tests.inspector.observed import make_observed
from tests.inspector.paged import do
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db

HERE = "/p/acme/search"
HIT = re.compile(
    r'<li><a class="hit said (\w+)" href="([^"]+)" data-now="([^"]+)".*?</a>'
    r'(?:<a class="record"\s+href="([^"]+)"[^>]*>Record</a>)?</li>',
    re.DOTALL,
)


def look(client: Client, text: str, panel: str = "", **more: Any) -> str:
    path = f"{HERE}/{panel}" if panel else HERE
    answer = client.post(path, {"q": text, **more})
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    return html.unescape(answer.content.decode())


def hits(page: str) -> list[str]:
    """List the addresses of the hits' records, as of their events."""
    return [found[4] or found[2] for found in HIT.finditer(page)]


def list_addresses(page: str) -> list[str]:
    """List the addresses that the hits open."""
    return [found[2] for found in HIT.finditer(page)]


def chip(page: str, page_id: str) -> str:
    """Return the residency of a page, as its hit tells it."""
    (hit,) = (found[0] for found in HIT.finditer(page) if f"{page_id} ·" in found[0])
    return str(re.findall(r'class="chip \w*">([^<]+)<', hit)[0])


def reads() -> list[tuple[str | None, str | None]]:
    rows = AuditEntry.objects.filter(action="content.read").order_by("seq")
    return list(rows.values_list("target_id", "purpose"))


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


# A thread


def test_thread_search_finds_messages_with_their_residency(
    viewer: Client, refund: Thread
) -> None:
    page = look(viewer, "promise seats", thread="refund")
    assert "<mark>promise</mark>" in page
    first = Thread.objects.get(name="refund")
    assert hits(page)[0].startswith(f"/p/acme/threads/refund/pages/{PROMISED}?at_seq=")
    assert int(hits(page)[0].partition("=")[2]) <= first.head_seq
    assert re.search(r"\d of \d+, best first", page)
    assert chip(page, PROMISED) == "back at turn 7"
    assert chip(page, "slot-0").startswith("left at turn")
    denied = chip(look(viewer, "afraid", thread="refund"), "slot-15")
    assert denied == "in now"


def test_observation_is_found_by_its_words_alone(viewer: Client, agent: Agent) -> None:
    row = make_observed(agent)
    log = observers.list_log(row, newest=1)
    (line, *_) = log[-1].lines or ()
    page = look(viewer, f"{line.text} kind:observation", thread=row.name)
    (shown, *_) = re.findall(
        r'<span class="hidden">observation: </span>(.*?)</span>', page, re.DOTALL
    )
    asked = {"thread": row.name, "page": log[-1].page_id}
    preview = look(viewer, line.text, "preview", **asked).partition("</blockquote>")[0]
    for words in (shown, preview):
        assert "<mark>" in words
        assert not re.search(r"## |\d\d:\d\d|[🟢🟡✅🔴]", words)


def test_thread_search_says_how_close_its_hits_are(
    viewer: Client, refund: Thread
) -> None:
    notice, widen = "No message here has these words side by side", "data-widen"
    page = look(viewer, "promise you a refund", thread="refund")
    assert f"slot-{PROMISED[5:]} " in page.partition('id="said-words"')[0]
    assert notice not in page
    page = look(viewer, "refund you a promise", thread="refund")
    assert notice in page
    assert widen in page
    assert "With all of these words" in page
    page = look(viewer, "refund you a promise", thread="refund", scope="project")
    assert "No message has these words side by side" in page
    assert widen not in page
    # Of one word, and in an order by time, hits do not differ.
    assert notice not in look(viewer, "refund", thread="refund")
    page = look(viewer, "refund you a promise", thread="refund", order="first")
    assert "With all of these words" not in page


@pytest.mark.parametrize(
    ("order", "words"), [("first", "oldest first"), ("newest", "newest first")]
)
def test_search_hits_follow_the_chosen_order(
    viewer: Client, refund: Thread, order: str, words: str
) -> None:
    page = look(viewer, "flight", thread="refund", order=order)
    assert words in page
    slots = [int(n) for n in re.findall(r"pages/slot-(\d+)\?", " ".join(hits(page)))]
    assert len(slots) == contents.SHOWN
    assert slots == sorted(slots, reverse=order == "newest")


def test_thread_search_as_of_an_event_omits_later_messages(
    viewer: Client, refund: Thread
) -> None:
    found = hits(look(viewer, "afraid nothing", thread="refund", order="first"))
    seq = int(found[0].partition("=")[2])
    before = look(viewer, "afraid nothing", thread="refund", at_seq=seq - 1)
    assert hits(before) == []
    assert "No text matches" in before
    then = look(viewer, "afraid nothing", thread="refund", at_seq=seq)
    assert hits(then) == found
    assert "in then" in then


def test_thread_search_takes_filters_and_phrases(
    viewer: Client, refund: Thread
) -> None:
    page = look(viewer, 'role:assistant "EUR 132.00"', thread="refund")
    assert len(hits(page)) == 2
    assert "<h2>Threads</h2>" not in page
    assert hits(look(viewer, "role:user EUR", thread="refund")) == []
    assert 'id="said-' not in look(viewer, "status:open", thread="refund")
    assert 'id="said-' not in look(viewer, "event 3", thread="refund")


@pytest.mark.parametrize("scope", ["thread", "project"])
def test_search_names_excluded_words(
    viewer: Client, refund: Thread, scope: str
) -> None:
    def list_pages(text: str) -> tuple[str, list[str]]:
        page = look(viewer, text, thread="refund", scope=scope)
        return page, re.findall(r"pages/(slot-\d+)\?", " ".join(hits(page)))

    page, pages = list_pages("seats not:promise")
    assert "Without messages that contain <q>promise</q>." in page
    assert "slot-0" in pages
    assert PROMISED not in pages
    page, pages = list_pages("seats -promise")
    assert "Left out" not in page
    assert PROMISED in pages


def test_search_names_filters_that_do_not_exist(viewer: Client, refund: Thread) -> None:
    page = look(viewer, "foo:bar role:user", thread="refund")
    assert "There is no filter <code>foo:</code>, so it is searched as words." in page
    page = look(viewer, "http://refund 12:30 role:user", thread="refund")
    assert "There is no filter" not in page


def test_search_takes_punctuation_as_ordinary_text(
    viewer: Client, refund: Thread
) -> None:
    for text in ('"refund', "what's (refund)?", "http://refund 12:30 note: x"):
        page = look(viewer, text, thread="refund")
        assert 'role="alert"' not in page, text
        assert hits(page), text


@pytest.mark.parametrize(
    "more", [{"order": "worst"}, {"at_seq": "-1"}, {"at_seq": "9" * 18}, {"scope": "?"}]
)
def test_unknown_search_parameters_are_ignored(
    viewer: Client, refund: Thread, more: dict[str, str]
) -> None:
    found = hits(look(viewer, "flight", thread="refund"))
    assert found
    assert hits(look(viewer, "flight", thread="refund", **more)) == found


def test_search_hit_of_a_key_links_to_its_screen(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent)
    memory_acts.set_key(agent, "seat", "a window in row fourteen")
    page = look(viewer, "fourteen", thread="t-1")
    assert hits(page)[0].startswith("/p/acme/threads/t-1/keys/seat?at_seq=")
    assert 'class="chip' not in page


def test_search_in_a_fork_shows_inherited_messages(
    viewer: Client, agent: Agent, refund: Thread
) -> None:
    operator_threads.fork(refund, actor="operator:x", name="alt", seq=refund.head_seq)
    page = look(viewer, "promise seats", thread="alt")
    assert hits(page)[0] == f"/p/acme/threads/alt/pages/{PROMISED}"
    assert chip(page, PROMISED) == "back at turn 7"


def test_search_hits_cost_no_query_each(
    viewer: Client, refund: Thread, django_assert_max_num_queries: Any
) -> None:
    look(viewer, "flight", "found", thread="refund")
    counts = []
    for words in ("afraid", "flight"):
        with django_assert_max_num_queries(30) as found:
            look(viewer, words, "found", thread="refund")
        counts.append(len(found))
    # One query more where some pages were evicted in one event with others.
    assert abs(counts[0] - counts[1]) <= 1


# A conversation, and an address


def get_page(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address.partition("#")[0])
    assert answer.status_code == status
    return html.unescape(answer.content.decode())


def get_address(page: str) -> str:
    (found,) = re.findall(r'class="address"\s+href="([^"]+)"', page)
    return str(found)


def test_hit_opens_the_message_in_a_long_conversation_with_words_marked(
    viewer: Client, agent: Agent, django_assert_max_num_queries: Any
) -> None:
    factories.make_thread(agent)
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(40)))
    factories.append(agent, "t-1", "Copper kettles and the tea", "a kettle too")
    for _ in range(5):
        factories.append(agent, "t-1", *(f"filler {n}" for n in range(40)))
    address = list_addresses(look(viewer, "the copper kettle", thread="t-1"))[0]
    assert re.fullmatch(
        r"/p/acme/threads/t-1/slots\?index=40&search=[0-9a-f]{32}#slot-40", address
    )
    with django_assert_max_num_queries(40):
        page = get_page(viewer, address)
    assert re.findall(r'id="slot-(\d+)"', page) == [str(n) for n in range(91)]
    # Only the message that was found has marks, and none on a word without meaning.
    assert re.findall(r"<mark\s*>([^<]+)</mark", page) == ["Copper", "kettles"]
    assert re.search(r'id="slot-40"[^>]*aria-current="true"', page)
    without = get_page(viewer, re.sub("search=[0-9a-f]+", "search=0", address))
    assert 'id="slot-40"' in without
    assert "<mark>" not in without


@pytest.mark.parametrize("scope", ["thread", "project"])
def test_search_has_an_address_for_the_members_of_its_project(
    browser: Browser, viewer: Client, refund: Thread, zeta: Project, scope: str
) -> None:
    page = look(viewer, "promise seats", "found", thread="refund", scope=scope)
    address = get_address(page)
    assert re.fullmatch(r"/p/acme/search\?search=[0-9a-f]{32}", address)
    for client in (viewer, browser("editor")):
        shown = get_page(client, address)
        assert 'value="promise seats"' in shown
        assert hits(shown)
        assert get_address(shown) == address
    get_page(viewer, address.replace("acme", "zeta"), 404)
    again = look(viewer, "promise seats", thread="refund", scope=scope)
    assert get_address(again) == address
    assert get_address(look(viewer, "promise", thread="refund")) != address


def test_address_of_a_search_ends_with_an_erasure_of_its_project(
    viewer: Client, refund: Thread
) -> None:
    address = get_address(look(viewer, "promise seats", thread="refund"))
    graves.make_erasure(refund.subject, state="planned")
    assert hits(get_page(viewer, address))
    Erasure.objects.update(state="fenced", updated_at=clock.now())
    shown = get_page(viewer, address)
    assert "This search is no longer stored" in shown
    assert "promise" not in shown
    handles = {handle for (_, handle), _ in stored_searches._stored.list_items()}
    assert address.rpartition("=")[2] not in handles


# A preview


def test_hit_preview_says_when_a_text_was_first_seen_and_evicted(
    viewer: Client, agent: Agent, refund: Thread
) -> None:
    page = look(
        viewer, "lost flight", "preview", thread="refund", page="slot-0", seq="4"
    )
    assert "First seen" in page
    assert re.search(r"Left last</dt><dd><a href=\"[^\"]+/turns/\d+\">turn \d+", page)
    assert "Open the eviction" in page
    assert "/pages/slot-0?at_seq=4#life" in page
    assert "never since by the" in page
    do(agent, "refund", FaultPage(page_id="slot-0", level=0))
    page = look(viewer, "lost", "preview", thread="refund", page="slot-0")
    assert "came back in" in page
    gone = look(viewer, "x y", "preview", thread="refund", page="")
    assert "This is not a page" in gone
    strange = {"q": "x", "thread": "other", "page": "slot-0"}
    assert viewer.post(f"{HERE}/preview", strange).status_code == 404


# A project


@pytest.fixture
def many(agent: Agent) -> list[str]:
    """Make eight threads with the same message, newest last."""
    names = [f"talk-{n}" for n in range(8)]
    for name in names:
        factories.make_thread(agent, name)
        factories.append(agent, name, "The ferry leaves at noon.", "Which ferry?")
    return names


def scan_of(page: str) -> dict[str, str]:
    """Return the form fields that continue the scan."""
    form = page[page.index('id="scan"') :]
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', form[: form.index("</form>")])
    return dict(fields)


def threads_in(page: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"/threads/([\w-]+)/", " ".join(hits(page)))))


def test_project_scan_goes_in_steps_from_the_newest_thread(
    viewer: Client, many: list[str]
) -> None:
    begun = look(viewer, "ferry", "found")
    assert hits(begun) == []
    assert 'hx-trigger="load delay:400ms, submit"' in begun
    first = look(viewer, "ferry", "said", **without_stop(scan_of(begun)))
    seen = threads_in(first)
    assert len(seen) == contents.FOUND_IN
    newest = Thread.objects.filter(name__in=many).order_by("-created_at", "id")
    order = list(newest.values_list("name", flat=True))
    assert seen == order[: contents.FOUND_IN]
    looked = f"searched {contents.FOUND_IN} of {len(many)} threads, newest first"
    assert looked in " ".join(first.split())
    rest = look(viewer, "ferry", "said", **without_stop(scan_of(first)))
    assert threads_in(rest) == order[contents.FOUND_IN :]
    assert "16 matches in 8 threads · searched 8 of 8 threads, newest" in " ".join(
        rest.split()
    )
    assert "Stop" not in rest
    assert "Search further" not in rest


#: Form fields that a test sends by itself, or that differ each time.
@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit, so that a scan step ends by its number of hits."""
    monkeypatch.setattr(contents, "SECONDS", 60.0)


_OTHERS = ("stop", "q", "csrfmiddlewaretoken")


def without_stop(fields: dict[str, str]) -> dict[str, str]:
    return {n: v for n, v in fields.items() if n not in _OTHERS}


def test_project_scan_stops_when_told(viewer: Client, many: list[str]) -> None:
    begun = look(viewer, "ferry", "found")
    first = look(viewer, "ferry", "said", **without_stop(scan_of(begun)))
    stopped = look(viewer, "ferry", "said", **without_stop(scan_of(first)), stop="1")
    assert hits(stopped) == []
    further = {**without_stop(scan_of(first)), "further": "1"}
    assert without_stop(scan_of(stopped)) == further
    assert "Search further" in stopped
    assert "load" not in re.findall(r'hx-trigger="([^"]*)"', stopped)[0]
    # The scan continues where it stopped, and only when asked.
    rest = look(viewer, "ferry", "said", **without_stop(scan_of(stopped)))
    assert len(threads_in(rest)) == len(many) - contents.FOUND_IN


def test_project_scan_pauses_before_reading_the_whole_project(
    viewer: Client, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_scans, "CLOSE", 4)
    first = look(viewer, "ferry", "said")
    assert len(hits(first)) == 4
    assert "Search further" in first
    assert "load" not in re.findall(r'hx-trigger="([^"]*)"', first)[0]
    rest = look(viewer, "ferry", "said", **without_stop(scan_of(first)))
    assert len(hits(rest)) == 4
    monkeypatch.setattr(project_scans, "BUDGET", 0)
    assert "Search further" in look(viewer, "ferry", "said")


def test_project_scan_shows_an_old_phrase_before_newer_weaker_hits(
    viewer: Client, agent: Agent, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.append(agent, "talk-0", "No seat is left on the slow night ferry.")
    factories.append(agent, "talk-1", "A slow ferry, late at night.")
    monkeypatch.setattr(project_scans, "WEAKER", 2)
    page = look(viewer, "slow night ferry")
    lists = page.split('<ul id="said-')[1:]
    assert [each.partition('"')[0] for each in lists] == ["phrase", "words", "some"]
    assert [threads_in(each) for each in lists] == [["talk-0"], ["talk-1"], ["talk-0"]]
    rest = look(viewer, "slow night ferry", "said", **without_stop(scan_of(page)))
    assert threads_in(rest) == ["talk-7"]
    assert "some of these words: searched 1 of 8 threads" in " ".join(rest.split())


def test_search_reads_are_audited(
    browser: Browser, agent: Agent, many: list[str]
) -> None:
    client = browser("viewer")
    session = client.session
    session[read_audit.PURPOSE] = "incident"
    session.save()
    ids = {row.name: str(row.id) for row in Thread.objects.all()}
    factories.make_thread(agent, "silent")
    look(client, "ferry", "found")
    assert reads() == []
    page = look(client, "ferry", "said")
    shown = {ids[name] for name in threads_in(page)}
    assert 0 < len(shown) < len(ids)
    assert {*reads()} == {(each, "incident") for each in shown}
    # A search in one thread is audited, whatever its hits.
    look(client, "nonsense", "found", thread="silent")
    silent = str(Thread.objects.get(name="silent").id)
    assert (silent, "incident") in reads()


def test_project_search_can_be_limited_to_named_threads(
    viewer: Client, many: list[str], zeta: Project
) -> None:
    factories.make_thread(factories.make_agent(zeta), "theirs")
    page = look(viewer, "ferry in:talk-3 in:theirs")
    assert threads_in(page) == ["talk-3"]
    assert 'id="scan"' not in page


def test_project_search_hides_restricted_subjects_from_viewers(
    browser: Browser, agent: Agent, many: list[str]
) -> None:
    thread = Thread.objects.select_related("subject").get(name="talk-3")
    thread.subject.state = "restricted"
    thread.subject.save(update_fields=["state"])
    page = look(browser("viewer"), "ferry", "said")
    assert "talk-3" not in threads_in(page)
    named = look(browser("viewer"), "ferry in:talk-3")
    assert hits(named) == []
    assert hits(look(browser("viewer"), "ferry", thread="talk-3", scope="thread")) == []


def test_search_cursor_of_another_project_is_refused(
    viewer: Client, many: list[str], zeta: Project
) -> None:
    place = project_search.SearchPosition(Thread.objects.all()[0].created_at, zeta.id)
    for cursor in ("x", contents._seal_cursor(zeta, place)):
        answer = viewer.post(f"{HERE}/said", {"q": "ferry", "cursor": cursor})
        assert answer.status_code == 400


def test_search_page_without_scripts_continues_by_a_button(
    viewer: Client, many: list[str]
) -> None:
    page = look(viewer, "ferry")
    assert len(threads_in(page)) == contents.FOUND_IN
    assert '<aside id="preview"' in page
    assert "First seen" in page
    assert '<span aria-current="page">Search</span>' in page
    rest = look(viewer, "ferry", **without_stop(scan_of(page)))
    assert len(threads_in(rest)) == len(many) - contents.FOUND_IN
