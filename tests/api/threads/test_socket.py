"""Agents' sockets: who gets in, what is followed, and by which code one ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from memoryhub.api.http import auth
from memoryhub.api.threads import protocol
from memoryhub.models import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client
from tests.cast import factories
from tests.cast.sockets import PATIENCE, AgentSocket, read_end_code, send_until_closed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("listening"),
]

HEADER_CASES = ["Basic YTpi", "Bearer", "Bearer mh_live_x", "mh_live_x", ""]
CANARY = "canary-5d1c"


@pytest.fixture
def agent(holder: tuple[Agent, str]) -> Agent:
    return holder[0]


def following(thread: str) -> dict[str, str]:
    return {"t": "follow", "thread": thread}


# Admission


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"origin", b"null")],
        [(b"origin", b"http://evil.example")],
        [(b"cookie", b"mh_session=x; mh_csrf=y")],
    ],
)
async def test_key_in_the_handshake_is_enough(
    key: str, headers: list[tuple[bytes, bytes]]
) -> None:
    socket = await AgentSocket(key, headers=headers).greet()
    await socket.leave()


async def test_key_may_be_the_first_message(key: str) -> None:
    socket = await AgentSocket().greet(key=key)
    await socket.follow("t-1", 2)
    assert (await socket.hear())["seq"] == 3
    await socket.leave()


async def test_person_of_the_handshake_confines_the_socket(key: str) -> None:
    person = [(auth.PERSON_HEADER_LOWER, b"ann")]
    socket = await AgentSocket(key, headers=person).greet()
    await socket.send(following("t-1"))
    assert (await socket.hear())["code"] == "not_found"
    await socket.follow("anns", 0)
    assert (await socket.hear())["thread"] == "anns"
    await socket.leave()


async def test_person_that_is_no_user_id_is_4400(key: str) -> None:
    blank = [(auth.PERSON_HEADER_LOWER, b"")]
    assert await send_until_closed(AgentSocket(key, headers=blank)) == 4400


@pytest.mark.parametrize("header", HEADER_CASES)
async def test_header_without_a_valid_key_is_4401(header: str) -> None:
    headers = [(b"authorization", header.encode())]
    assert await send_until_closed(AgentSocket(headers=headers)) == 4401


async def test_socket_with_two_keys_is_4401(key: str) -> None:
    twice = [(b"authorization", f"Bearer {key}".encode())]
    assert await send_until_closed(AgentSocket(key, headers=twice)) == 4401


@pytest.mark.parametrize(
    "message",
    [
        b"\x00",
        "not json",
        "[" * 33 + "]" * 33,
        {"t": "hello"},
        {"t": "hello", "key": ""},
        {"t": "hello", "key": "mh_live_x"},
        {"t": "hello", "key": "x" * 300},
        {"t": "hello", "key": None},
        {"t": "follow", "thread": "t-1", "after": 0},
    ],
)
async def test_bad_first_message_is_4401(message: Any) -> None:
    assert await send_until_closed(AgentSocket(), message) == 4401


async def test_hello_with_more_in_it_is_4401(key: str) -> None:
    assert (
        await send_until_closed(AgentSocket(), {"t": "hello", "key": key, "v": 1})
        == 4401
    )


async def test_key_in_the_address_is_4401_and_not_logged(key: str) -> None:
    with structlog.testing.capture_logs() as logs:
        for query in (f"key={key}", key.replace("_", "%5F")):
            assert await send_until_closed(AgentSocket(query=query.encode())) == 4401
            assert (
                await send_until_closed(AgentSocket(key, query=query.encode())) == 4401
            )
    assert [line["code"] for line in logs] == [4401] * 4
    assert key[-20:] not in str(logs)


async def test_socket_with_a_query_string_is_4400(key: str) -> None:
    assert await send_until_closed(AgentSocket(key, query=b"after=1")) == 4400


async def test_foreign_host_is_4400(key: str) -> None:
    socket = AgentSocket(key)
    socket.line.scope["headers"][0] = (b"host", b"evil.example")
    assert await send_until_closed(socket) == 4400


async def test_silent_socket_is_4408(monkeypatch: pytest.MonkeyPatch) -> None:
    assert protocol.HELLO_SECONDS == 5
    monkeypatch.setattr(protocol, "HELLO_SECONDS", 0.05)
    assert await send_until_closed(AgentSocket()) == 4408


@pytest.mark.parametrize("path", ["/ws/v1/", "/ws/v1/agent/", "/ws/v1/agents"])
async def test_unknown_path_is_4404(key: str, path: str) -> None:
    assert await send_until_closed(AgentSocket(key, path=path)) == 4404


async def test_mistake_of_ours_is_1011_and_logged(key: str) -> None:
    socket = AgentSocket(key)
    socket.line.scope.pop("headers")
    with structlog.testing.capture_logs() as logs:
        assert await send_until_closed(socket) == 1011
    assert [line["event"] for line in logs] == ["socket.failed"]


async def test_socket_is_refused_while_the_clock_is_off(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "skew_ns", 10**10)
    assert await send_until_closed(AgentSocket(key)) == 1013


# Limits


async def test_address_has_few_sockets_without_a_key(key: str, settings: Any) -> None:
    settings.ANONYMOUS_REQUESTS_PER_SECOND = 2
    waiting = [AgentSocket() for _ in range(2)]
    for socket in waiting:
        await socket.open()
    assert await send_until_closed(AgentSocket()) == 4429
    assert await send_until_closed(AgentSocket(client="10.0.0.1"), "?") == 4401
    await (await AgentSocket(key).greet()).leave()
    for socket in waiting:
        await socket.leave()


async def test_socket_with_guessed_keys_is_4429(settings: Any) -> None:
    settings.ANONYMOUS_REQUESTS_PER_SECOND = 1
    codes = {await send_until_closed(AgentSocket("mh_live_guess")) for _ in range(3)}
    assert codes == {4401, 4429}


async def test_key_has_fifty_sockets_and_streams(acme: Project, key: str) -> None:
    """Sockets and streams count together: the 51st is refused, whichever it is."""
    other = await read(lambda: factories.make_key(acme)[1])
    opened = [await AgentSocket(key).greet() for _ in range(49)]
    api, accept = Client(key=key), [("accept", "text/event-stream")]
    async with api.stream("/threads/t-1/events") as stream:
        assert (await asyncio.wait_for(stream.get(), PATIENCE))["status"] == 200
        assert await send_until_closed(AgentSocket(key)) == 4429
        answer = await api.get("/threads/t-1/events", headers=accept)
        assert (answer.status, answer.code) == (429, "rate")
        opened.append(await AgentSocket(other).greet())
    opened.append(await AgentSocket(key).greet())
    for socket in opened:
        await socket.leave()


async def test_full_process_says_try_later(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protocol.MAX_SOCKETS == 1000
    monkeypatch.setattr(protocol, "MAX_SOCKETS", 1)
    first = await AgentSocket(key).greet()
    assert await send_until_closed(AgentSocket(key)) == 1013
    await first.leave()
    await (await AgentSocket(key).greet()).leave()


async def test_21_messages_in_a_second_are_4429(key: str) -> None:
    assert protocol.MESSAGES_PER_SECOND == 20
    messages = [{"t": "unfollow", "thread": "t-1"}] * 21
    assert await send_until_closed(AgentSocket(key), *messages) == 4429


async def test_message_beyond_64_kib_is_1009(key: str) -> None:
    fits = {"t": "follow", "thread": "t-1", "pad": ""}
    room = protocol.MESSAGE_BYTES - len('{"t":"follow","thread":"t-1","pad":""}')
    assert await send_until_closed(AgentSocket(key), fits | {"pad": "x" * room}) == 4400
    assert (
        await send_until_closed(AgentSocket(key), fits | {"pad": "x" * (room + 1)})
        == 1009
    )
    assert (
        await send_until_closed(AgentSocket(), "x" * (protocol.MESSAGE_BYTES + 1))
        == 1009
    )


# Refusals


@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x01",
        "",
        "not json",
        '{"t":"follow","thread":"t-1","thread":"t-1"}',
        '{"t":"follow","thread":"\\ud800"}',
        "\ud800",
        "[" * 33 + "]" * 33,
        {"t": "shout"},
        {"thread": "t-1"},
        ["follow", "t-1"],
        {"t": "follow"},
        {"t": "follow", "thread": ""},
        {"t": "follow", "thread": "mh.x"},
        {"t": "follow", "thread": "a/b"},
        {"t": "follow", "thread": 1},
        {"t": "follow", "thread": "t-1", "after": -1},
        {"t": "follow", "thread": "t-1", "after": "1"},
        {"t": "follow", "thread": "t-1", "after": 1.0},
        {"t": "follow", "thread": "t-1", "after": True},
        '{"t":"follow","thread":"t-1","after":9223372036854775808}',
        {"t": "follow", "thread": "t-1", "content": "some"},
        {"t": "follow", "thread": "t-1", "also": 1},
        {"t": "unfollow", "thread": "t-1", "after": 1},
        {"t": "hello", "key": "again"},
    ],
)
async def test_malformed_socket_message_is_4400(key: str, message: Any) -> None:
    assert await send_until_closed(AgentSocket(key), message) == 4400


async def test_socket_messages_are_never_logged(agent: Agent, key: str) -> None:
    messages = [
        "x" + CANARY,
        following(CANARY),
        following(CANARY + "/"),
        {"t": CANARY},
        {"t": "hello", "key": CANARY},
    ]
    with structlog.testing.capture_logs() as logs:
        for message in messages:
            await send_until_closed(AgentSocket(), message)
            if message != following(CANARY):
                await send_until_closed(AgentSocket(key), message)
        await read_end_code(key, CANARY)
        await send_until_closed(AgentSocket(key, query=CANARY.encode()))
        await send_until_closed(AgentSocket(CANARY))
    # A client that hears that a thread is gone goes on.
    assert len(logs) == 11
    assert CANARY not in str(logs)
    assert agent.prefix not in str(logs)
