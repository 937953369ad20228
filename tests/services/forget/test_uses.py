"""How often keys read and wrote a subject's memory: counted here, flushed at times."""

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
from memoryhub.services.forget.uses import settle
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


def rows() -> dict[tuple[str, date], tuple[int, int]]:
    """Reads and writes by (key's prefix, day); one subject only."""
    found = DailyUse.objects.select_related("key").all()
    return {(row.key.prefix, row.day): (row.reads, row.writes) for row in found}


def total() -> tuple[int, int]:
    found = DailyUse.objects.all()
    return sum(row.reads for row in found), sum(row.writes for row in found)


def test_writes_are_counted_as_they_are_committed(agent: Agent) -> None:
    for text in ("one", "two"):
        append(agent, "t-1", text)
    assert not DailyUse.objects.exists()
    settle()
    assert total() == (0, 2)


def test_what_comes_later_is_added(agent: Agent) -> None:
    make_thread(agent)
    subject = get_thread(agent).subject_id
    settle()
    for _ in range(3):
        uses.read(agent.prefix, subject)
        settle()
    settle()
    assert total() == (3, 1)
    assert DailyUse.objects.count() == 1


def test_days_and_keys_are_apart(acme: Project, agent: Agent) -> None:
    make_thread(agent)
    other, subject = make_agent(acme), get_thread(agent).subject_id
    settle()
    DailyUse.objects.all().delete()
    with time_machine.travel(START, tick=False) as travel:
        uses.read(agent.prefix, subject)
        travel.shift(timedelta(seconds=4))
        uses.read(agent.prefix, subject)
        uses.read(other.prefix, subject)
        settle()
    today, tomorrow = date(2026, 3, 4), date(2026, 3, 5)
    assert rows() == {
        (agent.prefix, today): (1, 0),
        (agent.prefix, tomorrow): (1, 0),
        (other.prefix, tomorrow): (1, 0),
    }


def test_who_is_handed_memory_has_read_it(acme: Project, agent: Agent) -> None:
    """A turn's request, its repeat, and a page that was fetched back; no mistake."""
    make_page(agent, "rules")
    settle()
    DailyUse.objects.all().delete()
    other = make_agent(acme)
    request = journal.Request(key="k-1", fingerprint=b"same")
    for _ in range(2):
        run(turns.begin(agent=other, thread="t-1", new=NewTurn(), request=request))
    for page_id in ("rules", "no-such-page"):
        arguments = json.dumps({"page_id": page_id, "target_level": 0})
        call = {"name": "page_fault", "arguments": arguments}
        sent = {"id": "c-1", "type": "function", "function": call}
        run(page_faults.call(agent=other, thread="t-1", sent=sent))
    settle()
    ((reads, _),) = rows().values()
    assert reads == 3


def test_a_repeat_is_no_write(agent: Agent) -> None:
    request = journal.Request(key="k-1", fingerprint=b"same")
    for _ in range(2):
        append(agent, "t-1", "one", request=request)
    settle()
    assert total() == (0, 1)


def test_only_agents_are_counted(agent: Agent) -> None:
    append(agent, "t-1", "one")
    address = Address(project=agent.project, name="t-1")
    command = CloseThread(reason="failed")
    perform(Order(address=address, command=command, actor="operator:0197"))
    settle()
    assert total() == (0, 1)


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_who_is_forgotten_gets_no_row(state: str, agent: Agent) -> None:
    append(agent, "t-1", "one")
    Subject.objects.update(state=state)
    settle()
    assert not DailyUse.objects.exists()
    Subject.objects.update(state=Subject.State.ACTIVE)
    settle()
    assert not DailyUse.objects.exists()


def test_what_can_not_be_written_is_kept(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(agent, "t-1", "one")
    with monkeypatch.context() as patch:
        patch.setattr("memoryhub.journal.writing.uses._ADD.sql", "no statement at all")
        settle()
    assert not DailyUse.objects.exists()
    settle()
    assert total() == (0, 1)


def test_nothing_to_write_costs_nothing(
    db: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        settle()


@pytest.mark.django_db(transaction=True)
def test_who_read_before_the_fence_in_another_process_is_named(agent: Agent) -> None:
    """That one flushes once the receipt is signed: an addendum says so, once."""
    ann = forgetting.make_person(agent, "ann")
    early, late = make_agent(ann.project), make_agent(ann.project)
    settle()
    uses.read(early.prefix, ann.id)
    row = forgetting.forget(ann)
    for prefix in (early.prefix, late.prefix, late.prefix):
        uses.read(prefix, ann.id)
    settle()
    settle()
    receipt, addendum = Receipt.objects.filter(erasure=row).order_by("n")
    assert json.loads(receipt.text)["recipients"] == [f"key:{early.prefix}"]
    told = json.loads(addendum.text)
    assert (told["what"], told["numbers"]) == ("recipients", {f"key:{late.prefix}": 2})
    assert receipts.verify(addendum.text.encode(), signing.public_keys()).valid
    assert (uses.late(), DailyUse.objects.filter(subject=ann).count()) == ([], 0)


@pytest.mark.django_db(transaction=True)
def test_who_is_flushed_while_it_is_signed_is_named_either_way(agent: Agent) -> None:
    ann = forgetting.make_person(agent, "ann")
    late = make_agent(ann.project)
    row = forgetting.forget(ann, until="verified")
    uses.read(late.prefix, ann.id)
    settle()
    assert [each.erasure for each in uses.late()] == [row.id]
    forgetting.finish(row)
    settle()
    (receipt,) = Receipt.objects.filter(erasure=row)
    assert json.loads(receipt.text)["recipients"] == [f"key:{late.prefix}"]
    assert uses.late() == []
