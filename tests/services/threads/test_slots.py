from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.errors import (
    IdempotencyMismatchError,
    NotFoundError,
    QueueFullError,
    SealBrokenError,
    ThreadFullError,
    TokensRequiredError,
    UnavailableError,
)
from memoryhub.journal import KeyedRequest, texts, writer
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.commands import HandlerContext, NewSlot
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.models.events import Event, RequestKey
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from memoryhub.workers import sweeping
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_slot,
    make_thread,
    run,
)

pytestmark = pytest.mark.django_db

INTEGERS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | DOUBLES | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner),
    max_leaves=12,
)


def open_payload(
    agent: Agent, thread: str = "t-1", *, index: int = 0
) -> dict[str, Any]:
    row = get_thread(agent, thread)
    seq = row.slots.get(index=index).seq
    opened = texts.open_contents(row.subject, row.project_id, row.id, [seq])
    return opened[seq]


@dataclass(slots=True)
class Times:
    """A clock that shows the time it was set to."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


def append_one(
    agent: Agent, slot: NewSlot, *, request: KeyedRequest | None = None
) -> Any:
    order = slots.append(agent=agent, thread="t-1", slots=[slot], request=request)
    return run(order)


def is_same_json(one: object, other: object) -> bool:
    """Return whether values are equal in kind, sign of zero and order of keys."""
    return json.dumps(one) == json.dumps(other)


@settings(max_examples=200)
@given(value=VALUES)
def test_content_may_be_any_json_value(agent: Agent, value: object) -> None:
    receipt = append(agent, "t-1", value)
    index = receipt.get_event(SlotAppended).index
    assert is_same_json(open_payload(agent, index=index)["content"], value)


def test_number_in_content_keeps_its_kind(agent: Agent) -> None:
    append(agent, "t-1", [1, 1.0, -0.0, True, 2**63 - 1, -(2**63), 1e300, 5e-324])
    assert json.dumps(open_payload(agent)["content"]) == (
        "[1, 1.0, -0.0, true, 9223372036854775807, -9223372036854775808, 1e+300, "
        "5e-324]"
    )


def test_content_is_kept_as_it_was_sent(agent: Agent) -> None:
    sent = '{"b":1,"a":"ä\\u0000","c":[],"":null}'.encode()
    append_one(agent, replace(make_slot(), content=sent))
    content = open_payload(agent)["content"]
    assert list(content) == ["b", "a", "c", ""]
    assert content["a"] == "ä\x00"


def test_content_stands_in_no_clear_column(agent: Agent) -> None:
    append(agent, "t-1", "the secret of content " * 20)
    for row in Event.objects.values():
        assert b"secret" not in repr(row).encode()
    assert b"secret" not in bytes(Event.objects.get(seq=2).payload or b"")


def test_slot_row_says_all_but_the_content(agent: Agent) -> None:
    slot = make_slot(
        {"n": 1},
        from_name="router",
        to_name="tool:search",
        type="airline.agent.Refund",
        role="tool",
        tokens=17,
        agent_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    append_one(agent, slot)
    row = get_thread(agent).slots.get()
    assert (row.index, row.seq, row.turn, row.erased) == (0, 2, 0, False)
    assert (row.from_name, row.to_name) == ("router", "tool:search")
    assert (row.type, row.role) == ("airline.agent.Refund", "tool")
    assert (row.tokens, row.bytes) == (17, 64)


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("chat.user", "user"),
        ("chat.assistant", "assistant"),
        ("chat.tool", "tool"),
        ("chat.system", "system"),
        ("chat.other", None),
        ("Chat.user", None),
        ("my.chat.user", None),
    ],
)
def test_role_follows_from_a_chat_type(
    agent: Agent, kind: str, role: str | None
) -> None:
    append_one(agent, make_slot(type=kind))
    append_one(agent, make_slot(type=kind, role="system"))
    rows = get_thread(agent).slots.order_by("index")
    assert [row.role for row in rows] == [role, "system"]


def test_types_of_equal_class_name_differ_by_package(agent: Agent) -> None:
    append_one(agent, make_slot(type="airline.Message"))
    append_one(agent, make_slot(type="hotel.Message"))
    for package in ("airline", "hotel"):
        assert Slot.objects.filter(type=f"{package}.Message").count() == 1


def test_handlers_texts_are_sealed_with_the_content(agent: Agent) -> None:
    handler = HandlerContext(
        own_name="user", usage_instructions="call me", todo_nudge="a todo"
    )
    append_one(agent, make_slot("hello", handler=handler))
    assert open_payload(agent) == {
        "content": "hello",
        "usage_instructions": "call me",
        "todo_nudge": "a todo",
        "is_self_call": True,
    }
    body = json.loads(Event.objects.get(seq=2).body)
    assert body["own_name"] == "user"
    assert "is_self_call" not in body
    assert "call me" not in str(body)


def test_routed_message_is_one_slot(agent: Agent) -> None:
    """Record a message at sending and at delivery, which alone knows the handler."""
    request = KeyedRequest(
        key="m-1", fingerprint=b"POST slots: the body without handler"
    )
    sent = append_one(agent, make_slot("hello"), request=request)
    handler = HandlerContext(own_name="bob", usage_instructions="as bob")
    delivered = append_one(agent, make_slot("hello", handler=handler), request=request)
    assert delivered.replayed
    assert (delivered.seq, delivered.events) == (sent.seq, sent.events)
    assert open_payload(agent) == {"content": "hello"}
    assert Slot.objects.count() == 1


def test_idempotency_key_belongs_to_a_project_and_one_request(
    agent: Agent, stranger: Agent
) -> None:
    request = KeyedRequest(key="m-1", fingerprint=b"one")
    append(agent, "t-1", "a", request=request)
    append(stranger, "t-1", "a", request=request)
    assert get_thread(stranger).slot_count == 1
    with pytest.raises(IdempotencyMismatchError):
        append(agent, "t-1", "b", request=replace(request, fingerprint=b"two"))
    for row in RequestKey.objects.all():
        assert b"m-1" not in bytes(row.digest) + bytes(row.request)


@pytest.mark.promise("P6", load="a key that is a day old")
@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("body", [b"one", b"two"], ids=["alike", "another"])
def test_idempotency_key_expires_after_a_day(
    agent: Agent, *, body: bytes, swept: bool
) -> None:
    """Honour the key to its last instant; afterwards the key counts as never sent."""
    began = datetime(2026, 1, 1, 12, tzinfo=UTC)
    times = Times(began)
    writer.journal = BatchCommitter(clock=times)
    request = KeyedRequest(key="m-1", fingerprint=b"one")
    first = append(agent, "t-1", "a", request=request)
    times.now = began + timedelta(hours=24) - timedelta(microseconds=1)
    assert append(agent, "t-1", "a", request=request).seq == first.seq
    times.now = began + timedelta(hours=24)
    if swept:
        assert sweeping.delete_request_keys(times.now + timedelta(microseconds=1)) == 1
    fresh = replace(request, fingerprint=body)
    again = append(agent, "t-1", "b", request=fresh)
    assert (again.replayed, again.seq) == (False, first.seq + 1)
    # From here on the key is the second request's, for another day.
    times.now = began + timedelta(hours=47)
    assert append(agent, "t-1", "b", request=fresh).replayed
    assert get_thread(agent).slot_count == 2
    assert RequestKey.objects.count() == 1


def test_refused_request_can_be_sent_again(agent: Agent) -> None:
    make_thread(agent, max_slots=1)
    append(agent, "t-1", "a")
    request = KeyedRequest(key="m-1", fingerprint=b"one")
    with pytest.raises(ThreadFullError):
        append(agent, "t-1", "b", request=request)
    assert not RequestKey.objects.exists()
    append(agent, "t-2", "b", request=request)


def test_slot_batch_is_all_or_nothing(agent: Agent) -> None:
    make_thread(agent, max_slots=200)
    receipt = append(agent, "t-1", *range(200))
    assert [event.index for event in receipt.list_events(SlotAppended)] == list(
        range(200)
    )
    with pytest.raises(ThreadFullError):
        append(agent, "t-1", "one more")
    make_thread(agent, "t-2", max_slots=3)
    append(agent, "t-2", "a")
    with pytest.raises(ThreadFullError):
        append(agent, "t-2", "b", "c", "d")
    assert get_thread(agent, "t-2").slot_count == 1


def test_reader_of_another_project_finds_nothing(agent: Agent, stranger: Agent) -> None:
    strict = replace(stranger, create_on_write=False)
    append(agent, "t-1", "a")
    with pytest.raises(NotFoundError):
        append(strict, "t-1", "b")
    assert get_thread(agent).slot_count == 1


def test_payload_of_another_event_does_not_open(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    append(agent, "t-2", "a")
    row = get_thread(agent)
    here, there = (
        Event.objects.get(thread=row, seq=2),
        get_thread(agent, "t-2").events.get(seq=2),
    )
    opened = texts.open_payload(row.subject, row.project_id, here)
    assert opened == {"content": "a"}
    for moved in ({"seq": 3}, {"thread_id": there.thread_id}):
        stray = Event(
            **{"thread_id": row.id, "seq": 2, "payload": here.payload, **moved}
        )
        with pytest.raises(SealBrokenError):
            texts.open_payload(row.subject, row.project_id, stray)
    with pytest.raises(SealBrokenError):
        texts.open_payload(row.subject, there.thread_id, here)


# Concurrent appends


async def storm(agent: Agent, *, thread: str, writers: int, each: int) -> list[object]:
    """Append `each` times by each writer, and list the index or refusal of each."""

    async def append_slots(number: int) -> list[object]:
        results: list[object] = []
        for count in range(each):
            slot = make_slot(f"{number}/{count}")
            try:
                receipt = await slots.append(agent=agent, thread=thread, slots=[slot])
                results.append(receipt.get_event(SlotAppended).index)
            except ThreadFullError:
                results.append("full")
        return results

    outcomes = await asyncio.gather(
        *(append_slots(number) for number in range(writers))
    )
    return [result for outcome in outcomes for result in outcome]


@pytest.mark.django_db(transaction=True)
def test_slot_limit_holds_under_race(acme: Project) -> None:
    agent = make_agent(acme)
    rounds = 30
    for number in range(rounds):
        make_thread(agent, f"t-{number}", max_slots=100)
    writer.start()
    for number in range(rounds):
        name = f"t-{number}"
        results = asyncio.run(storm(agent, thread=name, writers=16, each=10))
        stored = [result for result in results if result != "full"]
        assert sorted(stored, key=str) == sorted(range(100), key=str)
        assert len(results) == 160
    writer.stop()
    for number in range(rounds):
        row = get_thread(agent, f"t-{number}")
        indexes = row.slots.order_by("index").values_list("index", flat=True)
        assert list(indexes) == list(range(100))


@pytest.mark.django_db(transaction=True)
def test_append_beyond_the_slot_limit_is_refused_by_name(agent: Agent) -> None:
    """Go on as before after a refusal."""
    make_thread(agent, max_slots=1)
    writer.start()
    results = asyncio.run(storm(agent, thread="t-1", writers=4, each=2))
    assert sorted(map(str, results)) == ["0"] + ["full"] * 7
    assert asyncio.run(storm(agent, thread="t-2", writers=1, each=2)) == [0, 1]
    assert writer.is_running
    writer.stop()


@pytest.mark.django_db(transaction=True)
def test_queued_appends_are_written_before_the_writer_stops(agent: Agent) -> None:
    writer.start()

    async def send() -> list[object]:
        waiting = [
            asyncio.ensure_future(
                slots.append(agent=agent, thread="t-1", slots=[make_slot(number)])
            )
            for number in range(300)
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.stop)
        return await asyncio.gather(*waiting, return_exceptions=True)

    outcomes = asyncio.run(send())
    refused = [each for each in outcomes if isinstance(each, UnavailableError)]
    written = len(outcomes) - len(refused)
    assert written == get_thread(agent).slot_count == 300


def test_all_text_of_a_message_weighs_on_the_queue(agent: Agent, settings: Any) -> None:
    settings.QUEUE_BYTES = 1_000
    handlers = [
        HandlerContext(usage_instructions="ü" * 500),
        HandlerContext(todo_nudge="x" * 1_000),
        HandlerContext(usage_instructions="x" * 500, todo_nudge="x" * 500),
    ]
    writer.start()
    try:
        for handler in handlers:
            slot = make_slot("a", handler=handler)
            with pytest.raises(QueueFullError):
                asyncio.run(slots.append(agent=agent, thread="t-1", slots=[slot]))
    finally:
        writer.stop()


def test_message_without_tokens_needs_our_tokenizer(
    agent: Agent, not_run_here: str
) -> None:
    make_thread(agent, tokenizer=not_run_here)
    estimated = make_slot("hello", counted_by="est/1")
    with pytest.raises(TokensRequiredError):
        run(slots.append(agent=agent, thread="t-1", slots=[estimated]))
    assert get_thread(agent).slot_count == 0
    counted = make_slot("hello", tokens=9)
    run(slots.append(agent=agent, thread="t-1", slots=[counted]))
    assert get_thread(agent).token_count == 9
