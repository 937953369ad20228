from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from memoryhub.journal import writer
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import catalogue, verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import listing
from tests.cast import factories
from tests.inspector import paged
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db
LIST = "/p/acme/threads"


def list_thread_names(client: Client, query: str = "") -> list[str]:
    """Return the names of the threads that a list shows, in its order."""
    answer = client.get(f"{LIST}{query}")
    assert answer.status_code == 200
    return [line.name for line in answer.context["listed"]]


def test_search_terms_link_to_the_list_without_them(browser: Browser) -> None:
    page = browser("viewer").get(f"{LIST}?q=status:open+slots:%3E1&sort=tokens")
    chips = {chip.word: chip.rest for chip in page.context["chips"]}
    assert chips == {
        "status:open": "q=slots%3A%3E1&sort=tokens",
        "slots:>1": "q=status%3Aopen&sort=tokens",
    }
    assert 'aria-label="Leave out status:open"' in page.content.decode()


@pytest.fixture
def three(agent: Agent) -> None:
    scope = ScopeLabels(agent_type="support", session="s-1")
    factories.make_thread(agent, "alpha", scope=scope, labels={"team": "red", "n": 1.0})
    factories.make_thread(agent, "alpine", user_id="ann", labels={"team": "blue"})
    factories.make_thread(agent, "beta", max_slots=10)
    factories.append(agent, "beta", *("hello" for _ in range(9)))


def test_thread_list_of_an_empty_project_says_how_to_begin(viewer: Client) -> None:
    page = viewer.get(LIST).content.decode()
    assert "No thread yet" in page
    assert 'href="/p/acme/connect"' in page
    assert "manage.py import" in page


def test_thread_search_without_hits_says_so(viewer: Client, three: None) -> None:
    page = viewer.get(f"{LIST}?q=zz").content.decode()
    assert "No thread matches" in page
    assert "alpha" not in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("alp", {"alpha", "alpine"}),
        ("-alp", {"beta"}),
        ("name:beta", {"beta"}),
        ("name:alp*,beta", {"alpha", "alpine", "beta"}),
        ("status:open", {"alpha", "alpine", "beta"}),
        ("status:closed", set()),
        ("agent_type:support session:s-1", {"alpha"}),
        ("-agent_type:support", {"alpine", "beta"}),
        ("label.team:red,blue", {"alpha", "alpine"}),
        ("label.team:re*", {"alpha"}),
        ("label.n:1.0", {"alpha"}),
        ("slots:>5", {"beta"}),
        ("slots:0", {"alpha", "alpine"}),
        ("slots:1..9", {"beta"}),
        ("events:<2", {"alpha", "alpine"}),
        ("tokens:<1k", {"alpha", "alpine", "beta"}),
        ("active:<1h", {"alpha", "alpine", "beta"}),
        ("active:>1h", set()),
        ('name:"alpha"', {"alpha"}),
    ],
)
def test_thread_search_finds_matching_threads(
    viewer: Client, three: None, query: str, found: set[str]
) -> None:
    answer = viewer.get(LIST, {"q": query})
    assert {line.name for line in answer.context["listed"]} == found


def test_thread_search_finds_a_subject_by_its_listed_id(
    viewer: Client, three: None
) -> None:
    subject = str(Thread.objects.get(name="alpine").subject_id)
    assert list_thread_names(viewer, f"?q=subject:{subject}") == ["alpine"]
    assert list_thread_names(viewer, f"?q=subject:{subject[-8:]}") == ["alpine"]


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("stauts:open", "status:"),
        ("slot:>4", "slots:"),
        ("status:opn", "status:open"),
        ("slots:many", "slots:&gt;1k"),
        ("active:3k", "active:&lt;1h"),
    ],
)
def test_wrong_thread_search_suggests_the_nearest_word(
    viewer: Client, three: None, query: str, nearest: str
) -> None:
    answer = viewer.get(LIST, {"q": query})
    assert answer.status_code == 422
    assert "listed" not in answer.context
    assert f"<code>{nearest}</code>" in answer.content.decode()
    assert viewer.get(f"{LIST}.json", {"q": query}).status_code == 422
    assert viewer.get("/p/acme/panels/facets", {"q": query}).status_code == 422


@pytest.mark.parametrize(
    "query",
    ['name:"open', "x" * 501, " ".join("a" * 21), "näme", "subject:zz", "slots:1..<2"],
)
def test_unreadable_thread_search_is_refused(viewer: Client, query: str) -> None:
    assert viewer.get(LIST, {"q": query}).status_code == 422


def test_thread_pages_walk_the_list_once(viewer: Client, three: None) -> None:
    first = viewer.get(f"{LIST}?limit=2&sort=slots")
    second = viewer.get(f"{LIST}?limit=2&{first.context['more']}")
    shown = [*first.context["listed"], *second.context["listed"]]
    assert sorted(line.name for line in shown) == ["alpha", "alpine", "beta"]
    assert second.context["more"] == ""


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", catalogue.SORTS)
def test_thread_pages_walk_the_list_once_in_every_order(
    viewer: Client, agent: Agent, sort: str, order: str
) -> None:
    for n in range(5):
        # Ties: ids decide.
        factories.append(agent, f"t-{n}", *("hello" for _ in range(n // 2)))
    listing.bring_up(timezone.now() + timedelta(seconds=11))
    found: list[ThreadLine] = []
    query = f"limit=2&sort={sort}&order={order}"
    while query:
        answer = viewer.get(f"{LIST}?limit=2&{query}")
        found += answer.context["listed"]
        query = answer.context["more"]
    assert sorted(line.name for line in found) == [f"t-{n}" for n in range(5)]
    column = catalogue.SORTS[sort]
    rows = Thread.objects.in_bulk([line.id for line in found])
    values = [getattr(rows[line.id], column) for line in found]
    assert values == sorted(values, reverse=order == "desc")


def test_column_heading_reverses_its_order(viewer: Client, three: None) -> None:
    page = viewer.get(f"{LIST}?sort=turns").content.decode()
    assert 'aria-sort="descending"' in page
    assert 'href="?sort=turns&amp;order=asc"' in page
    turned = viewer.get(f"{LIST}?sort=turns&order=asc").content.decode()
    assert 'aria-sort="ascending"' in turned
    assert 'href="?sort=turns"' in turned


def test_thread_list_view_is_kept_in_its_url(viewer: Client, three: None) -> None:
    query = "?q=alp&range=1h&sort=name&columns=slots&columns=rate"
    answer = viewer.get(f"{LIST}{query}")
    assert 'data-columns="rate slots"' in answer.content.decode()
    assert list_thread_names(viewer, query) == ["alpha", "alpine"]
    exported = dict(answer.context["exported"])["csv"]
    assert "range=1h" in exported
    assert "sort=name" in exported


def test_time_range_filters_by_last_activity(viewer: Client, agent: Agent) -> None:
    with time_machine.travel(timezone.now() - timedelta(days=3), tick=False):
        factories.append(agent, "old", "hello")
    factories.append(agent, "new", "hello")
    assert list_thread_names(viewer, "?range=24h") == ["new"]
    assert list_thread_names(viewer, "?range=7d&sort=name") == ["new", "old"]
    assert list_thread_names(viewer, "?q=at:<1h") == ["new"]
    assert list_thread_names(viewer, "?q=-at:<1h") == ["old"]
    day = (timezone.now() - timedelta(days=3)).date().isoformat()
    assert list_thread_names(viewer, f"?q=at:{day}") == ["old"]
    assert list_thread_names(viewer, "?q=at:>0001-01-02&sort=name") == ["new", "old"]


def test_thread_totals_follow_the_filter(viewer: Client, three: None) -> None:
    assert "3 of 3<" in viewer.get(LIST).content.decode()
    assert "2 of 2<" in viewer.get(f"{LIST}?q=alp").content.decode()
    assert "1 of 2<" in viewer.get(f"{LIST}?q=alp&limit=1").content.decode()


def test_thread_row_shows_the_last_message_and_a_verdict(
    viewer: Client, agent: Agent
) -> None:
    factories.append(agent, "t-1", "first", "Where is <b>my</b> parcel?")
    factories.append(agent, "t-2", "x" * 70_000)
    paged.make_restless(agent, exchanges=6)
    page = viewer.get(LIST).content.decode()
    assert "Where is &lt;b&gt;my&lt;/b&gt; parcel?" in page
    assert "a message of 72.0 KB" in page
    assert "xxxx" not in page
    assert 'q=flag%3Athrashing"' in page
    assert re.search(r'title="low resident rate"\s*>\+1</span>', page)
    assert "too few to tell" in page


def test_thread_row_flags_equal_the_search_by_flag(
    viewer: Client, agent: Agent
) -> None:
    paged.make_restless(agent, exchanges=6)
    factories.append(agent, "t-1", "hello")
    rows = viewer.get(LIST).context["table"].rows
    for flag in (each.flag for each in verdicts.VERDICTS):
        raised = {
            row.line.name
            for row in rows
            if flag in {each.flag for each in row.verdicts}
        }
        assert set(list_thread_names(viewer, f"?q=flag:{flag}")) == raised


def test_thread_list_refuses_the_cursor_of_another_list(
    viewer: Client, three: None
) -> None:
    more = viewer.get(f"{LIST}?limit=1").context["more"]
    assert viewer.get(f"{LIST}?q=alp&{more}").status_code == 400


def test_facets_count_matching_threads(viewer: Client, three: None) -> None:
    answer = viewer.get("/p/acme/panels/facets?q=label.team:red,blue")
    assert answer.headers["MH-Panel"] == "1"
    spread = {
        facet.key: {choice.value: choice.count for choice in facet.choices}
        for facet in answer.context["spread"].facets
    }
    assert spread["status"] == {"open": 2}
    assert spread["agent_type"] == {"support": 1}
    assert spread["label.team"] == {"red": 1, "blue": 1}


def test_fresh_counts_threads_that_changed_since(
    viewer: Client, agent: Agent, three: None
) -> None:
    since = viewer.get(LIST).context["since"]
    before = viewer.get("/p/acme/panels/fresh", {"since": since}).content.decode()
    assert "new or updated" not in before
    factories.make_thread(agent, "gamma")
    after = viewer.get("/p/acme/panels/fresh", {"since": since}).content.decode()
    assert "1 new or updated" in after
    assert viewer.get("/p/acme/panels/fresh", {"since": "x"}).status_code == 422


@pytest.mark.parametrize("query", ["", "?q=alp", "?q=label.team:red"])
def test_thread_export_equals_the_filter(
    viewer: Client, three: None, query: str
) -> None:
    shown = set(list_thread_names(viewer, query))
    lines = lines_of(viewer.get(f"{LIST}.ndjson{query}"))
    assert {json.loads(line)["thread"] for line in lines} == shown
    table = csv.DictReader(
        io.StringIO("\n".join(lines_of(viewer.get(f"{LIST}.csv{query}"))))
    )
    assert {row["thread"] for row in table} == shown
    batch = json.loads(viewer.get(f"{LIST}.json{query}").content)
    assert {item["thread"] for item in batch["items"]} == shown
    assert batch["next"] is None


def test_thread_export_is_oldest_first(viewer: Client, three: None) -> None:
    lines = lines_of(viewer.get(f"{LIST}.ndjson"))
    assert [json.loads(line)["thread"] for line in lines] == ["alpha", "alpine", "beta"]


def lines_of(answer: object) -> list[str]:
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]  # a stream
    return text.splitlines()


def test_thread_row_on_the_page_equals_its_panel(viewer: Client, three: None) -> None:
    page = viewer.get(LIST).content.decode()
    panel = viewer.get(f"{LIST}/beta/panels/row").content.decode()
    row = panel[panel.index("<div role") :].strip()
    assert row in page


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_closing_a_thread_requires_an_editor(
    browser: Browser, three: None, role: str
) -> None:
    client = browser(role)
    answer = client.post(f"{LIST}/alpha/close", {"reason": "failed"})
    status = Thread.objects.get(name="alpha").status
    if role == "viewer":
        assert answer.status_code == 403
        assert "role editor" in answer.content.decode()
        assert status == "open"
    else:
        assert answer.status_code == 302
        assert status == "closed"


def test_closed_thread_is_reopened(browser: Browser, three: None) -> None:
    client = browser("editor")
    client.post(f"{LIST}/alpha/close", {"reason": "completed"})
    form = "checkpoints/-6/restore"
    for view, page in (("keys", "/keys"), (form, f"/{form}"), ("//evil.example", "")):
        back = client.post(f"{LIST}/alpha/reopen", {"view": view})
        assert back.headers["Location"] == f"{LIST}/alpha{page}"
    assert Thread.objects.get(name="alpha").status == "open"
    assert client.post(f"{LIST}/alpha/close", {"reason": "bored"}).status_code == 422
    assert client.get(f"{LIST}/alpha/reopen").status_code == 405


@pytest.mark.parametrize("size", [3, 60])
def test_thread_list_costs_the_same_at_any_size(
    viewer: Client, agent: Agent, size: int, django_assert_max_num_queries: object
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"t-{n}", labels={"n": n})
        factories.append(agent, f"t-{n}", "hello")
    viewer.get(LIST)
    with django_assert_max_num_queries(9):  # type: ignore[operator]  # a fixture
        viewer.get(LIST)
    with django_assert_max_num_queries(9):  # type: ignore[operator]  # a fixture
        viewer.get("/p/acme/panels/facets")


def test_thread_list_of_another_project_is_not_found(
    viewer: Client, zeta: Project, stranger: Agent
) -> None:
    factories.make_thread(stranger, "secret")
    absent = viewer.get("/p/nowhere/threads")
    foreign = viewer.get("/p/zeta/threads")
    assert absent.status_code == foreign.status_code == 404
    for path in ("/p/zeta/threads/secret", "/p/acme/threads/secret"):
        assert viewer.get(path).status_code == 404


def test_error_page_keeps_the_project_and_the_thread(
    viewer: Client, agent: Agent
) -> None:
    factories.make_thread(agent, "t-1")
    inside = viewer.get("/p/acme/threads/t-1/pages/nope").content.decode()
    assert 'aria-label="Project acme"' in inside
    assert 'href="/p/acme/threads/t-1">Open the thread' in inside
    absent = viewer.get("/p/acme/threads/t-2").content.decode()
    assert 'aria-label="Project acme"' in absent
    assert "Open the thread" not in absent
    assert 'aria-label="Project' not in viewer.get("/p/nowhere/").content.decode()


@pytest.mark.parametrize(
    "query",
    ["active:>900000d", "active:<999999999999999d", "active:1s..36501d"],
)
def test_search_age_beyond_the_calendar_is_refused(viewer: Client, query: str) -> None:
    answer = viewer.get(LIST, {"q": query})
    assert answer.status_code == 422
    assert "<code>active:&lt;1h</code>" in answer.content.decode()
    assert viewer.get(f"{LIST}.json", {"q": query}).status_code == 422


@pytest.mark.parametrize("query", ["active:<36500d", "slots:<999999999999999M"])
def test_thread_search_takes_long_ages_and_large_numbers(
    viewer: Client, three: None, query: str
) -> None:
    assert sorted(list_thread_names(viewer, f"?q={query}")) == [
        "alpha",
        "alpine",
        "beta",
    ]


@pytest.mark.parametrize(
    "since",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-02-30T00:00:00Z",
        "2026-02-01T00:00:00",
    ],
)
def test_invalid_moment_is_refused(viewer: Client, since: str) -> None:
    answer = viewer.get("/p/acme/panels/fresh", {"since": since})
    assert answer.status_code == 422


def test_closing_a_thread_does_not_wait_for_a_full_queue(
    browser: Browser, three: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browser("editor")
    with monkeypatch.context() as stopping:
        stopping.setattr(writer, "_stopping", True)
        answer = client.post(f"{LIST}/alpha/close", {"reason": "failed"})
    assert answer.status_code == 503
    assert Thread.objects.get(name="alpha").status == "open"
    client.post(f"{LIST}/alpha/close", {"reason": "failed"})
    again = client.post(f"{LIST}/alpha/close", {"reason": "failed"})
    assert again.status_code in (302, 409)


def test_thread_named_by_a_uuid_is_titled_by_its_first_words(
    viewer: Client, agent: Agent
) -> None:
    name = "order-01a22c2d-67ff-7ebc-a453-72adb6067fd0"
    factories.make_thread(agent, name)
    factories.append(agent, name, "Where is my parcel?", "At the depot.")
    listed = viewer.get("/p/acme/threads").content.decode()
    assert ">Where is my parcel?</a>" in listed
    page = viewer.get(f"/p/acme/threads/{name}").content.decode()
    assert "<h1 hx-disable>Where is my parcel?</h1>" in page
    # The page of forks shows no content, and is not audited as if it did.
    assert (
        f"<h1>{name}</h1>"
        in viewer.get(f"/p/acme/threads/{name}/forks").content.decode()
    )


def test_thread_that_waits_for_the_observer_has_a_badge_and_a_flag(
    viewer: Client, agent: Agent
) -> None:
    for name in ("seen", "unseen"):
        factories.make_thread(agent, name)
    assert "to observe" not in viewer.get("/p/acme/threads").content.decode()
    Thread.objects.filter(name="unseen").update(observer_due=True)
    assert "to observe" in viewer.get("/p/acme/threads").content.decode()
    assert list_thread_names(viewer, "?q=flag:unobserved") == ["unseen"]
