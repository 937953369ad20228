"""The writer's thread: group commit, bounds, fairness, drain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from memoryhub import journal
from memoryhub.errors import (
    ClockSkewError,
    QueueFullError,
    StaleError,
    ThreadFullError,
    UnavailableError,
)
from memoryhub.journal import Order, OrderReceipt
from memoryhub.journal.writing.writer import BATCH_PER_ACTOR, writer
from memoryhub.kernel.commands import AppendSlots, NewSlot
from memoryhub.models.server.clock import TOLERANCE_NS, clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import make_slot, make_thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Run a writer that waits for the event, so that a queue can build up."""
    go = threading.Event()
    writer.start()
    writer.put_work(lambda: go.wait(30))
    yield go
    go.set()


def order(
    agent: Agent, thread: str, *slots: NewSlot, actor: str | None = None
) -> Order:
    return Order(
        address=agent.address(thread, birth=agent.build_birth()),
        command=AppendSlots(slots=slots or (make_slot(),)),
        actor=actor or agent.actor,
        size=10,
    )


def put(*orders: Order) -> list[Future[OrderReceipt]]:
    return [writer.put(each) for each in orders]


def test_many_commands_share_one_transaction(
    agent: Agent, held: threading.Event
) -> None:
    futures = put(*(order(agent, f"t-{n % 4}") for n in range(40)))
    held.set()
    receipts = [future.result(30) for future in futures]
    assert sorted(Thread.objects.values_list("slot_count", flat=True)) == [10] * 4
    assert {receipt.seq for receipt in receipts} == set(range(2, 12))


def test_receipts_come_in_the_order_of_the_orders(
    agent: Agent, held: threading.Event
) -> None:
    futures = put(
        order(agent, "a"),
        order(agent, "b", *[make_slot()] * 3),
        order(agent, "a"),
    )
    held.set()
    assert [future.result(30).name for future in futures] == ["a", "b", "a"]


def test_bad_command_fails_no_other_in_its_batch(
    agent: Agent, held: threading.Event
) -> None:
    # No column takes so many; of a user the kernel itself would refuse it.
    broken = make_slot(tokens=2**70, type="x.broken")
    good, bad, other = put(
        order(agent, "a"), order(agent, "b", broken), order(agent, "c")
    )
    held.set()
    assert good.result(30).seq == other.result(30).seq == 2
    with pytest.raises(UnavailableError):
        bad.result(30)
    assert {*Thread.objects.values_list("name", flat=True)} == {"a", "c"}


def test_full_thread_refuses_within_a_batch(
    agent: Agent, held: threading.Event
) -> None:
    held.set()
    make_thread_through_the_writer(agent)
    outcomes: list[Any] = []
    for future in put(*(order(agent, "small") for _ in range(4))):
        try:
            outcomes.append(future.result(30).seq)
        except ThreadFullError:
            outcomes.append("full")
    assert outcomes == [2, 3, "full", "full"]


def make_thread_through_the_writer(agent: Agent) -> None:
    writer.stop()
    make_thread(agent, "small", max_slots=2)
    writer.start()


def test_full_queue_refuses_at_once(
    agent: Agent, held: threading.Event, settings: Any
) -> None:
    settings.QUEUE_COMMANDS = 3
    accepted = [offered(order(agent, f"t-{n}")) for n in range(6)]
    # The work that holds the writer was taken already, or still counts.
    assert sum(accepted) in (2, 3)
    held.set()


def offered(each: Order) -> bool:
    try:
        writer.put(each)
    except QueueFullError:
        return False
    return True


def test_full_queue_counts_bytes(
    agent: Agent, held: threading.Event, settings: Any
) -> None:
    settings.QUEUE_BYTES = 25
    put(order(agent, "a"), order(agent, "b"))
    with pytest.raises(QueueFullError):
        writer.put(order(agent, "c"))
    held.set()


def test_noisy_key_does_not_keep_others_waiting(
    agent: Agent, stranger: Agent, held: threading.Event
) -> None:
    noisy = put(*(order(agent, "noisy") for _ in range(BATCH_PER_ACTOR * 3)))
    quiet = writer.put(order(stranger, "quiet"))
    done: list[int] = []
    quiet.add_done_callback(lambda _: done.append(sum(f.done() for f in noisy)))
    held.set()
    [future.result(30) for future in noisy]
    # Served with the first batch, not after all three.
    assert done[0] <= BATCH_PER_ACTOR
    slots = Slot.objects.filter(thread__name="noisy").order_by("index")
    assert [slot.index for slot in slots] == [*range(BATCH_PER_ACTOR * 3)]


def test_stopping_writer_finishes_waiting_commands(
    agent: Agent, held: threading.Event
) -> None:
    futures = put(*(order(agent, "t") for _ in range(20)))
    held.set()
    writer.stop()
    assert all(future.done() for future in futures)
    assert Slot.objects.count() == 20
    assert not writer.is_running


def test_work_that_is_no_command_runs_on_the_writers_connection(agent: Agent) -> None:
    writer.start()
    theirs = journal.run(lambda: id(connection.connection))
    assert theirs != id(connection.connection)
    with pytest.raises(UnavailableError):
        journal.run(lambda: Thread.objects.extra(where=["no_such"]).count())
    assert journal.run(lambda: 7) == 7


def test_cancelled_waiter_fails_no_other_command(
    agent: Agent, held: threading.Event
) -> None:
    left, stays = put(order(agent, "a"), order(agent, "b"))
    assert left.cancel()
    held.set()
    assert stays.result(30).seq == 2
    writer.stop()
    assert [*Thread.objects.values_list("name", flat=True)] == ["b"]


def test_writer_refuses_commands_while_the_clock_is_off(agent: Agent) -> None:
    journal.perform(order(agent, "t-1"))
    clock.compare(TOLERANCE_NS + 1)
    with pytest.raises(ClockSkewError):
        journal.perform(order(agent, "t-1"))
    clock.compare(0)
    assert journal.perform(order(agent, "t-1")).seq == 3


def test_concurrent_coroutines_get_their_own_results(agent: Agent) -> None:
    async def all_at_once() -> list[OrderReceipt | BaseException]:
        orders = [order(agent, f"t-{n}") for n in range(20)]
        orders[7] = replace(orders[7], if_match=99)
        answers = asyncio.gather(*map(journal.submit, orders), return_exceptions=True)
        return await answers

    writer.start()
    outcomes = asyncio.run(all_at_once())
    assert isinstance(outcomes.pop(7), StaleError)
    names = [each.name for each in outcomes if isinstance(each, OrderReceipt)]
    assert names == [f"t-{n}" for n in range(20) if n != 7]
    assert asyncio.run(journal.run_async(lambda: 7)) == 7


def test_coroutine_that_leaves_in_time_has_written_nothing(
    agent: Agent, held: threading.Event
) -> None:
    async def leave() -> None:
        left = asyncio.create_task(journal.submit(order(agent, "a")))
        stays = asyncio.create_task(journal.submit(order(agent, "b")))
        await asyncio.sleep(0)  # both have put their orders
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        held.set()
        assert (await stays).seq == 2

    asyncio.run(leave())
    assert [*Thread.objects.values_list("name", flat=True)] == ["b"]


def test_ended_event_loop_fails_no_other_command(
    agent: Agent, held: threading.Event
) -> None:
    async def as_far_as_its_wait() -> Coroutine[Any, Any, OrderReceipt]:
        waiting = journal.submit(order(agent, "a"))
        waiting.send(None)
        return waiting

    waiting = asyncio.run(as_far_as_its_wait())
    (other,) = put(order(agent, "b"))
    held.set()
    assert other.result(30).seq == 2
    waiting.close()
