"""Retries of the clients: dropped connections, killed servers, limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from memoryhub_client import (
    Client,
    Request,
    TooMany,
    Unreachable,
    events,
    keys,
    slots,
    threads,
)
from memoryhub_client.slots import Slot
from tests.client.conftest import Connect, Hub
from tests.client.lines import Line, dropping
from tests.harness.instances import Instance, Server
from tests.promises.conftest import MAKE_KEY

SLOT: Slot = {"from": "user", "to": "agent", "type": "chat.user", "content": "Hello"}


@pytest.fixture
def line(served: Server) -> Iterator[Line]:
    with dropping(served.port) as made:
        yield made


def test_write_whose_answer_is_lost_is_written_once(
    connect: Connect, line: Line, key: str
) -> None:
    hub = connect(line.url, key)
    line.lose = 2
    answer = hub.send(slots.append("talk", SLOT))
    assert line.opened == 3
    assert answer["index"] == 0
    (slot,) = hub.list_items(slots.list_all("talk"))
    assert slot["seq"] == answer["seq"]


def test_request_sent_again_is_the_same_write(
    connect: Connect, served: Server, key: str
) -> None:
    """A request is a value, which another process can send again."""
    append = slots.append("talk", SLOT)
    first = connect(served.url, key).send(append)
    assert connect(served.url, key).send(append) == first
    other = slots.append("talk", SLOT)
    assert connect(served.url, key).send(other)["index"] == 1


ONCE = {
    "a merge, which late would undo another's": threads.patch("talk", labels={}),
    "the first would refuse the second": keys.put("talk", "a", 1, if_none_match="*"),
}


@pytest.mark.parametrize("request_", ONCE.values(), ids=ONCE)
def test_request_that_is_not_repeatable_is_sent_once(
    connect: Connect, line: Line, key: str, request_: Request
) -> None:
    hub = connect(line.url, key)
    hub.send(threads.put("talk"))
    line.cut_lines()
    line.lose, opened = 1, line.opened
    with pytest.raises(Unreachable):
        hub.send(request_)
    assert line.opened == opened + 1


def test_repeatable_request_is_sent_again_without_an_idempotency_key(
    connect: Connect, line: Line, key: str
) -> None:
    hub = connect(line.url, key)
    line.lose = 1
    hub.send(keys.put("talk", "city", "Kraków"))
    line.cut_lines()
    line.lose = 1
    hub.send(keys.delete("talk", "city"))
    assert hub.list_items(keys.list_all("talk")) == []
    assert line.opened == 4


def test_feed_survives_dropped_connections(
    connect: Connect, served: Server, line: Line, key: str
) -> None:
    """Each event comes once, whole and in order, though connections drop within one."""
    writer, reader = connect(served.url, key), connect(line.url, key)
    # Only messages are written from here on.
    writer.send(threads.put("talk", config={"map_slots": False}))
    for number in range(30):
        content = "é" * 20_000 + str(number)
        writer.send(slots.append("talk", {**SLOT, "content": content}))
    line.carries = 500_000
    found = reader.follow(events.list_all("talk"), 31)
    assert [event["seq"] for event in found] == [*range(1, 32)]
    assert [event["payload"]["content"][20_000:] for event in found[1:]] == [
        str(number) for number in range(30)
    ]
    assert line.opened >= 3


def test_feed_waits_for_new_events(
    connect: Connect, served: Server, line: Line, key: str
) -> None:
    """A feed that is cut while idle has reconnected when the next event comes."""
    with Client(served.url, key) as writer:
        writer.send(threads.put("talk"))

        def cut_then_write() -> None:
            line.await_opened(1)
            line.cut_lines()
            line.await_opened(2)
            writer.send(slots.append("talk", SLOT))

        other = threading.Thread(target=cut_then_write)
        other.start()
        found = connect(line.url, key).follow(events.list_all("talk", after="1"), 1)
        other.join()
    assert [(each["seq"], each["payload"]["content"]) for each in found] == [
        (2, "Hello")
    ]
    assert line.opened == 2


def test_feed_outlasts_more_failures_than_a_request_is_repeated(
    connect: Connect, served: Server, line: Line, key: str
) -> None:
    with Client(served.url, key) as writer:
        writer.send(threads.put("talk"))

        def leave_then_write() -> None:
            line.await_answer()
            line.lose = 3
            line.cut_lines()
            line.await_opened(5)
            writer.send(slots.append("talk", SLOT))

        other = threading.Thread(target=leave_then_write)
        other.start()
        reader = connect(line.url, key, retries=0)
        found = reader.follow(events.list_all("talk", after="1"), 1)
        other.join()
    assert [each["seq"] for each in found] == [2]


# Servers

SLOW = {"MEMORYHUB_KEY_REQUESTS_PER_SECOND": "1", "MEMORYHUB_KEY_BURST": "1"}


@pytest.mark.slow
def test_client_waits_when_the_rate_is_exceeded(
    connect: Connect, instance: Instance
) -> None:
    key = instance.call(MAKE_KEY).strip()
    with instance.serve(**SLOW) as server:
        hub = connect(server.url, key)
        for _ in range(3):
            hub.send(slots.append("talk", SLOT))
        hasty = connect(server.url, key, longest_wait=0.5)
        with pytest.raises(TooMany) as refusal:
            send_often(hasty)
        assert (refusal.value.code, refusal.value.retry) == ("rate", 1.0)
        assert len(hub.list_items(slots.list_all("talk"))) == 3
        server.stop()


def send_often(hub: Hub) -> None:
    for _ in range(3):
        hub.send(threads.get("talk"))


@pytest.mark.slow
def test_client_waits_for_a_killed_server(connect: Connect, instance: Instance) -> None:
    """A write sent while the server is down is written once, and the feed goes on."""
    key = instance.call(MAKE_KEY).strip()
    with instance.serve() as server:
        hub = connect(server.url, key, retries=12)
        hub.send(slots.append("talk", SLOT))
        server.kill()
    sent: list[int] = []

    def append() -> None:
        with Client(server.url, key, retries=12) as other:
            sent.append(other.send(slots.append("talk", SLOT))["index"])

    appending = threading.Thread(target=append)
    appending.start()
    with instance.serve(port=server.port) as again:
        found = hub.follow(events.list_all("talk", content="none"), 3)
        appending.join()
        assert [event["seq"] for event in found] == [1, 2, 3]
        assert sent == [1]
        assert len(hub.list_items(slots.list_all("talk"))) == 2
        again.stop()
    instance.managed("verify", "--all")
