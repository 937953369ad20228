from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from inspector import BUILD
from inspector.access import access
from inspector.live import hub as hubs
from inspector.live import protocol, standing
from inspector.live.hub import hub
from inspector.live.standing import SocketBadge
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.cast.sockets import (
    ORIGIN,
    Socket,
    restart_hub,
    send_until_closed,
    serving,
    sign_in,
)

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = ["head"]


@pytest.fixture
def foreign(stranger: Agent) -> Thread:
    return factories.make_thread(stranger)


def hello(thread: UUID, *panels: str, **fields: object) -> dict[str, object]:
    want = [{"thread": str(thread), "panels": list(panels or HEAD), "seq": 0}]
    return {"t": "hello", "v": 1, "build": BUILD, "want": want} | fields


async def open_socket(session: str, thread: UUID) -> Socket:
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread: (0, HEAD)})
    return socket


# Access


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        (ORIGIN, True),
        ("http://127.0.0.1:8001", False),
        ("https://127.0.0.1:8000", False),
        ("http://memory.example:8000", False),
        ("null", False),
        (None, False),
    ],
)
async def test_socket_is_refused_from_a_foreign_origin(
    served: None, session: str, origin: str | None, *, admitted: bool
) -> None:
    """Only a page of our origin opens sockets; others are refused before accepting."""
    socket = Socket(session, origin=origin)
    answer = await socket.open()
    kind = "websocket.accept" if admitted else "websocket.close"
    assert answer["type"] == kind
    await socket.leave()


@pytest.mark.parametrize(
    "path", ["/", "/ws", "/ws/live/", "/ws/live/acme/", "/ws/live/a/b", "/ws/live/A"]
)
async def test_socket_of_an_unknown_path_closes_with_4404(
    served: None, session: str, path: str
) -> None:
    assert await send_until_closed(Socket(session, path=path)) == 4404


async def test_socket_without_a_session_closes_with_4401(served: None) -> None:
    assert await send_until_closed(Socket()) == 4401
    assert await send_until_closed(Socket("x" * 32)) == 4401


async def test_socket_of_a_foreign_project_closes_like_an_absent_one(
    zeta: Project, served: None, session: str
) -> None:
    assert await send_until_closed(Socket(session, path="/ws/live/zeta")) == 4404
    assert await send_until_closed(Socket(session, path="/ws/live/no-such")) == 4404


async def test_idle_session_opens_no_socket(served: None, session: str) -> None:
    def idle() -> None:
        store = SessionStore(session)
        long_ago = timezone.now() - timedelta(hours=9)
        store[access.SEEN] = long_ago.isoformat()
        store.save()

    await read(idle)
    assert await send_until_closed(Socket(session)) == 4401


async def test_powerful_operators_session_idles_shorter_off_loopback(
    served: None, session: str, settings: Settings
) -> None:
    """A proxy on the machine makes no request near: the host asked for counts too."""
    settings.ALLOWED_HOSTS = ["127.0.0.1", "m.example"]

    def idle() -> None:
        store = SessionStore(session)
        late = timezone.now() - timedelta(minutes=31)
        store.update({access.SEEN: late.isoformat(), access.POWERFUL: True})
        store.save()

    await read(idle)
    for away in (
        Socket(session, client="192.0.2.7"),
        Socket(session, host="m.example", origin="http://m.example"),
    ):
        assert await send_until_closed(away) == 4401
    near = Socket(session)
    await near.open()
    assert await near.hello({})
    await near.leave()


# Refused messages


@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x01",
        "not json",
        '{"t":"shout"}',
        '{"t":"ack","n":1,"also":2}',
        '{"t":"ack","n":"1"}',
        '{"t":"ack","n":-1}',
        "[" * 33 + "]" * 33,
        '{"t":"hello","v":2,"build":"1","want":[]}',
    ],
)
async def test_invalid_socket_message_closes_with_4400(
    served: None, session: str, message: str | bytes
) -> None:
    assert await send_until_closed(Socket(session), message) == 4400


async def test_socket_closes_with_the_code_of_the_exceeded_limit(
    served: None, session: str, thread: Thread
) -> None:
    """Each limit ends a socket by its own code."""
    wants = [{"thread": str(uuid4()), "panels": HEAD, "seq": 0} for _ in range(51)]
    ends = {
        1009: [hello(thread.id, build="x" * 16_400)],
        4400: [hello(thread.id, want=wants)],
        4404: [hello(uuid4())],
        4429: [hello(thread.id), *[{"t": "ack", "n": 9}] * 20],
    }
    for code, messages in ends.items():
        assert await send_until_closed(Socket(session), *messages) == code
    long = {"t": "ack", "n": 1, "pad": "x" * 1100}
    assert await send_until_closed(Socket(session), long) == 1009
    assert (
        await send_until_closed(Socket(session), hello(thread.id, *["head"] * 13))
        == 4400
    )
    assert await send_until_closed(Socket(session), hello(thread.id, "shell")) == 4400


async def test_socket_does_not_find_a_thread_of_another_project(
    foreign: Thread, served: None, session: str
) -> None:
    assert await send_until_closed(Socket(session), hello(foreign.id)) == 4404


async def test_socket_of_an_erased_thread_closes_with_4410(
    served: None, session: str, thread: Thread
) -> None:
    def erase() -> None:
        Subject.objects.filter(id=thread.subject_id).update(state="erased")

    def restore_subject() -> None:
        Subject.objects.filter(id=thread.subject_id).update(state="active")

    await read(erase)
    code = await send_until_closed(Socket(session), hello(thread.id))
    await read(restore_subject)
    assert code == 4410


async def test_silent_socket_closes_with_4408(
    served: None, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HELLO_SECONDS", 0.05)
    assert await send_until_closed(Socket(session)) == 4408


async def test_old_socket_is_told_to_reconnect(
    served: None, session: str, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "LIFE_SECONDS", 0.05)
    assert await send_until_closed(Socket(session), hello(thread.id)) == 1012


async def test_full_process_tells_sockets_to_try_later(
    served: None, session: str, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MAX_SOCKETS", 1)
    first = await open_socket(session, thread.id)
    assert await send_until_closed(Socket(session)) == 1013
    await first.leave()
    second = await open_socket(session, thread.id)
    await second.leave()


async def test_session_has_at_most_fifty_sockets(
    served: None, session: str, operator: Operator, thread: Thread
) -> None:
    sockets = [await open_socket(session, thread.id) for _ in range(50)]
    assert await send_until_closed(Socket(session)) == 4429
    elsewhere = await read(lambda: sign_in(operator))
    another = await open_socket(elsewhere, thread.id)
    for socket in [*sockets, another]:
        await socket.leave()
    assert hub.audience.viewers == set()


# Sockets that are closed


async def test_sign_out_closes_sockets(
    served: None, session: str, thread: Thread
) -> None:
    socket = await open_socket(session, thread.id)
    await read(Session.objects.filter(session_key=session).delete)
    await hub.check()
    assert await socket.read_closing_code() == 4401
    await socket.leave()


async def test_password_change_closes_open_sockets(
    served: None, session: str, operator: Operator, thread: Thread
) -> None:
    socket = await open_socket(session, thread.id)

    def change() -> None:
        operators.set_password(operator, "correct horse battery staple")

    await read(change)
    await hub.check()
    assert await socket.read_closing_code() == 4401
    await socket.leave()


async def test_socket_closes_with_4403_when_the_role_is_lost(
    served: None, session: str, operator: Operator, acme: Project, thread: Thread
) -> None:
    socket = await open_socket(session, thread.id)
    # The test deletes the row; the service would end the sessions as well.
    await read(lambda: Membership.objects.filter(operator=operator).delete())
    await hub.check()
    assert await socket.read_closing_code() == 4403
    await socket.leave()


async def test_sockets_are_checked_without_a_message(
    served: None, session: str, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "CHECK_SECONDS", 0.01)
    await restart_hub()
    socket = await open_socket(session, thread.id)
    await read(Session.objects.filter(session_key=session).delete)
    assert await socket.read_closing_code() == 4401
    await socket.leave()


async def test_all_sockets_are_checked_by_one_query(
    served: None, operator: Operator, thread: Thread
) -> None:
    def count_queries(badges: set[SocketBadge]) -> int:
        with CaptureQueriesContext(connection) as queries:
            found = standing.list_rights(badges)
        assert {each.close for each in found.values()} == {None}
        return len(queries)

    keys = [await read(sign_in, operator) for _ in range(3)]
    sockets = [await open_socket(key, thread.id) for key in keys]
    badges = {viewer.badge for viewer in hub.audience.viewers}
    assert len(badges) == 3
    assert await read(count_queries, set(list(badges)[:1])) == 1
    assert await read(count_queries, badges) == 1
    for socket in sockets:
        await socket.leave()


async def test_socket_of_a_disabled_operator_closes_with_4401(
    served: None, session: str, operator: Operator, thread: Thread
) -> None:
    boss = await read(lambda: operators.add("otto"))
    project = await read(lambda: Project.objects.get(slug="acme"))
    await read(lambda: operators.set_role(project, boss, Membership.Role.VIEWER))
    badge = await read(lambda: sign_in(boss))
    hers, his = (
        await open_socket(session, thread.id),
        await open_socket(badge, thread.id),
    )
    await read(lambda: operators.disable(operator))
    await hub.look()
    assert await hers.read_closing_code() == 4401
    await hers.leave()
    assert [each.badge.operator for each in hub.audience.viewers] == [boss.id]
    await his.leave()


async def test_socket_of_a_restricted_subject_closes_except_for_officers(
    served: None, session: str, operator: Operator, acme: Project, thread: Thread
) -> None:
    boss = await read(lambda: operators.add("otto"))
    await read(lambda: operators.set_role(acme, boss, Membership.Role.OFFICER))
    badge = await read(lambda: sign_in(boss))
    viewer = await open_socket(session, thread.id)
    officer = await open_socket(badge, thread.id)
    rows = Subject.objects.filter(id=thread.subject_id)
    await read(lambda: rows.update(state="restricted"))
    await hub.look()
    assert await viewer.read_closing_code() == 4403
    await viewer.leave()
    assert {each.standing.officer for each in hub.audience.viewers} == {True}
    await officer.leave()
    await read(lambda: rows.update(state="active"))


async def test_erased_thread_leaves_the_open_page(
    served: None, session: str, thread: Thread
) -> None:
    socket = await open_socket(session, thread.id)
    rows = Subject.objects.filter(id=thread.subject_id)
    await read(lambda: rows.update(state="erasing"))
    await hub.look()
    gone = await socket.control("gone")
    assert gone == {"t": "gone", "thread": str(thread.id), "code": "subject_erased"}
    assert hub.audience.watches[thread.id].panels == {}
    await socket.leave()
    await read(lambda: rows.update(state="active"))


async def test_stopping_server_tells_sockets_to_reconnect(
    thread: Thread, session: str
) -> None:
    async with serving():
        socket = await open_socket(session, thread.id)
    assert await socket.read_closing_code() == 1012
    await socket.leave()
