"""Following of threads by agents' sockets: what they hear, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memoryhub.api.http import auth, limits, streams
from memoryhub.api.threads import protocol
from memoryhub.api.threads.socket import sockets
from memoryhub.models import ApiKey, Project, Subject, Thread
from memoryhub.models.server.clock import clock
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import api_keys
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import slots
from tests.api.client import Client
from tests.cast import factories
from tests.cast.sockets import (
    PATIENCE,
    AgentSocket,
    heard,
    read_end_code,
    send_until_closed,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("listening"),
]


@pytest.fixture
def agent(holder: tuple[Agent, str]) -> Agent:
    return holder[0]


async def say(agent: Agent, *contents: str, thread: str = "t-1") -> int:
    """Append messages and return the last seq."""
    new = [factories.make_slot(content) for content in contents]
    return (await slots.append(agent=agent, thread=thread, slots=new)).seq


# Following


async def test_events_come_as_a_list_has_them_and_go_on(agent: Agent, key: str) -> None:
    api = Client(key=key)
    socket = await AgentSocket(key).greet()
    await socket.follow("t-1")
    events = await heard(socket, 3)
    await say(agent, "three", "four")
    events += await heard(socket, 2)
    listed = (await api.get("/threads/t-1/events")).json["items"]
    assert events == [{"t": "event", "thread": "t-1", **item} for item in listed]
    await socket.leave()


async def test_thread_is_followed_from_where_one_was(agent: Agent, key: str) -> None:
    socket = await AgentSocket(key).greet()
    await socket.follow("t-1", after=2, content="none")
    event = await socket.hear()
    assert (event["seq"], event["sealed"], event["payload"]) == (3, True, None)
    # Beyond the head: waits for what comes after it.
    await socket.follow("t-1", after=4)
    assert await say(agent, "four", "five") == 5
    event = await socket.hear()
    assert (event["seq"], event["payload"]) == (5, {"content": "five"})
    await socket.leave()


async def test_unfollowed_thread_sends_no_events(agent: Agent, key: str) -> None:
    await say(agent, "x", thread="t-2")
    socket = await AgentSocket(key).greet()
    for name in ("t-1", "t-2"):
        await socket.follow(name, after=9)
    for name in ("t-1", "t-1", "never-followed"):
        await socket.send({"t": "unfollow", "thread": name})
    # Once it answers this, it has read what was said before.
    await socket.follow("t-2", after=1)
    assert (await socket.hear())["seq"] == 2
    await say(agent, *"abcdefgh")
    await say(agent, *"abcdefgh", thread="t-2")
    assert {each["thread"] for each in await heard(socket, 8)} == {"t-2"}
    await socket.leave()


async def test_followed_threads_take_turns(
    agent: Agent, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long history does not keep a short one waiting."""
    monkeypatch.setattr(streams, "STREAM_BATCH", 10)
    await say(agent, *map(str, range(100)))
    await say(agent, "x", thread="t-2")
    socket = await AgentSocket(key, room=1).greet()
    await socket.follow("t-1")
    await socket.follow("t-2")
    events = await heard(socket, 105)
    assert [each["seq"] for each in events if each["thread"] == "t-1"] == [
        *range(1, 104)
    ]
    places = [n for n, each in enumerate(events) if each["thread"] == "t-2"]
    assert places[-1] < 40
    await socket.leave()


async def test_large_events_come_one_by_one(agent: Agent, key: str) -> None:
    await say(agent, *(str(n) * 900_000 for n in range(6)))
    socket = await AgentSocket(key, room=1).greet()
    await socket.follow("t-1", after=3)
    texts: list[str] = []
    while len(texts) < 6:
        # Between them are the levels of messages that are too large for FULL.
        (each,) = await heard(socket, 1)
        if each["type"] == "slot.appended":
            texts.append(each["payload"]["content"][0])
    assert texts == [*"012345"]
    await socket.leave()


async def test_slow_reader_gets_no_more_of_what_is_gone(
    agent: Agent, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(agent, *"abcdef")
    slow = await AgentSocket(key, room=1).greet()
    await slow.follow("t-1")
    await heard(slow, 1)
    other = await AgentSocket(key).greet()
    await other.follow("t-1")
    await heard(other, 9)
    # Rings for both at once; that something is restricted is seen a look later.
    await say(agent, "g")
    await heard(other, 1)
    await read(lambda: Subject.objects.update(state="restricted"))
    assert (await other.hear())["t"] == "gone"
    # At most one was taken for it, one more waited to be, and one was on its way.
    seqs = []
    while (message := await slow.hear())["t"] == "event":
        seqs.append(message["seq"])
    assert message["t"] == "gone"
    assert seqs == [2, 3, 4][: len(seqs)]
    await read(lambda: Subject.objects.update(state="active"))
    await slow.leave()
    await other.leave()


async def test_stuck_reader_holds_up_nobody_and_leaves(agent: Agent, key: str) -> None:
    stuck = await AgentSocket(key, room=1).greet()
    await stuck.follow("t-1")
    other = await AgentSocket(key).greet()
    await other.follow("t-1")
    assert [each["seq"] for each in await heard(other, 3)] == [1, 2, 3]
    await stuck.leave()
    await other.leave()


async def test_idle_socket_receives_beats(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protocol.BEAT_SECONDS == 15
    monkeypatch.setattr(protocol, "BEAT_SECONDS", 0.05)
    socket = await AgentSocket(key).greet()
    assert await heard(socket, 2) == [{"t": "beat"}] * 2
    await socket.leave()


async def test_socket_follows_fifty_threads(
    agent: Agent, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MESSAGES_PER_SECOND", 100)
    for number in range(51):
        await say(agent, "x", thread=f"m-{number}")
    socket = await AgentSocket(key).greet()
    for number in range(50):
        await socket.follow(f"m-{number}", after=1)
    events = await heard(socket, 50)
    assert {each["thread"] for each in events} == {f"m-{n}" for n in range(50)}
    # One anew is not one more, and one that is left makes room.
    await socket.follow("m-0", after=1)
    await socket.send({"t": "unfollow", "thread": "m-1"})
    await socket.follow("m-50", after=1)
    assert [each["thread"] for each in await heard(socket, 2)] == ["m-0", "m-50"]
    await socket.follow("m-1", after=1)
    assert await socket.read_closing_code() == 4400
    await socket.leave()


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("erased", "subject_erased"),
        ("erasing", "subject_erased"),
        ("restricted", "subject_restricted"),
    ],
)
async def test_erased_subjects_thread_is_gone_while_followed(
    agent: Agent,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: str,
    word: str,
) -> None:
    """The thread is gone at once, or while it is followed; others go on."""
    # So that a look at two threads takes two queries.
    monkeypatch.setattr(streams, "LOOK_THREADS", 1)
    await say(agent, "x", thread="t-2")
    rows = Subject.objects.filter(threads__name="anns")
    socket = await AgentSocket(key).greet()
    await socket.follow("anns", 0)
    await socket.follow("t-2", 1)
    await heard(socket, 2)
    await read(lambda: rows.update(state=state))
    assert await socket.hear() == {"t": "gone", "thread": "anns", "code": word}
    await say(agent, "y", thread="t-2")
    assert (await socket.hear())["seq"] == 3
    assert await read_end_code(key, "anns") == word
    await read(lambda: rows.update(state="active"))
    await socket.follow("anns", 0)
    assert (await socket.hear())["type"] == "thread.created"
    await socket.leave()


async def test_wrong_thread_ends_nothing_else(agent: Agent, key: str) -> None:
    socket = await AgentSocket(key).greet()
    await socket.follow("t-1", 2)
    await socket.hear()
    for name in ("absent", "another", "absent"):
        await socket.follow(name)
        expected = {"t": "gone", "thread": name, "code": "not_found"}
        assert await socket.hear() == expected
    await say(agent, "y", thread="t-1")
    assert (await socket.hear())["thread"] == "t-1"
    await socket.leave()


async def test_thread_that_is_erased_is_gone(agent: Agent, key: str) -> None:
    rows = Thread.objects.filter(name="t-1")
    socket = await AgentSocket(key).greet()
    await socket.follow("t-1", 2)
    await socket.hear()
    await read(lambda: rows.update(status="erased"))
    expected = {"t": "gone", "thread": "t-1", "code": "thread_erased"}
    assert await socket.hear() == expected
    assert await read_end_code(key, "t-1") == "thread_erased"
    await read(lambda: rows.update(status="open"))
    await socket.leave()


async def test_bytes_count_for_the_day_of_the_key(
    agent: Agent, key: str, settings: Any
) -> None:
    await say(agent, *"abcdefgh")
    settings.KEY_BYTES_PER_DAY = 1_000
    assert (
        await send_until_closed(AgentSocket(key), {"t": "follow", "thread": "t-1"})
        == 4429
    )
    _, used = limits.account.bytes[agent.prefix]
    assert 500 < used <= 1_000


# Forced ends


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    assert protocol.CHECK_SECONDS <= 1
    assert auth.BELIEVED_SECONDS <= 1
    monkeypatch.setattr(protocol, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 0.01)


def revoke(agent: Agent) -> None:
    api_keys.revoke(ApiKey.objects.get(id=agent.key))


def expire(agent: Agent) -> None:
    ApiKey.objects.filter(id=agent.key).update(expires_at=clock.now())


@pytest.mark.parametrize("end", [revoke, expire])
@pytest.mark.parametrize("room", [0, 1])
async def test_revoked_key_closes_the_socket_with_4401(
    watchful: None, agent: Agent, key: str, end: Callable[[Agent], None], room: int
) -> None:
    """A reader that is stuck in the middle of a history is closed as well."""
    socket = await AgentSocket(key, room=room).greet()
    await socket.follow("t-1")
    await socket.hear()
    await read(end, agent)
    assert await socket.read_closing_code() == 4401
    await socket.leave()
    assert await send_until_closed(AgentSocket(key)) == 4401


async def test_key_of_an_erased_subject_closes_the_socket_with_4410(
    watchful: None, agent: Agent, acme: Project
) -> None:
    """The socket closes whatever it follows; another subject's stays open."""
    made = {}
    for user_id in ("ann", "bob"):
        subject = await read(subjects.find_or_create, acme.id, user_id)
        _, made[user_id] = await read(factories.make_key, acme, subject=subject)
    bound = await AgentSocket(made["ann"]).greet()
    twin = await AgentSocket(made["bob"]).greet()
    rows = Subject.objects.filter(subject_ref=subjects.compute_ref(acme.id, "ann"))
    await read(lambda: rows.update(state="erasing"))
    assert await bound.read_closing_code() == 4410
    await bound.leave()
    follow = {"t": "follow", "thread": "never"}
    assert await send_until_closed(AgentSocket(made["ann"]), follow) == 4410
    assert await read_end_code(made["bob"], "never") == "not_found"
    await twin.leave()


async def test_lost_scope_closes_the_socket_with_4403_at_the_next_message(
    watchful: None, agent: Agent, key: str
) -> None:
    socket = await AgentSocket(key).greet()
    rows = ApiKey.objects.filter(id=agent.key)
    await read(lambda: rows.update(scopes="memory:write"))

    async def lost() -> bool:
        found = await auth.find_holder(key)
        return found is not None and auth.READ not in found.scopes

    await until(lost)
    monitored = asyncio.create_task(socket.read_closing_code())
    while not monitored.done():
        await socket.follow("t-1", after=9)
        await asyncio.wait([monitored], timeout=0.06)
    assert monitored.result() == 4403
    await socket.leave()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            pass


async def test_old_socket_is_told_to_come_back(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protocol.LIFE_SECONDS == 3600
    monkeypatch.setattr(protocol, "LIFE_SECONDS", 0.05)
    assert await send_until_closed(AgentSocket(key)) == 1012


async def test_stopping_server_sends_all_away_to_come_back(key: str) -> None:
    socket = await AgentSocket(key).greet()
    sockets.stop()
    assert await socket.read_closing_code() == 1012
    await socket.leave()


# When it is heard


async def test_events_are_heard_of_at_once(
    agent: Agent, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doorbell wakes the socket: the next poll is an hour away."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 3_600.0)
    first, second = await AgentSocket(key).greet(), await AgentSocket(key).greet()
    for socket in (first, second):
        await socket.follow("t-1")
        await heard(socket, 3)
    await say(agent, "three")
    assert [len(await heard(each, 1)) for each in (first, second)] == [1, 1]
    # One who still follows hears on when another has left.
    await first.leave()
    await say(agent, "four")
    (event,) = await heard(second, 1)
    assert event["type"] == "slot.appended"
    await second.leave()
