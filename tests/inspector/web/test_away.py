"""Without a database a page says so, in words, and comes again by itself with it."""

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
from inspector.web.cookies import name_at
from tests.harness.instances import Server
from tests.harness.outages import Place, interruptible
from tests.promises.journal.clients import Client

THREAD = "/p/acme/threads/t-1"
PANELS = {f"{THREAD}/panels/events": "events", "/p/acme/panels/facets": "facets"}
#: What each answers to who is signed in, while there is a database.
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
    # Of no view; but the page that says so names who is signed in.
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
    """Whoever has this session; a connection for each page."""

    server: Server
    session: str

    def get(self, path: str) -> Answer:
        return self._ask("GET", path)

    def post(self, path: str) -> Answer:
        return self._ask("POST", path, urlencode({"csrfmiddlewaretoken": TOKEN}))

    def _ask(self, method: str, path: str, body: str = "") -> Answer:
        url = self.server.url
        cookies = {
            name_at(settings.SESSION_COOKIE_NAME, url): self.session,
            name_at(settings.CSRF_COOKIE_NAME, url): TOKEN,
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
    """Side by side, since each waits until it is sure that there is no database."""
    with ThreadPoolExecutor(len(paths)) as pool:
        return dict(zip(paths, pool.map(ask, paths), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_without_a_database_pages_say_so_and_come_again_with_it(place: Place) -> None:
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
    assert all("Look whether what you sent" in form.text for form in forms.values())
    # Nobody is asked for who is not signed in.
    assert stranger.status == 200
    assert {path: each.status for path, each in after.items()} == PAGES
    assert "Traceback" not in instance.log.read_text()


@pytest.mark.django_db
def test_a_file_that_is_no_database_counts_as_away(tmp_path: Path) -> None:
    file = tmp_path / "damaged.sqlite3"
    file.write_bytes(b"no database " * 400)
    place = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}
    connection = ConnectionHandler({"default": place})["default"]
    with pytest.raises(DatabaseError) as failure, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM memoryhub_thread")
    connection.close()
    assert refusals.lost(failure.value)


@pytest.mark.parametrize("mistake", [IntegrityError, ProgrammingError, ValueError])
def test_a_mistake_of_ours_does_not(mistake: type[Exception]) -> None:
    assert not refusals.lost(mistake())
    assert refusals.lost(OperationalError())
    assert refusals.lost(InterfaceError())
