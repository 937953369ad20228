"""Content reads: the audit log has an entry before the content is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db.models import Q
from django.test import Client
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from inspector import BUILD
from inspector.live.hub import hub
from inspector.replay.moments import PANELS
from inspector.web import read_audit
from memoryhub.journal import audit
from memoryhub.journal.writing.writer import writer
from memoryhub.kernel.text import strict_json
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator, SignInLink
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.cast.sockets import Socket
from tests.inspector.conftest import Browser, signed_in
from tests.inspector.routes import SINCE, Route, list_routes, make_family, variants
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db

CANARY = "CANARY-4711-of-the-content"
START = datetime(2026, 3, 4, 12, 0, 1, tzinfo=UTC)
QUERIES = ("", "at_seq=3&open=2,3&content=1", "at_turn=1&content=all", "q=-zzz&limit=1")
ROUTES = {route.name: route for route in list_routes()}
OF_THREADS = {name for name in ROUTES if "thread" in ROUTES[name].parameters}
#: Pages that list threads or people with last words, or events of threads.
LISTS = {"overview", "overview-panel", "threads", "episodes", "subject"}
LISTS |= {"marked-turns", "lacking-turns", "subjects"}
#: Pages of a person's memory.
PERSON = {"facts", "blocks", "recall", "fact-add", "fact-act", "fact-correct"}
PERSON |= {"block-add", "block-edit"}
#: Pages of acts, which name the person by a line of memory.
PERSON |= {"subject-export", "subject-restrict", "subject-hold", "forget"}
PERSON |= {"hold-lift", "hold-renew"}
CONTENT = (OF_THREADS | PERSON) - read_audit.PLAIN | LISTS
#: Pages that wait for a thread and show the first one; see test_connect.
WAITING = {"connect", "connect-key", "connect-panel"}


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    read_audit.forget()
    yield
    read_audit.forget()


@pytest.fixture
def known(agent: Agent) -> dict[str, str]:
    """Make a thread and its fork with the canary in every field that can hold it."""
    found = make_family(agent, remembering=True)
    factories.append(agent, "t-1", CANARY)
    memory_acts.set_key(agent, "seat", CANARY)
    memory_acts.add_notes(agent, CANARY)
    text = strict_json.dump_stored(CANARY)
    memory_acts.set_task(agent, status="running", fields={"description": text})
    return found


def list_entries() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action="content.read").order_by("seq"))


def addresses(
    route: Route, known: dict[str, str], queries: Iterable[str] = QUERIES
) -> Iterator[str]:
    for choice in variants(route):
        for thread in ("t-1", "t-1.alt"):
            path = route.fill({**known, "thread": thread, **choice})
            yield from (f"{path}?{SINCE}&{query}" for query in queries)


def find_view(page: str) -> str:
    """Find the sealed view that a page names."""
    return page.partition('data-view="')[2].partition('"')[0]


def look(client: Client, address: str) -> str:
    answer: Any = client.get(address)
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return b"".join(parts).decode()


def test_every_declared_plain_route_exists() -> None:
    assert read_audit.PLAIN < OF_THREADS | PERSON
    assert read_audit.PLAIN_PANELS.issubset(PANELS)


def test_plain_page_shows_no_content(
    owner: Client, known: dict[str, str], subtests: pytest.Subtests
) -> None:
    for name in sorted(ROUTES.keys() - CONTENT - WAITING - {"sign-out", "theme"}):
        with subtests.test(name):
            for address in addresses(ROUTES[name], known, QUERIES[:2]):
                assert CANARY not in look(owner, address), address
            assert list_entries() == []


def test_plain_panel_shows_no_content(
    owner: Client, known: dict[str, str], subtests: pytest.Subtests
) -> None:
    for panel in sorted(read_audit.PLAIN_PANELS):
        with subtests.test(panel):
            path = ROUTES["panel"].fill({**known, "panel": panel})
            assert CANARY not in look(owner, path)
            assert list_entries() == []


@pytest.mark.parametrize(
    "path", ["", "/slots", "/keys/seat", "/notes", "/task", "/events?open=1"]
)
def test_canary_is_seen_on_content_pages(
    path: str, owner: Client, known: dict[str, str]
) -> None:
    """Otherwise the tests above would pass without finding anything."""
    assert CANARY in look(owner, f"/p/acme/threads/t-1{path}")
    assert len(list_entries()) == 1


def test_audit_entries_equal_the_content_reads(
    browser: Browser, acme: Project, known: dict[str, str]
) -> None:
    """Crawl every screen; the entries are the (operator, thread, minute) of the crawl.

    Each crawl has its own way of asking, so that each address is asked for once.
    """
    expected: list[tuple[str, str, datetime]] = []
    # Reads of a subject's knowledge are audited at its home thread.
    read = Thread.objects.filter(Q(name__in=("t-1", "t-1.alt")) | Q(home=True))
    threads = [str(row.id) for row in read]
    ways = iter(QUERIES)
    with time_machine.travel(START, tick=False) as travel:
        crawlers = [("owner", browser("owner")), ("officer", browser("officer"))]
        for minute in range(2):
            now = START + timedelta(minutes=minute)
            travel.move_to(now)
            for role, client in crawlers:
                operator = operators.find(role)
                assert operator is not None
                way = next(ways)
                for name in CONTENT:
                    for address in addresses(ROUTES[name], known, [way]):
                        look(client, address)
                at = now.replace(second=0)
                expected += [(str(operator.id), thread, at) for thread in threads]
    found = [
        (row.actor_ref, row.target_id, row.at.replace(second=0, microsecond=0))
        for row in list_entries()
    ]
    assert sorted(found) == sorted(expected)
    assert {row.target_kind for row in list_entries()} == {"thread"}
    assert {row.project for row in list_entries()} == {acme.id}


def test_content_read_entry_has_route_range_and_purpose(
    owner: Client, known: dict[str, str], agent: Agent
) -> None:
    look(owner, "/p/acme/threads/t-1/slots?at_seq=4")
    (row,) = list_entries()
    thread = factories.get_thread(agent)
    assert row.route == "p/<project:project>/threads/<name:thread>/slots"
    assert (row.first_seq, row.last_seq) == (1, 4)
    assert row.purpose == "debugging"
    assert row.outcome == "done"
    assert bytes(row.subject or b"") == audit.find_pseudonym(thread.subject_id)


def test_content_read_entry_of_one_event_has_a_range_of_one(
    owner: Client, known: dict[str, str]
) -> None:
    look(owner, "/p/acme/threads/t-1/events/3")
    (row,) = list_entries()
    assert (row.first_seq, row.last_seq) == (3, 3)


def test_content_read_is_audited_once_a_minute_across_processes(
    owner: Client, known: dict[str, str]
) -> None:
    with time_machine.travel(START, tick=False):
        look(owner, "/p/acme/threads/t-1/slots")
        read_audit.forget()
        look(owner, "/p/acme/threads/t-1/task")
    assert len(list_entries()) == 1


def test_open_page_adds_an_entry_for_a_new_thread_only(
    owner: Client, known: dict[str, str], agent: Agent
) -> None:
    with time_machine.travel(START, tick=False) as travel:
        sealed = find_view(look(owner, "/p/acme/threads"))
        before = len(list_entries())
        # The context of a thread's page must not hide the view.
        other = find_view(look(owner, "/p/acme/threads/t-1"))
        assert (len(other), other != sealed) == (len(sealed), True)
        for minute in range(1, 60):
            travel.move_to(START + timedelta(minutes=minute))
            owner.get("/p/acme/threads/t-1/panels/events", headers={"MH-View": sealed})
        assert len(list_entries()) == before
        factories.append(agent, "t-9", CANARY)
        owner.get("/p/acme/threads/t-9/panels/events", headers={"MH-View": sealed})
        row = list_entries()[-1]
        assert (row.request_id, row.count) == (sealed.partition(":")[0], 0)
        assert len(list_entries()) == before + 1
        forged = sealed[:-1] + ("A" if sealed[-1] != "A" else "B")
        owner.get("/p/acme/threads/t-1/panels/events", headers={"MH-View": forged})
        assert len(list_entries()) == before + 2


def test_second_content_read_in_a_minute_costs_no_query(
    owner: Client,
    known: dict[str, str],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    with time_machine.travel(START, tick=False):
        look(owner, "/p/acme/threads/t-1/task")
        with django_assert_max_num_queries(9) as seen:
            look(owner, "/p/acme/threads/t-1/task")
    assert not [each for each in seen if "audit" in each["sql"]]


def test_refused_read_is_not_audited_as_a_content_read(
    browser: Browser, known: dict[str, str]
) -> None:
    browser("owner")
    viewer = browser("viewer")
    assert viewer.get("/p/acme/threads/t-1/keys/seat/set").status_code == 403
    assert viewer.get("/p/acme/threads/t-9/slots").status_code == 404
    Subject.objects.filter(threads__name="t-1").update(state=Subject.State.RESTRICTED)
    assert viewer.get("/p/acme/threads/t-1/slots").status_code == 403
    Subject.objects.update(state=Subject.State.ACTIVE)
    assert list_entries() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/slots", "/panels/events", "/slots.json?content=1"])
def test_content_is_withheld_when_the_audit_entry_fails(
    path: str, owner: Client, known: dict[str, str], settings: Settings
) -> None:
    address = f"/p/acme/threads/t-1{path}"
    writer.start()
    settings.QUEUE_COMMANDS = 0
    answer: Any = owner.get(address)
    assert answer.status_code == 503
    assert CANARY not in answer.content.decode()
    settings.QUEUE_COMMANDS = 10
    assert CANARY in look(owner, address)
    assert len(list_entries()) == 1


# The purpose


@pytest.mark.parametrize("purpose", audit.PURPOSES)
def test_purpose_is_chosen_at_sign_in(
    purpose: str, owner: Client, known: dict[str, str]
) -> None:
    operator = operators.find("owner")
    assert operator is not None
    client = Client()
    token = operators.make_link(operator)
    client.post(f"/sign-in/{token}", {"purpose": purpose})
    look(client, "/p/acme/threads/t-1/slots")
    assert [row.purpose for row in list_entries()] == [purpose]
    entry = AuditEntry.objects.filter(action="sign_in").latest("seq")
    assert entry.purpose == purpose


@pytest.mark.parametrize("path", ["/sign-in", f"/sign-in/{'x' * 43}"])
def test_sign_in_pages_offer_purposes_and_preselect_one(path: str, db: None) -> None:
    page = Client().get(path).content.decode()
    for purpose in audit.PURPOSES:
        chosen = " selected" if purpose == "debugging" else ""
        assert f'<option value="{purpose}"{chosen}>' in page


def test_unknown_purpose_is_refused_without_using_the_link(owner: Client) -> None:
    operator = operators.find("owner")
    assert operator is not None
    token = operators.make_link(operator)
    answer = Client().post(f"/sign-in/{token}", {"purpose": CANARY})
    assert answer.status_code == 422
    assert CANARY not in answer.content.decode()
    assert SignInLink.objects.get(used_at=None).operator_id == operator.id
    assert Client().post(f"/sign-in/{token}").status_code == 302


def test_sign_in_link_waits_for_a_purpose_off_loopback(
    db: None, settings: Settings
) -> None:
    """Otherwise nobody would see the purpose of the session."""
    path = f"/sign-in/{'x' * 43}"
    assert "data-send" in Client().get(path).content.decode()
    settings.ALLOWED_HOSTS = ["localhost", "m.example"]
    for away in (Client(REMOTE_ADDR="10.0.0.9"), Client(SERVER_NAME="m.example")):
        far = away.get(path).content.decode()
        assert "data-send" not in far
        assert '<button type="submit"' in far


# Sockets


@pytest.mark.django_db(transaction=True)
async def test_socket_read_is_audited_at_its_beginning_and_end(
    served: None, session: str, thread: Thread, operator: Operator
) -> None:
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread.id: (thread.head_seq, ["head", "events"])})
    opened = await _list_rows()
    assert [(row.outcome, row.target_id) for row in opened] == [
        ("opened", str(thread.id))
    ]
    assert (opened[0].actor_ref, opened[0].purpose) == (str(operator.id), "debugging")
    (viewer,) = hub.audience.viewers
    await socket.leave()
    await viewer.flush()
    began, ended = await _list_rows()
    assert (began.outcome, ended.outcome, ended.count) == ("opened", "closed", 1)
    assert began.request_id == ended.request_id == viewer.view


@pytest.mark.django_db(transaction=True)
async def test_socket_of_an_audited_view_adds_its_end_only(
    served: None, session: str, thread: Thread, operator: Operator
) -> None:
    sealed = read_audit.seal_view("a" * 32, operator.id)
    for _ in range(2):
        socket = Socket(session)
        await socket.open()
        await socket.hello({thread.id: (thread.head_seq, ["row"])}, view=sealed)
        (viewer,) = hub.audience.viewers
        await socket.leave()
        await viewer.flush()
    rows = await _list_rows()
    assert [row.outcome for row in rows] == ["opened", "closed", "closed"]
    assert {row.request_id for row in rows} == {"a" * 32}


@pytest.mark.django_db(transaction=True)
async def test_thread_list_is_audited_as_a_read_of_each_thread(
    served: None, session: str, thread: Thread
) -> None:
    """The rows of the list show the last message."""
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread.id: (thread.head_seq, ["row"])})
    await socket.leave()
    opened = [row.target_id for row in await _list_rows() if row.outcome == "opened"]
    assert opened == [str(thread.id)]


@pytest.mark.django_db(transaction=True)
async def test_socket_is_closed_when_its_audit_entry_fails(
    served: None, session: str, thread: Thread, settings: Settings
) -> None:
    settings.QUEUE_COMMANDS = 0
    socket = Socket(session)
    await socket.open()
    want = {"thread": str(thread.id), "panels": ["events"], "seq": thread.head_seq}
    await socket.send({"t": "hello", "v": 1, "build": BUILD, "want": [want]})
    assert await socket.read_closing_code() == 1013
    settings.QUEUE_COMMANDS = 10_000


async def _list_rows() -> list[AuditEntry]:
    rows = AuditEntry.objects.filter(action="content.read").order_by("seq")
    return [row async for row in rows]


def test_thread_list_is_audited_in_one_transaction(
    owner: Client, agent: Agent, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(20):
        factories.append(agent, f"t-{n}", f"{CANARY} {n}")
    owner.get("/p/acme/words")
    with django_assert_max_num_queries(20):
        page = look(owner, "/p/acme/threads")
    assert page.count(CANARY) == 20
    assert len({row.target_id for row in list_entries()}) == 20
    # The rest of the minute costs none.
    look(owner, "/p/acme/threads")
    assert len(list_entries()) == 20


def test_content_reads_of_two_operators_are_two_entries(
    acme: Project, owner: Client, known: dict[str, str]
) -> None:
    other = operators.add("olga")
    operators.set_role(acme, other, "viewer")
    for client in (owner, signed_in(other)):
        look(client, "/p/acme/threads/t-1/slots")
    assert len({row.actor_ref for row in list_entries()}) == 2
