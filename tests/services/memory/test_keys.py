from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import (
    ContentErasedError,
    InvalidError,
    KeyNotFoundError,
    NotFoundError,
    StaleError,
    SubjectRestrictedError,
    ValueTooLargeError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.key_events import KeyRetimed, KeySet
from memoryhub.kernel.memory.keys import DeleteKey, Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models import DueValue, Event, Key, Project, Subject, Thread
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory import keys as reading
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import keys
from memoryhub.workers import expiry
from tests.cast import factories
from tests.cast.factories import run
from tests.oracles import memory_acts
from tests.services import acts

pytestmark = pytest.mark.django_db

NEVER = Expiry(given=True)
MINUTE = Expiry(given=True, ttl=timedelta(minutes=1))
DEFAULT = Expiry()
ANY = Expected()


def put(
    agent: Agent,
    key: str = "k",
    value: object = 1,
    *,
    until: Expiry = DEFAULT,
    expected: Expected = ANY,
    thread: str = "t-1",
) -> OrderReceipt:
    change = keys.build_setting(key, value, until, expected)
    return run(keys.change_keys(agent=agent, thread=thread, changes=(change,)))


def retime(
    agent: Agent,
    until: Expiry,
    *,
    expected: Expected = ANY,
    thread: str = "t-1",
) -> OrderReceipt:
    return run(
        keys.retime_key(
            agent=agent, thread=thread, key="k", expiry=until, expected=expected
        )
    )


def get_line(agent: Agent, key: str = "k", thread: str = "t-1") -> reading.KeyLine:
    return reading.get_key(factories.get_thread(agent, thread), key)


def head(agent: Agent, thread: str = "t-1") -> int:
    return factories.get_thread(agent, thread).head_seq


def test_set_key_makes_the_thread_and_a_row(agent: Agent) -> None:
    receipt = put(agent, value={"a": None}, until=MINUTE)
    assert (receipt.created, receipt.seq) == (True, 2)
    event = receipt.get_event(KeySet)
    assert (event.created, event.bytes) == (True, 64)
    row = Key.objects.get()
    assert (row.key, row.version, row.value_seq) == ("k", 2, 2)
    assert row.expires_at == event.expires_at == DueValue.objects.get().due_at
    found = get_line(agent)
    assert (found.value, found.set_by) == ({"a": None}, agent.actor)


def test_key_value_stands_in_the_payload_alone(agent: Agent) -> None:
    put(agent, value="canary-7Q")
    for event in Event.objects.all():
        assert "canary-7Q" not in event.body
        assert b"canary-7Q" not in bytes(event.payload or b"")


def test_key_changes_are_made_all_or_none(agent: Agent) -> None:
    seen = put(agent).seq
    good = keys.build_setting("other", 2, NEVER)
    stale = keys.build_setting("k", 2, NEVER, Expected(version=seen + 1))
    with pytest.raises(StaleError) as refusal:
        run(
            keys.change_keys(
                agent=agent, thread="t-1", changes=(good, stale), numbered=True
            )
        )
    assert refusal.value.detail == {"version": seen, "index": 1}
    with pytest.raises(StaleError) as refusal:
        run(keys.change_keys(agent=agent, thread="t-1", changes=(stale,)))
    assert refusal.value.detail == {"version": seen}
    assert head(agent) == seen
    done = run(
        keys.change_keys(agent=agent, thread="t-1", changes=(good, DeleteKey(key="k")))
    )
    assert [each.event.event_type for each in done.events] == ["key.set", "key.deleted"]
    assert [*Key.objects.values_list("key", flat=True)] == ["other"]


def test_delete_of_an_unknown_key_makes_no_thread_and_no_event(agent: Agent) -> None:
    gone = DeleteKey(key="k")
    with pytest.raises(NotFoundError):
        run(keys.change_keys(agent=agent, thread="t-1", changes=(gone,)))
    put(agent, "other")
    assert (
        run(keys.change_keys(agent=agent, thread="t-1", changes=(gone,))).events == ()
    )


def lasts(told: OrderReceipt) -> int:
    """Return the whole seconds for which the key was set."""
    until = told.get_event(KeySet).expires_at
    assert until is not None
    assert until.microsecond == 0
    return int((until - told.events[0].at).total_seconds())


def test_null_expiry_overrides_defaults_of_thread_and_project(agent: Agent) -> None:
    hour = replace(agent, default_ttl=timedelta(hours=1))
    assert lasts(put(hour)) == 3_600
    acts.amend(agent, config={"default_ttl_seconds": 60})
    assert lasts(put(hour)) == 60
    assert put(hour, until=NEVER).get_event(KeySet).expires_at is None


@pytest.mark.parametrize("kind", ["value", "past", "text"])
def test_invalid_key_value_or_expiry_is_refused(agent: Agent, kind: str) -> None:
    factories.make_thread(agent)
    if kind == "value":
        with pytest.raises(ValueTooLargeError):
            put(agent, value="x" * keys.MAX_VALUE_BYTES)
    elif kind == "past":
        with pytest.raises(InvalidError) as refusal:
            put(agent, until=Expiry(given=True, at=clock.now() - timedelta(seconds=1)))
        assert refusal.value.invalid_code == "expiry_in_past"
    else:
        with pytest.raises(JsonRefusedError):
            keys.parse_setting("k", b'{"a": 1, "a": 2}', NEVER)
    assert head(agent) == 1


def test_typed_value_is_kept_as_it_stands(agent: Agent) -> None:
    change = keys.parse_setting("k", b' {"b": 1.0, "a": [null]} ', NEVER)
    run(keys.change_keys(agent=agent, thread="t-1", changes=(change,)))
    assert list(get_line(agent).value.items()) == [("b", 1.0), ("a", [None])]


def test_retime_moves_the_expiry_alone(agent: Agent) -> None:
    first = put(agent, until=MINUTE).seq
    told = retime(agent, NEVER, expected=Expected(version=first))
    assert told.get_event(KeyRetimed).expires_at is None
    assert (get_line(agent).version, get_line(agent).value) == (told.seq, 1)
    assert Key.objects.get().value_seq == first
    assert not DueValue.objects.exists()
    with pytest.raises(StaleError):
        retime(agent, MINUTE, expected=Expected(version=first))
    run(keys.clear_keys(agent=agent, thread="t-1"))
    with pytest.raises(KeyNotFoundError):
        retime(agent, MINUTE)
    with pytest.raises(NotFoundError):
        retime(agent, MINUTE, thread="none")


def test_fork_keeps_a_value_that_it_retimed(agent: Agent, acme: Project) -> None:
    """Keep the fork's value after the parent has erased its own value."""
    Project.objects.filter(id=acme.id).update(expired_value_grace_seconds=0)
    put(agent, value="v", until=MINUTE)
    acts.fork(agent, "t-1", "f")
    told = retime(agent, NEVER, thread="f")
    assert told.list_events(KeyRetimed) == []
    assert told.get_event(KeySet).expires_at is None
    own = Key.objects.get(thread__name="f")
    assert own.value_thread == factories.get_thread(agent, "f").id
    later = clock.now() + timedelta(minutes=1)
    clock.use_source(lambda: int(later.timestamp() * 10**9) + 10**9)
    now = clock.now()
    assert (expiry.expire(now), expiry.erase(now)) == (1, 1)
    assert get_line(agent, thread="f").value == "v"
    with pytest.raises(ContentErasedError):
        reading.get_key(factories.get_thread(agent), "k", seq=2)


def test_fork_retimes_only_the_value_that_was_read(agent: Agent) -> None:
    """Bind the command to the version whose value it carries."""
    put(agent, value="v")
    fork = acts.fork(agent, "t-1", "f")
    row = Thread.objects.select_related("subject").get(id=fork.id)
    command = keys.build_retiming(row, "k", MINUTE, Expected())
    assert (command.value, command.expected) == (b'"v"', Expected(version=0))
    put(agent, value="other", thread="f")
    again = keys.build_retiming(
        factories.get_thread(agent, "f"), "k", MINUTE, Expected()
    )
    assert (again.value, again.expected) == (None, Expected())
    assert (
        keys.build_retiming(factories.get_thread(agent), "k", MINUTE, Expected()).value
        is None
    )


def test_set_key_costs_the_same_statements_at_any_size(agent: Agent) -> None:
    counts: list[int] = []
    for size in (2, 200):
        batch = tuple(keys.build_setting(f"k{n}", n, MINUTE) for n in range(size))
        run(keys.change_keys(agent=agent, thread="t-1", changes=batch))
        put(agent, "k0", "warm", until=MINUTE)
        with CaptureQueriesContext(connections["default"]) as asked:
            put(agent, "k1", "x", until=MINUTE)
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_restricted_fork_does_not_tell_which_keys_it_inherits(agent: Agent) -> None:
    factories.make_thread(agent)
    seq = memory_acts.set_key(agent, "k").seq
    memory_acts.fork_of(agent, "t-1", "child", seq=seq)
    Subject.objects.update(state=Subject.State.RESTRICTED)
    for key in ("k", "nothing"):
        with pytest.raises(SubjectRestrictedError):
            run(
                keys.retime_key(
                    agent=agent,
                    thread="child",
                    key=key,
                    expiry=NEVER,
                    expected=Expected(),
                )
            )
