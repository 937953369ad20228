"""Daily uses: counts of a subject's reads and writes by key, flushed at times."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub import journal
from memoryhub.journal import Address, Order, perform
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.commands import CloseThread
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.erasures import Receipt
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget.uses import flush_last
from memoryhub.services.paging import page_faults
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from memoryhub.vault.proof import receipts, signing
from tests.cast import forgetting
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_page,
    make_thread,
    run,
)

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 4, 23, 59, 58, tzinfo=UTC)


def count_uses() -> dict[tuple[str, date], tuple[int, int]]:
    """Return (reads, writes) by (key's prefix, day), for one subject only."""
    found = DailyUse.objects.select_related("key").all()
    return {(row.key.prefix, row.day): (row.reads, row.writes) for row in found}


def total() -> tuple[int, int]:
    found = DailyUse.objects.all()
    return sum(row.reads for row in found), sum(row.writes for row in found)


def test_writes_are_counted_as_they_are_committed(agent: Agent) -> None:
    for text in ("one", "two"):
        append(agent, "t-1", text)
    assert not DailyUse.objects.exists()
    flush_last()
    assert total() == (0, 2)


def test_later_uses_are_added_to_the_row(agent: Agent) -> None:
    make_thread(agent)
    subject = get_thread(agent).subject_id
    flush_last()
    for _ in range(3):
        uses.count_read(agent.prefix, subject)
        flush_last()
    flush_last()
    assert total() == (3, 1)
    assert DailyUse.objects.count() == 1


def test_uses_are_counted_by_day_and_key(acme: Project, agent: Agent) -> None:
    make_thread(agent)
    other, subject = make_agent(acme), get_thread(agent).subject_id
    flush_last()
    DailyUse.objects.all().delete()
    with time_machine.travel(START, tick=False) as travel:
        uses.count_read(agent.prefix, subject)
        travel.shift(timedelta(seconds=4))
        uses.count_read(agent.prefix, subject)
        uses.count_read(other.prefix, subject)
        flush_last()
    today, tomorrow = date(2026, 3, 4), date(2026, 3, 5)
    assert count_uses() == {
        (agent.prefix, today): (1, 0),
        (agent.prefix, tomorrow): (1, 0),
        (other.prefix, tomorrow): (1, 0),
    }


def test_turn_repeat_and_page_fault_count_as_reads(acme: Project, agent: Agent) -> None:
    """Count a turn, its repeat, and a page that was fetched, but no failed fetch."""
    make_page(agent, "rules")
    flush_last()
    DailyUse.objects.all().delete()
    other = make_agent(acme)
    request = journal.KeyedRequest(key="k-1", fingerprint=b"same")
    for _ in range(2):
        run(turns.begin_turn(agent=other, thread="t-1", new=NewTurn(), request=request))
    for page_id in ("rules", "no-such-page"):
        arguments = json.dumps({"page_id": page_id, "target_level": 0})
        call = {"name": "page_fault", "arguments": arguments}
        sent = {"id": "c-1", "type": "function", "function": call}
        run(page_faults.answer_call(agent=other, thread="t-1", sent=sent))
    flush_last()
    ((reads, _),) = count_uses().values()
    assert reads == 3


def test_repeated_request_is_no_second_write(agent: Agent) -> None:
    request = journal.KeyedRequest(key="k-1", fingerprint=b"same")
    for _ in range(2):
        append(agent, "t-1", "one", request=request)
    flush_last()
    assert total() == (0, 1)


def test_operator_write_is_not_counted_as_a_use(agent: Agent) -> None:
    append(agent, "t-1", "one")
    address = Address(project=agent.project, name="t-1")
    command = CloseThread(reason="failed")
    perform(Order(address=address, command=command, actor="operator:0197"))
    flush_last()
    assert total() == (0, 1)


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erased_subject_gets_no_use_row(state: str, agent: Agent) -> None:
    append(agent, "t-1", "one")
    Subject.objects.update(state=state)
    flush_last()
    assert not DailyUse.objects.exists()
    Subject.objects.update(state=Subject.State.ACTIVE)
    flush_last()
    assert not DailyUse.objects.exists()


def test_unwritten_uses_are_kept_for_the_next_flush(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(agent, "t-1", "one")
    with monkeypatch.context() as patch:
        patch.setattr("memoryhub.journal.writing.uses._ADD.sql", "no statement at all")
        flush_last()
    assert not DailyUse.objects.exists()
    flush_last()
    assert total() == (0, 1)


def test_empty_flush_costs_no_query(
    db: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        flush_last()


@pytest.mark.django_db(transaction=True)
def test_reads_flushed_after_the_receipt_are_named_in_an_addendum(agent: Agent) -> None:
    """Flush another process's reads after the signing; one addendum names the key."""
    ann = forgetting.make_person(agent, "ann")
    early, late = make_agent(ann.project), make_agent(ann.project)
    flush_last()
    uses.count_read(early.prefix, ann.id)
    row = forgetting.forget(ann)
    for prefix in (early.prefix, late.prefix, late.prefix):
        uses.count_read(prefix, ann.id)
    flush_last()
    flush_last()
    receipt, addendum = Receipt.objects.filter(erasure=row).order_by("n")
    assert json.loads(receipt.text)["recipients"] == [f"key:{early.prefix}"]
    told = json.loads(addendum.text)
    assert (told["what"], told["numbers"]) == ("recipients", {f"key:{late.prefix}": 2})
    assert receipts.verify(addendum.text.encode(), signing.list_public_keys()).valid
    assert (uses.list_late(), DailyUse.objects.filter(subject=ann).count()) == ([], 0)


@pytest.mark.django_db(transaction=True)
def test_reads_flushed_before_signing_are_named_in_the_receipt(agent: Agent) -> None:
    ann = forgetting.make_person(agent, "ann")
    late = make_agent(ann.project)
    row = forgetting.forget(ann, until="verified")
    uses.count_read(late.prefix, ann.id)
    flush_last()
    assert [each.erasure for each in uses.list_late()] == [row.id]
    forgetting.finish(row)
    flush_last()
    (receipt,) = Receipt.objects.filter(erasure=row)
    assert json.loads(receipt.text)["recipients"] == [f"key:{late.prefix}"]
    assert uses.list_late() == []
