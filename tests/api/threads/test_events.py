"""The journal as agents read it: in parts, and as a stream."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson
import pytest
from django.db import connections

from memoryhub.api.http import auth, limits, streams
from memoryhub.api.threads import events
from memoryhub.models import ApiKey, Subject
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.services.access import api_keys
from tests.api.client import Client
from tests.cast import factories

pytestmark = pytest.mark.django_db


async def test_events_are_listed_in_order(api: Client) -> None:
    await api.append("t-1", "a", "b", "c")
    await api.post("/threads/t-1:close", {})
    everything = (await api.get("/threads/t-1/events")).json["items"]
    assert [item["seq"] for item in everything] == [1, 2, 3, 4, 5]
    assert everything[0]["type"] == "thread.created"
    assert everything[1]["payload"] == {"content": "a"}
    assert everything[1]["body"]["from"] == "user"
    assert everything[4]["body"] == {"reason": "completed"}
    first = (await api.get("/threads/t-1/events?limit=2")).json
    assert first["items"] == everything[:2]
    second = (await api.get(f"/threads/t-1/events?limit=9&after={first['next']}")).json
    assert second["items"] == everything[2:]
    assert second["next"] is None
    sealed = (await api.get("/threads/t-1/events?content=none&at_seq=3")).json["items"]
    assert [item["payload"] for item in sealed] == [None] * 3
    assert [item["sealed"] for item in sealed] == [False, True, True]


async def test_part_ends_at_its_bytes_and_the_next_goes_on(
    api: Client, agent: Any
) -> None:
    api.connect()
    for n in range(11):
        factories.append(agent, "t-1", str(n) * 900_000)
    seen: list[int] = []
    after: str | None = "0"
    while after is not None:
        target = f"/threads/t-1/events?limit=200&after={after}"
        answer = await api.get(target)
        assert len(answer.body) < PART_BYTES + 100_000
        seen += [item["seq"] for item in answer.json["items"]]
        after = answer.json["next"]
    # The thread, and of each message its lower levels too: it is too large for FULL.
    assert seen == list(range(1, factories.get_thread(agent).head_seq + 1))
    light = (await api.get("/threads/t-1/events?limit=200&content=none")).json
    assert (len(light["items"]), light["next"]) == (len(seen), None)


# Streams: with the real writer and readers, on connections of their own


async def _read_event(
    stream: asyncio.Queue[dict[str, Any]],
) -> tuple[int, dict[str, Any]]:
    """Return the id and data of the next event."""
    while True:
        message = await asyncio.wait_for(stream.get(), 10)
        text: bytes = message.get("body", b"")
        if text.startswith(b"id: "):
            first, _, data = text.strip().split(b"\n")
            return int(first[4:]), orjson.loads(data.removeprefix(b"data: "))


@pytest.mark.django_db(transaction=True)
async def test_stream_follows_and_resumes(served: tuple[Client, str]) -> None:
    api, _ = served
    await api.append("t-1", "a")
    async with api.stream("/threads/t-1/events") as stream:
        start = await asyncio.wait_for(stream.get(), 10)
        assert start["status"] == 200
        assert (b"Content-Type", b"text/event-stream") in start["headers"]
        assert (b"X-Accel-Buffering", b"no") in start["headers"]
        assert [(await _read_event(stream))[0] for _ in range(2)] == [1, 2]
        await api.append("t-1", "b")
        seq, data = await _read_event(stream)
        assert (seq, data["payload"]) == (3, {"content": "b"})
    await api.append("t-1", "c")
    resumed = [("last-event-id", "3")]
    async with api.stream("/threads/t-1/events", headers=resumed) as stream:
        seq, data = await _read_event(stream)
        assert (seq, data["payload"]) == (4, {"content": "c"})


@pytest.mark.django_db(transaction=True)
async def test_stream_from_beyond_the_head_waits_for_what_comes_after(
    served: tuple[Client, str],
) -> None:
    """To the stream, an id of another thread is a mere number."""
    api, _ = served
    await api.append("t-1", "a")
    beyond = [("last-event-id", "3")]
    async with api.stream("/threads/t-1/events", headers=beyond) as stream:
        await api.append("t-1", "b", "c")
        seq, data = await _read_event(stream)
        assert (seq, data["payload"]) == (4, {"content": "c"})


@pytest.mark.django_db(transaction=True)
async def test_stream_ends_with_its_key(
    served: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, prefix = served
    assert events.RECHECK_SECONDS <= 5
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 0.01)
    await api.append("t-1", "a")
    async with api.stream("/threads/t-1/events") as stream:
        await _read_event(stream)
        await asyncio.to_thread(_revoke, prefix)
        # The last message of an answer is the one after which nothing comes.
        while "more_body" in await asyncio.wait_for(stream.get(), 10):
            pass
    assert limits.account.streams[prefix] == 0


@pytest.mark.django_db(transaction=True)
async def test_stream_reads_on_once_all_was_taken_and_under_the_subject_of_then(
    served: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = served
    monkeypatch.setattr(streams, "STREAM_BATCH", 2)
    await api.append("t-1", *"abcdef")
    async with api.stream("/threads/t-1/events", room=1) as stream:
        assert (await _read_event(stream))[0] == 1
        # The second event lies ready and is not taken; there is time to read ahead.
        for _ in range(5):
            assert (await api.get("/threads/t-1")).status == 200
        await asyncio.to_thread(_restrict)
        rest = b""
        more = True
        while more:
            message = await asyncio.wait_for(stream.get(), 10)
            rest += message.get("body", b"")
            more = message.get("more_body", False)
    assert (rest.count(b"id: "), rest[:6]) == (1, b"id: 2\n")


@pytest.mark.django_db(transaction=True)
async def test_stream_of_large_events_sends_all_of_them(
    served: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = served
    # Longer than we wait for a message: it goes on by itself.
    monkeypatch.setattr(events, "RECHECK_SECONDS", 60)
    await api.append("t-1", *(str(n) * 900_000 for n in range(10)))
    async with api.stream("/threads/t-1/events") as stream:
        sent = b""
        while sent.count(b"\n\n") < 1 + 11:
            sent += (await asyncio.wait_for(stream.get(), 10)).get("body", b"")
    found = re.findall(rb"^id: (\d+)$", sent, re.MULTILINE)
    assert [*map(int, found)] == list(range(1, 12))


def _restrict() -> None:
    Subject.objects.update(state="restricted")
    connections.close_all()


def _revoke(prefix: str) -> None:
    api_keys.revoke(ApiKey.objects.get(prefix=prefix))
    connections.close_all()


@pytest.mark.django_db(transaction=True)
async def test_idle_stream_says_that_it_is_there(
    served: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = served
    assert events.HEARTBEAT_SECONDS == 15
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.05)
    await api.append("t-1", "a")
    async with api.stream("/threads/t-1/events?after=2") as stream:
        message: dict[str, Any] = {}
        while message.get("body") != b": here\n\n":
            message = await asyncio.wait_for(stream.get(), 10)


@pytest.mark.django_db(transaction=True)
async def test_key_has_no_more_streams_than_it_may(
    served: tuple[Client, str], settings: Any
) -> None:
    api, prefix = served
    settings.KEY_STREAMS = 1
    await api.append("t-1", "a")
    accept = [("accept", "text/event-stream")]
    async with api.stream("/threads/t-1/events") as stream:
        await _read_event(stream)
        refused = await api.get("/threads/t-1/events", headers=accept)
        assert (refused.status, refused.code) == (429, "rate")
    assert limits.account.streams[prefix] == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("target", "headers", "code"),
    [
        ("/threads/absent/events", (), "not_found"),
        ("/threads/t-1/events?after=x", (), "bad_cursor"),
        ("/threads/t-1/events?at_seq=1", (), "value"),
        ("/threads/t-1/events?at_turn=0", (), "value"),
        ("/threads/t-1/events", (("last-event-id", "x"),), "bad_cursor"),
        ("/threads/t-1/events", (("last-event-id", "-1"),), "bad_cursor"),
    ],
)
async def test_stream_is_refused_like_a_list(
    served: tuple[Client, str], target: str, headers: tuple[tuple[str, str]], code: str
) -> None:
    api, _ = served
    await api.append("t-1", "a")
    accept = [("accept", "text/event-stream"), *headers]
    assert (await api.get(target, headers=accept)).code == code
