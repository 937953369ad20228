"""Pages without a database: each says so in words, and reloads when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.db.utils import ConnectionHandler, DatabaseError

from inspector.web import refusals
from inspector.web.cookies import build_name
from tests.harness.instances import Server
from tests.harness.outages import Place, interruptible
from tests.promises.journal.clients import Client

THREAD = "/p/acme/threads/t-1"
PANELS = {f"{THREAD}/panels/events": "events", "/p/acme/panels/facets": "facets"}
#: The status of each page for a signed-in operator, with a database.
PAGES = {
    "/": 302,
    "/p/acme/": 200,
    "/p/acme/threads?q=status:open": 200,
    "/p/acme/threads.json": 200,
    "/p/acme/api-keys": 200,
    "/p/acme/health": 200,
    THREAD: 200,
    f"{THREAD}/events": 200,
    **dict.fromkeys(PANELS, 200),
    # No view has this address, but the error page names the signed-in operator.
    "/nothing/here": 404,
    "/sign-in": 200,
}
FORMS = (f"{THREAD}/reopen", "/p/acme/api-keys/new", "/sign-in/" + "x" * 43)
TOKEN = "x" * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Message
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """A browser with this session, which opens a connection for each page."""

    server: Server
    session: str

    def get(self, path: str) -> Answer:
        return self._ask("GET", path)

    def post(self, path: str) -> Answer:
        return self._ask("POST", path, urlencode({"csrfmiddlewaretoken": TOKEN}))

    def _ask(self, method: str, path: str, body: str = "") -> Answer:
        url = self.server.url
        cookies = {
            build_name(settings.SESSION_COOKIE_NAME, url): self.session,
            build_name(settings.CSRF_COOKIE_NAME, url): TOKEN,
        }
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        line = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            text = answer.read().decode()
            return Answer(status=answer.status, headers=answer.headers, text=text)
        finally:
            line.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with interruptible(tmp_path, monkeypatch) as made:
        yield made


def all_at_once(
    ask: Callable[[str], Answer], paths: Sequence[str]
) -> dict[str, Answer]:
    """Ask for all pages in parallel, since each waits for the database timeout."""
    with ThreadPoolExecutor(len(paths)) as pool:
        return dict(zip(paths, pool.map(ask, paths), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_pages_report_a_lost_database_and_recover(place: Place) -> None:
    instance = place.instance
    key = instance.managed("create_key", "acme").strip()
    session = instance.call("tests.cast.sockets:print_session").strip()
    with instance.serve() as server:
        with Client(server.port, key) as client:
            assert client.append("t-1", "hello").status == 201
        browser = Browser(server=server, session=session)
        before = all_at_once(browser.get, tuple(PAGES))
        assert {path: each.status for path, each in before.items()} == PAGES
        with place.without_database():
            pages = all_at_once(browser.get, tuple(PAGES))
            forms = all_at_once(browser.post, FORMS)
            stranger = Browser(server=server, session="").get("/sign-in")
        after = all_at_once(browser.get, tuple(PAGES))
        assert server.stop() in (0, -15)
    for answer in (*pages.values(), *forms.values()):
        assert answer.status == 503, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in answer.headers
        assert "The database does not answer." in answer.text
    for path, name in PANELS.items():
        assert pages[path].headers["MH-Panel"] == "1"
        assert f'id="{name}"' in pages[path].text
    assert all("Check whether your change" in form.text for form in forms.values())
    # A visitor without a session needs no query for an operator.
    assert stranger.status == 200
    assert {path: each.status for path, each in after.items()} == PAGES
    assert "Traceback" not in instance.log.read_text()


@pytest.mark.django_db
def test_corrupt_database_file_counts_as_away(tmp_path: Path) -> None:
    file = tmp_path / "damaged.sqlite3"
    file.write_bytes(b"no database " * 400)
    place = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}
    connection = ConnectionHandler({"default": place})["default"]
    with pytest.raises(DatabaseError) as failure, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM memoryhub_thread")
    connection.close()
    assert refusals.is_database_lost(failure.value)


@pytest.mark.parametrize("mistake", [IntegrityError, ProgrammingError, ValueError])
def test_programming_error_does_not_count_as_a_lost_database(
    mistake: type[Exception],
) -> None:
    assert not refusals.is_database_lost(mistake())
    assert refusals.is_database_lost(OperationalError())
    assert refusals.is_database_lost(InterfaceError())
