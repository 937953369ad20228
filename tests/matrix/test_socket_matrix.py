"""Every socket by every kind of credential, for own and foreign threads.

The sockets are read from the sources: a socket without rows fails.
"""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
import pytest_asyncio
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from inspector import BUILD
from inspector.live import consumers
from inspector.web.cookies import build_name
from memoryhub.api.http import auth, limits
from memoryhub.api.threads import socket
from memoryhub.models import ApiKey, Membership, Project, Subject
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import api_keys, operators
from memoryhub.services.people import subjects
from tests.cast import factories
from tests.cast.sockets import ORIGIN, AgentSocket, Line, Socket, serving, sign_in
from tests.sources.files import modules, tree

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.promise("P12")]

AGENTS, BROWSERS = socket.PATH, consumers.LIVE_PATH.pattern
#: Expected outcome of a socket: accepted, a close code, or an agent's error about
#: the thread. First by credential, for the own thread; then by thread, with
#: the right credential.
ROWS: dict[str, dict[str, int | str | None]] = {
    AGENTS: {
        "right": None,
        "none": 4401,
        "other kind": 4401,
        "revoked": 4401,
        "expired": 4401,
        "wrong scope": 4403,
        "other subject": "not_found",
        "other project": "not_found",
        "thread absent": "not_found",
        "thread restricted": "subject_restricted",
        "thread erased": "subject_erased",
    },
    BROWSERS: {
        "right": None,
        "none": 4401,
        "other kind": 4401,
        "revoked": 4401,
        "expired": 4401,
        "wrong role": 4404,
        "other project": 4404,
        "thread absent": 4404,
        "thread foreign": 4404,
        "thread restricted": 4403,
        "thread erased": 4410,
    },
}
CASES = [(path, case) for path, row in ROWS.items() for case in row]
STATES = {"thread restricted": "restricted", "thread erased": "erased"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Credentials by case; threads by case, as each socket names them."""

    keys: dict[str, str]
    sessions: dict[str, str]
    threads: dict[str, tuple[str, UUID]]


@pytest.fixture
def cast(acme: Project, zeta: Project) -> Cast:
    agent, stranger = factories.make_agent(acme), factories.make_agent(zeta)
    own = factories.make_thread(agent, "t-1", user_id="ann")
    theirs = factories.make_thread(stranger, "theirs")
    named = {"own": ("t-1", own.id), "foreign": ("theirs", theirs.id)}
    return Cast(
        keys=_make_keys(acme, zeta),
        sessions=_sessions(acme, zeta),
        threads={**named, "absent": ("absent", UUID(int=1))},
    )


def _make_keys(acme: Project, zeta: Project) -> dict[str, str]:
    bob = subjects.find_or_create(acme.id, "bob")
    made = {
        "right": factories.make_key(acme),
        "revoked": factories.make_key(acme),
        "expired": factories.make_key(acme),
        "wrong scope": factories.make_key(acme, scopes=["memory:write"]),
        "other subject": factories.make_key(acme, subject=bob),
        "other project": factories.make_key(zeta),
    }
    api_keys.revoke(ApiKey.objects.get(id=made["revoked"][0].key))
    past = timezone.now() - timedelta(seconds=1)
    ApiKey.objects.filter(id=made["expired"][0].key).update(expires_at=past)
    return {case: key for case, (_, key) in made.items()}


def _sessions(acme: Project, zeta: Project) -> dict[str, str]:
    viewer, outsider = operators.add("vera"), operators.add("otto")
    operators.set_role(acme, viewer, Membership.Role.VIEWER)
    operators.set_role(zeta, outsider, Membership.Role.OWNER)
    found = {case: sign_in(viewer) for case in ("right", "revoked", "expired")}
    Session.objects.filter(session_key=found["revoked"]).delete()
    past = timezone.now() - timedelta(seconds=1)
    Session.objects.filter(session_key=found["expired"]).update(expire_date=past)
    return {**found, "wrong role": sign_in(outsider), "other project": found["right"]}


@pytest_asyncio.fixture
async def served(cast: Cast) -> AsyncIterator[None]:
    auth.forget()
    limits.account = limits.UsageAccount()
    async with serving():
        yield


def open_line(path: str, case: str, cast: Cast) -> Line:
    name = build_name(settings.SESSION_COOKIE_NAME, "127.0.0.1:8000")
    cookie = f"{name}={cast.sessions['right']}".encode()
    bearer = f"Bearer {cast.keys['right']}".encode()
    if path == AGENTS:
        if case == "other kind":
            return AgentSocket(headers=[(b"cookie", cookie)])
        key = None if case == "none" else cast.keys.get(case, cast.keys["right"])
        return AgentSocket(key)
    place = "/ws/live/zeta" if case == "other project" else "/ws/live/acme"
    if case == "other kind":
        shown = [(b"origin", ORIGIN.encode()), (b"authorization", bearer)]
        return Line(place, shown)
    if case == "none":
        return Socket(path=place)
    return Socket(cast.sessions.get(case, cast.sessions["right"]), path=place)


def build_hello(path: str, case: str, cast: Cast) -> dict[str, Any]:
    """Return the message that asks for a thread: the own one, or that of the case."""
    name, thread = cast.threads.get(case.removeprefix("thread "), cast.threads["own"])
    if path == AGENTS:
        return {"t": "follow", "thread": name, "after": 0}
    want = [{"thread": str(thread), "panels": ["head"], "seq": 0}]
    return {"t": "hello", "v": 1, "build": BUILD, "want": want}


async def read_ending(line: Line, message: dict[str, Any]) -> dict[str, Any] | None:
    """Return how the socket ends, to the byte; None if a message of the thread came."""
    await line.open()
    await line.send(message)
    while True:
        event = await line.line.receive_output(20)
        if event["type"] == "websocket.close":
            return dict(event)
        text = event["text"]
        if '"t":"gone"' in text:
            return {"code": orjson.loads(text)["code"]}
        if '"t":"event"' in text or text.startswith("<"):
            return None


@pytest.mark.parametrize(("path", "case"), CASES)
async def test_socket_ends_as_the_row_says(
    served: None, cast: Cast, path: str, case: str
) -> None:
    rows = Subject.objects.filter(threads__name="t-1")
    if state := STATES.get(case):
        await read(lambda: rows.update(state=state))
    line = open_line(path, case, cast)
    found = await read_ending(line, build_hello(path, case, cast))
    await line.leave()
    await read(lambda: rows.update(state="active"))
    assert (found and found["code"]) == ROWS[path][case]


@pytest.mark.parametrize("path", ROWS)
async def test_foreign_socket_answers_like_an_absent_one(
    served: None, cast: Cast, path: str
) -> None:
    ends = []
    for case in ("thread foreign", "thread absent"):
        line = open_line(path, "right", cast)
        ends.append(await read_ending(line, build_hello(path, case, cast)))
        await line.leave()
    assert ends[0] == ends[1] is not None


async def test_missing_and_dead_credentials_close_sockets_alike(
    served: None, cast: Cast
) -> None:
    for path, row in ROWS.items():
        ends = []
        for case in (case for case, code in row.items() if code == 4401):
            line = open_line(path, case, cast)
            ends.append(await read_ending(line, build_hello(path, case, cast)))
            await line.leave()
        assert len(ends) == 4
        assert all(end == ends[0] for end in ends)


def _addresses() -> Iterator[str]:
    """List the socket addresses in our sources."""
    for module in modules("memoryhub", "inspector"):
        for node in ast.walk(tree(module)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith("/ws/"):
                yield text


def test_socket_matrix_covers_every_socket() -> None:
    assert set(_addresses()) == {*ROWS, socket.PREFIX}
