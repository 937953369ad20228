from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inspector.templatetags.overview import waited
from memoryhub import journal
from memoryhub.journal.writing.activity import activity
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.overview.series import LONGEST_WAIT
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import backup, keyring
from memoryhub.workers import stats
from memoryhub.workers.overview import unhealthy
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.paged import make_restless, text_of

pytestmark = pytest.mark.django_db

PLACES = ("/p/acme/", "/p/acme/health")


def look() -> None:
    now = timezone.now()
    stats.take(now)
    unhealthy.look(now)
    journal.run(activity.flush)


def age_key_file() -> None:
    """Make the key file older than the day in which a new hub needs no backup."""
    made = timezone.now() - timedelta(days=2)
    KekCheck.objects.using("keys").update(created_at=made)


def test_overview_of_an_empty_project_says_how_to_begin(owner: Client) -> None:
    page = text_of(owner, "/p/acme/")
    assert "No thread yet" in page
    assert 'class="button primary"' in page


def test_waits_beyond_the_longest_are_not_given_a_length() -> None:
    assert waited(14.2, LONGEST_WAIT) == "14 ms"
    assert waited(1_000.0, LONGEST_WAIT) == "over 1,000 ms"


def test_overview_names_each_problem_with_its_start_and_place(
    viewer: Client, agent: Agent
) -> None:
    make_restless(agent, exchanges=8)
    look()
    page = text_of(viewer, "/p/acme/")
    assert ">Thrashing</span>.</b>" in page
    assert 'href="/p/acme/health#thrashing"' in page
    assert 'href="/p/acme/threads/restless/turns/3?at_turn=3"' in page


def test_health_and_overview_show_equal_counts(viewer: Client, agent: Agent) -> None:
    make_restless(agent, exchanges=8)
    look()
    sentences = set()
    for place in PLACES:
        page = text_of(viewer, place)
        sentences.add(page.partition("<h1>")[2].partition("</h1>")[0])
    (sentence,) = sentences
    assert sentence.endswith("things need a look")


@pytest.mark.no_replay  # counters are set by hand
def test_overview_links_to_the_problems_it_does_not_list(
    viewer: Client, agent: Agent
) -> None:
    for n in range(12):
        factories.append(agent, f"t-{n}", "hello")
    Thread.objects.update(refault_count=4)
    Thread.objects.filter(name="t-3").update(nearly_full=True)
    look()
    page = text_of(viewer, "/p/acme/")
    _, more, rest = page.partition("And ")
    assert more
    for flag, words in (("thrashing", "thrashing 12"), ("full", "% full 1")):
        link = (
            rf'href="/p/acme/threads\?q=status%3Aopen%20flag%3A{flag}">[^<]*{words}</a>'
        )
        assert re.search(link, rest.partition("</p>")[0]), flag


@pytest.mark.no_replay  # counters are set by hand
def test_problem_count_is_equal_in_headline_rows_lists_and_badge(
    viewer: Client, agent: Agent
) -> None:
    for n in range(24):
        factories.append(agent, f"t-{n}", "hello")
    Thread.objects.update(nearly_full=True)
    closed = Thread.objects.filter(name__in=["t-0", "t-1"])
    closed.update(status="closed")
    idle = timezone.now() - timedelta(days=3)
    Thread.objects.filter(name="t-2").update(listed_at=idle)
    look()
    pages = [text_of(viewer, path) for path in (*PLACES, "/p/acme/threads")]
    (badge,) = {re.findall(r'aria-label="(\d+) to look at"', page)[0] for page in pages}
    for page in pages[:2]:
        assert f"<h1>{badge} things need a look</h1>" in page
    assert "21 threads" in text_of(viewer, "/p/acme/health")
    assert "21 of 21" in text_of(
        viewer, "/p/acme/threads?q=status%3Aopen%20flag%3Afull"
    )
    for flagged, found in (("", "23 of 23"), ("status%3Aclosed%20", "2 of 2")):
        link = f"/p/acme/threads?q={flagged}flag%3Afull"
        assert found in text_of(viewer, link)


def test_problem_count_is_equal_in_rail_overview_health_and_privacy(
    browser: Browser, agent: Agent
) -> None:
    age_key_file()
    browser("owner")
    officer = browser("officer")
    make_restless(agent, exchanges=8)
    look()

    def said() -> set[str]:
        numbers = set()
        for place in (*PLACES, "/p/acme/health/privacy"):
            page = text_of(officer, place)
            (rail,) = re.findall(r'aria-label="(\d+) to look at"', page)
            (told,) = re.findall(r">(\d+) (?:things? needs? a|to) look(?: at)?<", page)
            numbers |= {rail, told}
        return numbers

    (before,) = said()
    backup.record(keyring.get_ring(), at=timezone.now())
    assert said() == {str(int(before) - 1)}
    worst = r'worst <a href="/p/acme/threads/restless/paging">restless</a> \.?\d'
    assert re.search(worst, text_of(officer, "/p/acme/"))


def test_health_counts_what_is_to_do_and_no_part_that_is_well(viewer: Client) -> None:
    page = text_of(viewer, "/p/acme/health")
    statement = page[page.index('class="statement"') : page.index("checks, each")]
    to_do = len(re.findall(r'class="badge "\s*>to do<', page))
    assert to_do
    assert f"{to_do} to do:" in statement
    assert not re.search(r"\b0\s+(parts|threads)", statement)


def test_health_says_how_full_the_caches_are(viewer: Client) -> None:
    page = text_of(viewer, "/p/acme/health")
    row = r"opened texts</th>(\s*<td [^>]*>[^<]+</td>){2}\s*<td [^>]*>32\.0 MB<"
    assert re.search(row, page)


def test_thread_list_by_flag_says_since_when(viewer: Client, agent: Agent) -> None:
    make_restless(agent, exchanges=8)
    look()
    page = text_of(viewer, "/p/acme/threads?q=flag%3Athrashing")
    assert re.search(r'data-columns="[^"]*\bsince\b', page)
    assert 'href="/p/acme/threads/restless/turns/3?at_turn=3"' in page
    plain = text_of(viewer, "/p/acme/threads")
    assert not re.search(r'data-columns="[^"]*\bsince\b', plain)


def test_health_warns_of_a_key_file_without_a_backup(
    viewer: Client, agent: Agent
) -> None:
    age_key_file()
    factories.append(agent, "t-1", "hello")
    look()
    for place in PLACES:
        page = text_of(viewer, place)
        assert not re.search(r"\bwell</h1>", page), place
        assert "No backup: should the file be lost" in page, place
    backup.record(keyring.get_ring(), at=timezone.now())
    for place in PLACES:
        assert "No backup" not in text_of(viewer, place), place


def test_overview_gives_no_verdict_on_too_few_exchanges(
    viewer: Client, agent: Agent
) -> None:
    make_restless(agent, exchanges=6)
    look()
    assert "6 exchanges in this range, too few to tell" in text_of(viewer, "/p/acme/")


def test_overview_links_to_its_api_call_and_exports(viewer: Client) -> None:
    page = text_of(viewer, "/p/acme/")
    assert "/api/v1/stats" in page
    for kind in ("json", "csv", "ndjson"):
        assert f'data-export href="/p/acme/threads.{kind}"' in page


@pytest.mark.parametrize("chosen", ["15m", "1h", "24h", "30d", "zz", ""])
def test_each_time_range_is_a_link(viewer: Client, agent: Agent, chosen: str) -> None:
    factories.append(agent, "t-1", "hello")
    look()
    page = text_of(viewer, f"/p/acme/?range={chosen}&chart=calls")
    current = chosen if chosen in ("15m", "24h", "30d") else "1h"
    link = f'href="?range={current}&chart=calls" aria-current="true"'
    assert link in page
    assert "Model calls" in page


def test_recent_threads_show_last_messages_and_the_read_is_audited(
    browser: Browser, agent: Agent
) -> None:
    factories.append(agent, "t-1", "the one before", "<b>the last</b> words")
    look()
    answer: Any = browser("viewer").get("/p/acme/")
    page = answer.content.decode()
    assert "&lt;b&gt;the last&lt;/b&gt; words" in page
    assert "the one before" not in page
    entry = AuditEntry.objects.get(action="content.read")
    thread = factories.get_thread(agent)
    assert entry.target_id == str(thread.id)
    assert entry.last_seq == thread.head_seq


def test_overview_panel_is_the_page_without_its_frame(
    viewer: Client, agent: Agent
) -> None:
    factories.append(agent, "t-1", "hello")
    look()
    answer: Any = viewer.get("/p/acme/panels/overview?range=24h")
    assert answer.headers["MH-Panel"] == "1"
    text = unescape(answer.content.decode())
    assert text.strip().startswith('<div id="fresh"')
    assert "Recent threads" in text


def test_refusals_open_by_code_and_thread(
    viewer: Client, agent: Agent, acme: Project
) -> None:
    factories.make_thread(agent)
    for code, count in (("no_room", 3), ("not_found", 1)):
        for _ in range(count):
            activity.count_refusal(acme.id, code, ("t-1",))
    look()
    assert 'href="/p/acme/refusals?range=1h&code=no_room"' in text_of(
        viewer, "/p/acme/"
    )
    page = text_of(viewer, "/p/acme/refusals")
    assert "<h1>4 refusals</h1>" in page
    table = text_of(viewer, "/p/acme/refusals?code=no_room&thread=t-1")
    rows = table.partition('id="by-thread"')[2]
    assert "no_room" in rows
    assert "not_found" not in rows


@pytest.mark.parametrize("query", ["code=%00", "thread=%00", "code=A-B", "thread=zz"])
def test_refusals_of_an_unknown_code_or_thread_are_not_found(
    viewer: Client, query: str
) -> None:
    answer: Any = viewer.get(f"/p/acme/refusals?{query}")
    assert answer.status_code == 404


def test_refusals_of_another_project_are_not_shown(
    viewer: Client, stranger: Agent
) -> None:
    factories.make_thread(stranger, "theirs")
    activity.count_refusal(stranger.project, "no_room", ("theirs",))
    look()
    page = text_of(viewer, "/p/acme/refusals")
    assert "No refusals in this period" in page
    assert "theirs" not in page


@pytest.mark.parametrize("count", [2, 14])
def test_overview_costs_the_same_for_any_number_of_threads(
    viewer: Client,
    agent: Agent,
    count: int,
    django_assert_max_num_queries: Any,
) -> None:
    for n in range(count):
        factories.append(agent, f"t-{n}", "hello")
    Thread.objects.update(refault_count=0)
    look()
    viewer.get("/p/acme/")
    with django_assert_max_num_queries(60) as found:
        viewer.get("/p/acme/")
    assert len(found) > 20
