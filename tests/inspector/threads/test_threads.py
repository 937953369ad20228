from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from memoryhub.journal import writer
from memoryhub.kernel.state.state import Scope
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db
LIST = "/p/acme/threads"


def names(client: Client, query: str = "") -> list[str]:
    """The names of the threads that a list shows, in its order."""
    answer = client.get(f"{LIST}{query}")
    assert answer.status_code == 200
    return [line.name for line in answer.context["listed"]]


@pytest.fixture
def three(agent: Agent) -> None:
    scope = Scope(agent_type="support", session="s-1")
    factories.make_thread(agent, "alpha", scope=scope, labels={"team": "red", "n": 1.0})
    factories.make_thread(agent, "alpine", user_id="ann", labels={"team": "blue"})
    factories.make_thread(agent, "beta", max_slots=10)
    factories.append(agent, "beta", *("hello" for _ in range(9)))


def test_an_empty_project_says_how_to_begin(viewer: Client) -> None:
    page = viewer.get(LIST).content.decode()
    assert "No thread yet" in page
    assert "/api/v1/threads/hello/slots" in page
    assert "manage.py import" in page


def test_a_search_without_hits_says_so(viewer: Client, three: None) -> None:
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
def test_a_search_finds(
    viewer: Client, three: None, query: str, found: set[str]
) -> None:
    answer = viewer.get(LIST, {"q": query})
    assert {line.name for line in answer.context["listed"]} == found


def test_a_subject_is_found_by_what_lists_show(viewer: Client, three: None) -> None:
    subject = str(Thread.objects.get(name="alpine").subject_id)
    assert names(viewer, f"?q=subject:{subject}") == ["alpine"]
    assert names(viewer, f"?q=subject:{subject[-8:]}") == ["alpine"]


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
def test_a_wrong_search_names_the_nearest(
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
def test_a_search_that_can_not_be_read_is_refused(viewer: Client, query: str) -> None:
    assert viewer.get(LIST, {"q": query}).status_code == 422


def test_batches_go_through_the_list_once(viewer: Client, three: None) -> None:
    first = viewer.get(f"{LIST}?limit=2&sort=slots")
    second = viewer.get(f"{LIST}?limit=2&{first.context['more']}")
    shown = [*first.context["listed"], *second.context["listed"]]
    assert sorted(line.name for line in shown) == ["alpha", "alpine", "beta"]
    assert second.context["more"] == ""


def test_a_cursor_of_another_list_is_refused(viewer: Client, three: None) -> None:
    more = viewer.get(f"{LIST}?limit=1").context["more"]
    assert viewer.get(f"{LIST}?q=alp&{more}").status_code == 400


def test_facets_count_what_matches(viewer: Client, three: None) -> None:
    answer = viewer.get("/p/acme/panels/facets?q=label.team:red,blue")
    assert answer.headers["MH-Panel"] == "1"
    spread = {
        facet.key: {choice.value: choice.count for choice in facet.choices}
        for facet in answer.context["spread"].facets
    }
    assert spread["status"] == {"open": 2}
    assert spread["agent_type"] == {"support": 1}
    assert spread["label.team"] == {"red": 1, "blue": 1}


def test_fresh_counts_what_moved_since(
    viewer: Client, agent: Agent, three: None
) -> None:
    since = viewer.get(LIST).context["since"]
    before = viewer.get("/p/acme/panels/fresh", {"since": since}).content.decode()
    assert "new or moved" not in before
    factories.make_thread(agent, "gamma")
    after = viewer.get("/p/acme/panels/fresh", {"since": since}).content.decode()
    assert "1 new or moved" in after
    assert viewer.get("/p/acme/panels/fresh", {"since": "x"}).status_code == 422


@pytest.mark.parametrize("query", ["", "?q=alp", "?q=label.team:red"])
def test_export_is_exactly_the_filter(viewer: Client, three: None, query: str) -> None:
    shown = set(names(viewer, query))
    lines = lines_of(viewer.get(f"{LIST}.ndjson{query}"))
    assert {json.loads(line)["thread"] for line in lines} == shown
    table = csv.DictReader(
        io.StringIO("\n".join(lines_of(viewer.get(f"{LIST}.csv{query}"))))
    )
    assert {row["thread"] for row in table} == shown
    batch = json.loads(viewer.get(f"{LIST}.json{query}").content)
    assert {item["thread"] for item in batch["items"]} == shown
    assert batch["next"] is None


def test_an_export_is_oldest_first(viewer: Client, three: None) -> None:
    lines = lines_of(viewer.get(f"{LIST}.ndjson"))
    assert [json.loads(line)["thread"] for line in lines] == ["alpha", "alpine", "beta"]


def lines_of(answer: object) -> list[str]:
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]  # a stream
    return text.splitlines()


def test_a_row_is_the_same_on_the_page_and_as_a_panel(
    viewer: Client, three: None
) -> None:
    page = viewer.get(LIST).content.decode()
    panel = viewer.get(f"{LIST}/beta/panels/row").content.decode()
    row = panel[panel.index("<div role") :].strip()
    assert row in page


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_closing_wants_an_editor(browser: Browser, three: None, role: str) -> None:
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


def test_a_closed_thread_is_reopened(browser: Browser, three: None) -> None:
    client = browser("editor")
    client.post(f"{LIST}/alpha/close", {"reason": "completed"})
    assert client.post(f"{LIST}/alpha/reopen").status_code == 302
    assert Thread.objects.get(name="alpha").status == "open"
    assert client.post(f"{LIST}/alpha/close", {"reason": "bored"}).status_code == 422
    assert client.get(f"{LIST}/alpha/reopen").status_code == 405


@pytest.mark.parametrize("size", [3, 60])
def test_the_list_costs_the_same_whatever_it_holds(
    viewer: Client, agent: Agent, size: int, django_assert_max_num_queries: object
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"t-{n}", labels={"n": n})
    with django_assert_max_num_queries(4):  # type: ignore[operator]  # a fixture
        viewer.get(LIST)
    with django_assert_max_num_queries(7):  # type: ignore[operator]  # a fixture
        viewer.get("/p/acme/panels/facets")


def test_another_projects_list_is_not_found(
    viewer: Client, zeta: Project, stranger: Agent
) -> None:
    factories.make_thread(stranger, "secret")
    absent = viewer.get("/p/nowhere/threads")
    foreign = viewer.get("/p/zeta/threads")
    assert absent.status_code == foreign.status_code == 404
    for path in ("/p/zeta/threads/secret", "/p/acme/threads/secret"):
        assert viewer.get(path).status_code == 404


@pytest.mark.parametrize(
    "query",
    ["active:>900000d", "active:<999999999999999d", "active:1s..36501d"],
)
def test_an_age_beyond_the_calendar_is_refused(viewer: Client, query: str) -> None:
    answer = viewer.get(LIST, {"q": query})
    assert answer.status_code == 422
    assert "<code>active:&lt;1h</code>" in answer.content.decode()
    assert viewer.get(f"{LIST}.json", {"q": query}).status_code == 422


@pytest.mark.parametrize("query", ["active:<36500d", "slots:<999999999999999M"])
def test_long_ages_and_large_numbers_are_found_by(
    viewer: Client, three: None, query: str
) -> None:
    assert sorted(names(viewer, f"?q={query}")) == ["alpha", "alpine", "beta"]


@pytest.mark.parametrize(
    "since",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-02-30T00:00:00Z",
        "2026-02-01T00:00:00",
    ],
)
def test_a_moment_that_is_none_is_refused(viewer: Client, since: str) -> None:
    answer = viewer.get("/p/acme/panels/fresh", {"since": since})
    assert answer.status_code == 422


def test_closing_waits_for_no_full_queue(
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
