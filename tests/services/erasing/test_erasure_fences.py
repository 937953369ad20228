"""Fences of narrower scopes: records before a fence go, later ones are refused.

Agents still write between a confirmation and the fence. Work under way elsewhere
has read earlier records, and must not bring erased records back.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import orjson
import pytest

from memoryhub.errors import (
    StaleError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.journal.forget import erasing
from memoryhub.journal.log.orders import KeyedRequest
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models import Project, Subject, Thread
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.events import Event, RequestKey
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.forget import erasure_steps, erasures
from memoryhub.services.threads import slots, threads
from tests.cast import bundled
from tests.cast.factories import (
    append,
    get_thread,
    make_page,
    make_slot,
    make_thread,
    run,
)
from tests.cast.forgetting import (
    confirm,
    finish,
    forget,
    get_subject,
    list_records,
    make_person,
    plan,
)
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
FIRST = "Her knee was operated on in the spring of last year."
SECOND = "She would rather not be called before nine in the morning."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann", threads=2)


@pytest.fixture(autouse=True)
def bob(agent: Agent) -> Subject:
    """Make the twin, who loses nothing and waits for nobody."""
    return make_person(agent, "bob")


def count_sealed(subject: Subject) -> int:
    rows = Event.objects.filter(thread__subject=subject, payload__isnull=False)
    return rows.count()


def seq_of(thread: str, page: str) -> int:
    return Event.objects.filter(thread__name=thread, page=page).order_by("seq")[0].seq


def get_erased_count(row: Erasure, place: str) -> int:
    """Return the receipt's count of records erased in a place."""
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert {k: v["count"] for k, v in told["erased"].items()} == told["fenced"]
    return int(told["fenced"].get(place, 0))


def assert_sound(subject: Subject) -> None:
    for thread in Thread.objects.filter(subject=subject).select_related("subject"):
        assert verify(thread) is None


def test_write_between_confirmation_and_fence_is_erased(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    """Write an append, a fork of the append, and a page derived in the fork."""
    twin = list_records(bob)
    row = confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1")))
    make_page(agent, "late", thread="ann-1", text=FIRST)
    fork(agent, "ann-1", "ann-fork")
    make_page(agent, "made", thread="ann-fork", text=SECOND, provenance=("late",))
    make_page(agent, "own", thread="ann-fork", text="The fork's own, of nothing.")
    before = count_sealed(ann)
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    left = Event.objects.filter(thread__name="ann-fork", payload__isnull=False)
    assert [*left.values_list("page", flat=True)] == ["own"]
    assert get_erased_count(row, "events") == before - count_sealed(ann)
    assert Tombstone.objects.filter(subject=ann, kind="value").count() >= 2
    assert_sound(ann)
    assert list_records(bob) == twin


def test_fork_made_before_the_fence_is_in_the_receipt(
    agent: Agent, ann: Subject
) -> None:
    """Keep names and slots that the fork still reads, and list them in the receipt."""
    asked = plan(ann, "thread", thread=get_thread(agent, "ann-1"))
    token, count = erasures.build_token(asked), ErasureLine.from_row(asked).count
    row = erasures.confirm(asked, token=token, count=count, actor="command")
    fork(agent, "ann-1", "ann-fork")
    row = finish(row)
    assert row.state == State.COMPLETE
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert "names_in_forks" in {each["what"] for each in told["residue"]}
    assert {"what": "slots", "reason": "fork"} in told["retained"]
    assert not {"slots", "threads"} & {*told["erased"]}
    # The confirmed counts stay, and a second confirmation is the same erasure.
    assert told["planned"]["slots"] == 2
    again = erasures.confirm(asked, token=token, count=count, actor="command")
    assert (again.id, again.state) == (row.id, State.COMPLETE)


def test_agents_are_refused_between_count_and_fence(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order more records than one transaction takes, and refuse agents meanwhile."""
    monkeypatch.setattr(erasing, "split_ranges", partial(erasing.split_ranges, size=2))
    fork(agent, "ann-1", "ann-fork")
    order, tried = erasure_steps.order_erasure, []

    def beside(row: Erasure) -> None:
        for thread in ("ann-2", "ann-fork"):
            with pytest.raises(SubjectRestrictedError):
                append(agent, thread, "Between the count and its end.")
            tried.append(thread)
        append(agent, "bob-1", "Bob waits for nobody.")
        order(row)

    row = confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1")))
    monkeypatch.setattr(erasure_steps, "order_erasure", beside)
    before = count_sealed(ann)
    row = finish(row)
    assert (row.state, tried) == (State.COMPLETE, ["ann-2", "ann-fork"])
    assert get_erased_count(row, "events") == before - count_sealed(ann)
    append(agent, "ann-2", "Afterwards they write again.")
    assert get_subject(agent, "ann").state == "active"


def test_erasure_killed_between_two_orders_goes_on(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "split_ranges", partial(erasing.split_ranges, size=1))
    fork(agent, "ann-1", "ann-fork")
    row = confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1")))
    before, orders = count_sealed(ann), []
    order = erasure_steps._order_records

    def dying(*given: object) -> None:
        orders.append(given)
        if len(orders) == 2:
            raise KeyboardInterrupt
        order(*given)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(erasure_steps, "_order_records", dying)
    with pytest.raises(KeyboardInterrupt):
        erasures.advance_erasure(row)
    assert get_subject(agent, "ann").state == "restricted"
    row = finish(row)
    assert row.state == State.COMPLETE
    assert get_erased_count(row, "events") == before - count_sealed(ann)
    assert get_subject(agent, "ann").state == "active"


def test_export_under_way_is_cut_off_by_an_erasure(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    make_page(agent, "health", thread="ann-1", text=FIRST)
    under_way = {
        each.id: exports.begin_export(each, actor="command").stream()
        for each in (ann, bob)
    }
    begun = {whose: next(parts) for whose, parts in under_way.items()}
    thread, seq = get_thread(agent, "ann-1"), seq_of("ann-1", "health")
    forget(ann, "record", thread=thread, seq=seq)
    with pytest.raises(SubjectErasedError):
        list(under_way[ann.id])
    data = begun[bob.id] + b"".join(under_way[bob.id])
    assert bundled.open_bundle(data).testzip() is None
    assert FIRST.encode() not in b"".join(
        [*map(bundled.open_bundle(bundled.export(ann)).read, ["events.jsonl"])]
    )


@pytest.mark.parametrize("whose", ["ann", "bob"])
def test_import_under_way_brings_nothing_back(
    agent: Agent, ann: Subject, zeta: Project, stranger: Agent, whose: str
) -> None:
    """Erase a value in the target project after the bundle was read.

    An erasure of another subject does not stop the import.
    """
    make_page(agent, "health", thread="ann-1", text=FIRST)
    data = bundled.export(ann)
    cut = bundled.manifest(bundled.open_bundle(data))["cut"]
    checked, seen = sum(each["head_seq"] for each in cut), []
    for name in ("ann", "bob"):
        make_thread(stranger, f"{name}-z", user_id=name)
        make_page(stranger, "health", thread=f"{name}-z", text=FIRST)
    thread = get_thread(stranger, f"{whose}-z")

    def progress(events: int) -> None:
        seen.append(events)
        # The whole bundle is checked, and nothing of it is written yet.
        if len(seen) == checked + 1:
            seq = seq_of(thread.name, "health")
            forget(get_subject(stranger, whose), "record", thread=thread, seq=seq)

    came = Thread.objects.filter(project=zeta, name="ann-1")
    if whose == "ann":
        with pytest.raises(StaleError):
            bundled.take(data, zeta, progress=progress)
        assert not came.exists()
    else:
        bundled.take(data, zeta, progress=progress)
        assert came.exists()
    assert len(seen) > checked


def test_scope_before_leaves_out_threads_being_imported(
    agent: Agent, ann: Subject
) -> None:
    """Skip the importing thread, so that the erasure does not wait for the import."""
    coming = Thread.objects.filter(name="ann-2")
    coming.update(status=Thread.Status.IMPORTING)
    row = plan(ann, "before", before=clock.now())
    assert ErasureLine.from_row(row).threads == 1
    row = finish(confirm(row))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    coming.update(status=Thread.Status.OPEN)
    assert verify(get_thread(agent, "ann-2")) is None


def test_fork_of_a_thread_erased_meanwhile_is_refused(
    agent: Agent, ann: Subject
) -> None:
    parent = get_thread(agent, "ann-1")
    command = threads.build_fork(
        parent, parent.head_seq, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    forget(ann, "thread", thread=parent, until=State.TOMBSTONED)
    with pytest.raises(ThreadErasedError):
        run(threads.fork(agent=agent, name="too-late", command=command))
    fork(agent, "ann-2", "in-time")


def append_with_key(agent: Agent, thread: str, key: str, *contents: str) -> None:
    new: list[NewSlot] = [make_slot(each) for each in contents]
    request = KeyedRequest(key=key, fingerprint=key.encode())
    run(slots.append(agent=agent, thread=thread, slots=new, request=request))


@pytest.mark.parametrize("scope", ["record", "before"])
def test_request_keys_of_erased_records_are_erased(
    agent: Agent, ann: Subject, scope: str
) -> None:
    append_with_key(
        agent, "ann-1", "one", "The first of three.", "Its second.", "Its third."
    )
    append_with_key(agent, "ann-1", "two", "Another request.")
    append_with_key(agent, "bob-1", "bob", "The twin's.")
    thread = get_thread(agent, "ann-1")
    given = {"thread": thread, "seq": thread.head_seq - 2}
    if scope == "before":
        given = {"before": clock.now() - timedelta(microseconds=1)}
    row = plan(ann, scope, **given)
    gone = {p.place: p.erase for p in ErasureLine.from_row(row).places}["request_keys"]
    row = finish(confirm(row))
    assert row.state == State.COMPLETE
    left = RequestKey.objects.count()
    assert (gone, left) == ((1, 2) if scope == "record" else (2, 1))
    assert get_erased_count(row, "request_keys") == gone
