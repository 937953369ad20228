"""Items of a subject: as keys of the home thread they expire, go and come as those."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.errors import (
    ContentErasedError,
    HomeThreadError,
    InvalidError,
    KeyNotFoundError,
    StaleError,
    ValueErasedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.keys import ClearKeys, Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.memory import items as reading
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.imports import readmissions
from memoryhub.services.knowledge import homes, items
from memoryhub.services.memory import keys
from memoryhub.services.people import subjects
from memoryhub.workers import expiry
from tests.cast import bundled, factories, forgetting
from tests.cast.factories import run

pytestmark = pytest.mark.django_db

SEAT = {"seat": "12A, at the window, please", "row": 12}
HOUR = Expiry(given=True, ttl=timedelta(hours=1))


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann")
    return forgetting.get_subject(agent, "ann")


def put(
    agent: Agent, subject: Subject, name: str = "seat", value: Any = SEAT, **more: Any
) -> OrderReceipt:
    act = items.put_item(
        agent=agent,
        subject=subject,
        namespace="trips:oslo",
        key=name,
        value=value,
        **more,
    )
    return run(act)


def delete(agent: Agent, subject: Subject, **more: Any) -> OrderReceipt | None:
    act = items.delete_item(
        agent=agent, subject=subject, namespace="trips:oslo", key="seat", **more
    )
    return run(act)


def get(subject: Subject, name: str = "seat", *, seq: int | None = None) -> Any:
    home = find_home(subject)
    return reading.get_item(home, "trips:oslo", name, seq=seq).value


def require_home(subject: Subject) -> Thread:
    found = find_home(subject)
    assert found is not None
    return found


def test_item_is_read_as_of_each_event_of_the_home_thread(
    agent: Agent, ann: Subject
) -> None:
    with pytest.raises(KeyNotFoundError):
        get(ann)
    first = put(agent, ann)
    deleted = delete(agent, ann)
    put(agent, ann, value=None)
    assert first.name == require_home(ann).name
    assert get(ann) is None
    assert get(ann, seq=first.seq) == SEAT
    assert deleted is not None
    with pytest.raises(KeyNotFoundError):
        get(ann, seq=deleted.seq)


def test_deletion_makes_no_home_thread(agent: Agent, ann: Subject) -> None:
    assert delete(agent, ann, expected=Expected(absent=True)) is None
    with pytest.raises(StaleError):
        delete(agent, ann, expected=Expected(version=2))
    assert find_home(ann) is None


def test_home_thread_takes_names_of_items_only(agent: Agent, ann: Subject) -> None:
    put(agent, ann)
    thread, head = require_home(ann).name, require_home(ann).head_seq
    for name in ("seat", "trips:", "trips::seat"):
        change = keys.build_setting(name, 1, Expiry())
        with pytest.raises(InvalidError):
            run(keys.change_keys(agent=agent, thread=thread, changes=(change,)))
    with pytest.raises(InvalidError):
        put(agent, ann, "s" * 118)
    with pytest.raises(HomeThreadError):
        run(homes.submit(agent=agent, subject=ann, command=ClearKeys()))
    assert require_home(ann).head_seq == head
    change = keys.build_setting("trips:oslo:seat", 7, Expiry())
    run(keys.change_keys(agent=agent, thread=thread, changes=(change,)))
    assert get(ann) == 7


def test_expired_item_is_gone_then_swept_then_erased_from_history(
    agent: Agent, ann: Subject
) -> None:
    Project.objects.update(expired_value_grace_seconds=0)
    put(agent, ann, "stays")
    receipt = put(agent, ann, expiry=HOUR)
    later = clock.now() + timedelta(hours=1, seconds=1)
    clock.use_source(lambda: int(later.timestamp() * 10**9) + 10**9)
    now = clock.now()
    with pytest.raises(KeyNotFoundError):
        get(ann)
    assert (expiry.expire(now), expiry.erase(now)) == (1, 1)
    assert [*Key.objects.values_list("key", flat=True)] == ["trips:oslo:stays"]
    with pytest.raises(ContentErasedError):
        get(ann, seq=receipt.seq)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ["record", "before", "thread", "subject"])
def test_erasure_reaches_items(agent: Agent, ann: Subject, scope: str) -> None:
    receipt = put(agent, ann)
    where: dict[str, Any] = {
        "record": {"thread": require_home(ann), "seq": receipt.seq},
        "before": {"before": clock.now() + timedelta(microseconds=1)},
        "thread": {"thread": require_home(ann)},
    }
    erasure = forgetting.forget(ann, scope, **where.get(scope, {}))
    assert erasure.state == "complete"
    assert not Key.objects.exists()
    if scope == "subject":
        made = readmissions.readmit_subject(agent.project, "ann", actor="command")
        assert put(agent, made).created
        assert get(made) == SEAT
        return
    with pytest.raises(KeyNotFoundError):
        get(ann)
    with pytest.raises(ValueErasedError):
        put(agent, ann)


def test_items_are_exported_and_imported(
    agent: Agent, zeta: Project, ann: Subject
) -> None:
    put(agent, ann)
    data = bundled.export(ann)
    listed = bundled.list_records(bundled.open_bundle(data), "state/keys.jsonl")
    assert [(each["key"], each["value"]) for each in listed] == [
        ("trips:oslo:seat", SEAT)
    ]
    bundled.take(data, zeta)
    assert get(subjects.find_or_create(zeta.id, "ann")) == SEAT
