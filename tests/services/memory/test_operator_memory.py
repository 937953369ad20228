"""Acts of operators on keys and checkpoints."""

from __future__ import annotations

import pytest

from memoryhub.errors import (
    CheckpointUnknownError,
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    NameTakenError,
    StaleError,
    ThreadClosedError,
    ValueTooLargeError,
)
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints, keys
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import operator_memory
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.oracles import memory_acts
from tests.oracles.memory_acts import MINUTE, lasting

pytestmark = pytest.mark.django_db
NEVER = Expiry(given=True)
BY = "operator:x"


@pytest.fixture
def thread(agent: Agent) -> Thread:
    memory_acts.set_key(agent, "seat", "12A")
    return factories.get_thread(agent)


def get_line(agent: Agent, key: str = "seat", name: str = "t-1") -> keys.KeyLine:
    return keys.get_key(factories.get_thread(agent, name), key)


def test_key_is_set_retimed_and_deleted_at_its_version(
    agent: Agent, thread: Thread
) -> None:
    seen = get_line(agent).version
    operator_memory.set_key(thread, "seat", b'{"b":1}', NEVER, version=seen, actor=BY)
    now = get_line(agent)
    assert (now.value, now.set_by) == ({"b": 1}, BY)
    for version in (seen, now.version + 1):
        with pytest.raises(StaleError):
            operator_memory.set_key(
                thread, "seat", b"2", NEVER, version=version, actor=BY
            )
        with pytest.raises(StaleError):
            operator_memory.delete_key(thread, "seat", version=version, actor=BY)
    row = factories.get_thread(agent)
    operator_memory.retime_key(
        row, "seat", lasting(MINUTE), version=now.version, actor=BY
    )
    assert get_line(agent).expires_at is not None
    last = get_line(agent).version
    operator_memory.delete_key(thread, "seat", version=last, actor=BY)
    with pytest.raises(KeyNotFoundError):
        get_line(agent)


def test_keys_are_cleared_once_a_checkpoint_keeps_them(
    agent: Agent, thread: Thread
) -> None:
    memory_acts.set_key(agent, "gate", 7)
    kept = operator_memory.clear_keys(factories.get_thread(agent), actor=BY)
    assert kept is not None
    row = factories.get_thread(agent)
    assert keys.count_keys(row) == 0
    operator_memory.restore_checkpoint(row, kept.seq, ("keys",), actor=BY)
    assert (get_line(agent).value, get_line(agent, "gate").value) == ("12A", 7)
    for key in ("seat", "gate"):
        memory_acts.delete_key(agent, key)
    head = factories.get_thread(agent).head_seq
    assert operator_memory.clear_keys(factories.get_thread(agent), actor=BY) is None
    assert factories.get_thread(agent).head_seq == head


def test_invalid_key_value_is_refused(agent: Agent, thread: Thread) -> None:
    seen = get_line(agent).version
    for text, refusal in (
        (b"{", JsonRefusedError),
        (b"", JsonRefusedError),
        (b'"' + b"x" * 262_145 + b'"', ValueTooLargeError),
    ):
        with pytest.raises(refusal):
            operator_memory.set_key(thread, "seat", text, NEVER, version=seen, actor=BY)
    assert get_line(agent).version == seen


def test_new_key_needs_a_free_and_valid_name(agent: Agent, thread: Thread) -> None:
    operator_memory.set_key(thread, "gate", b"7", NEVER, version=None, actor=BY)
    assert get_line(agent, "gate").value == 7
    with pytest.raises(KeyExistsError):
        operator_memory.set_key(thread, "seat", b"7", NEVER, version=None, actor=BY)
    for name in ("", "a b", "_x", "mh.x", "x" * 129):
        with pytest.raises(InvalidError) as refusal:
            operator_memory.set_key(thread, name, b"7", NEVER, version=None, actor=BY)
        assert refusal.value.loc == "key"
    assert get_line(agent).value == "12A"


def test_key_is_set_back_to_an_earlier_value(agent: Agent, thread: Thread) -> None:
    first = thread.head_seq
    memory_acts.set_key(agent, "seat", "14C")
    last = get_line(agent).version
    row = factories.get_thread(agent)
    with pytest.raises(StaleError):
        operator_memory.revert_key(row, "seat", first, NEVER, version=first, actor=BY)
    operator_memory.revert_key(row, "seat", first, NEVER, version=last, actor=BY)
    assert (get_line(agent).value, get_line(agent).set_by) == ("12A", BY)
    memory_acts.delete_key(agent, "seat")
    row = factories.get_thread(agent)
    operator_memory.revert_key(row, "seat", last, NEVER, version=None, actor=BY)
    assert get_line(agent).value == "14C"
    with pytest.raises(KeyNotFoundError):
        operator_memory.revert_key(row, "seat", 0, NEVER, version=last, actor=BY)


def test_retimed_inherited_value_is_written_to_the_fork(
    agent: Agent, thread: Thread
) -> None:
    operator_threads.fork(thread, actor=BY, name="alt", seq=thread.head_seq)
    fork = factories.get_thread(agent, "alt")
    seen = get_line(agent, name="alt")
    assert seen.inherited
    operator_memory.retime_key(
        fork, "seat", lasting(MINUTE), version=seen.version, actor=BY
    )
    assert not get_line(agent, name="alt").inherited
    assert get_line(agent, name="alt").value == "12A"


def test_checkpoints_are_taken_restored_and_deleted(
    agent: Agent, thread: Thread
) -> None:
    taken = operator_memory.take_checkpoint(thread, name="mine", actor=BY)
    with pytest.raises(NameTakenError):
        operator_memory.take_checkpoint(thread, name="mine", actor=BY)
    for name in ("7", "head", "mh.x", "a b", ""):
        with pytest.raises(InvalidError):
            operator_memory.take_checkpoint(thread, name=name, actor=BY)
    memory_acts.set_key(agent, "seat", "14C")
    # Writes made while the operator reads the preview do not matter.
    operator_memory.restore_checkpoint(thread, taken.seq, RESTORED, actor=BY)
    assert get_line(agent).value == "12A"
    memory_acts.set_key(agent, "seat", "14C")
    operator_threads.close(thread, actor=BY, reason="completed")
    with pytest.raises(ThreadClosedError):
        operator_memory.restore_checkpoint(thread, taken.seq, RESTORED, actor=BY)
    operator_memory.restore_checkpoint(
        thread, taken.seq, RESTORED, actor=BY, reopens=True
    )
    assert get_line(agent).value == "12A"
    assert factories.get_thread(agent).status == "open"
    operator_memory.delete_checkpoint(thread, taken.seq, actor=BY)
    again = operator_memory.delete_checkpoint(thread, taken.seq, actor=BY)
    assert not again.events
    with pytest.raises(CheckpointUnknownError):
        checkpoints.get_checkpoint(factories.get_thread(agent), taken.seq)
