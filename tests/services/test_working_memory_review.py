"""What a review of working memory found wrong, each held to what it should be."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import StaleError, SubjectRestrictedError
from memoryhub.kernel import strict_json
from memoryhub.kernel.memory_commands import (
    Expected,
    Expiry,
    SetTask,
    TakeCheckpoint,
)
from memoryhub.models import Subject
from memoryhub.queries import comparisons, cursors, memory_checks
from memoryhub.queries.comparisons import HEAD
from memoryhub.services import checkpoints, keys
from memoryhub.services.api_keys import Agent
from tests.factories import get_thread, make_thread, run
from tests.memory_acts import MINUTE, NEVER, NOON, at, fork_of, set_key, take
from tests.page_acts import act

pytestmark = pytest.mark.django_db


def put(agent: Agent, key: str, value: object) -> None:
    change = keys.setting(key, value, Expiry())
    run(keys.change(agent=agent, thread="t-1", changes=(change,)))


def kinds(agent: Agent) -> dict[str, str]:
    found = comparisons.compare(get_thread(agent), "then", HEAD)
    return {each.name: each.kind for each in found.keys.items}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([1, True], [True, 1], "changed"),
        ({"a": 0, "b": False}, {"a": False, "b": 0}, "changed"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "rewritten"),
    ],
)
def test_true_and_one_are_two_values(
    agent: Agent, before: Any, after: Any, kind: str
) -> None:
    put(agent, "k", before)
    take(agent, "then")
    put(agent, "k", after)
    assert kinds(agent) == {"k": kind}


def test_a_comparison_opens_no_more_than_a_part_may_hold(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of one length are opened to be compared, whether they are shown or not."""
    monkeypatch.setattr(comparisons, "PART_BYTES", 100)
    for key in "abc":
        put(agent, key, "x" * 40)
    take(agent, "then")
    for key in "abc":
        put(agent, key, "y" * 40)
    thread, after, parts = get_thread(agent), None, []
    while True:
        part = comparisons.compare(thread, "then", HEAD, after=after)
        parts.append([each.name for each in part.keys.items])
        after = part.keys.next
        if after is None:
            break
    assert parts == [["a"], ["b"], ["c"]]
    assert cursors.PART_BYTES > 100


def test_texts_of_a_task_that_were_set_again_are_no_difference(agent: Agent) -> None:
    def task(step: int, **texts: object) -> None:
        sealed: Any = {n: strict_json.as_sent(text) for n, text in texts.items()}
        act(agent, SetTask(current_step=step, texts=sealed, started=True))

    def fields() -> tuple[str, ...]:
        return comparisons.compare(get_thread(agent), "then", HEAD).task

    task(1, description="Refund", data={"left": [1, True]})
    take(agent, "then")
    task(2, description="Refund", data={"left": [1, True]})
    assert fields() == ("current_step",)
    task(1, description="Refund", data={"left": [True, 1]})
    assert fields() == ("data",)
    task(1, data={"left": [1, True]})
    assert fields() == ("description",)


def test_a_restricted_fork_does_not_tell_which_keys_it_inherits(agent: Agent) -> None:
    make_thread(agent)
    seq = set_key(agent, "k").seq
    fork_of(agent, "t-1", "child", seq=seq)
    Subject.objects.update(state=Subject.State.RESTRICTED)
    for key in ("k", "nothing"):
        with pytest.raises(SubjectRestrictedError):
            run(
                keys.retime(
                    agent=agent,
                    thread="child",
                    key=key,
                    expiry=NEVER,
                    expected=Expected(),
                )
            )


def test_no_condition_is_left_unread(agent: Agent) -> None:
    """Whatever names the head it saw is refused once that has moved on."""
    make_thread(agent)
    set_key(agent, "k")
    seq = take(agent, "then").seq
    asked: list[Any] = [
        keys.clear(agent=agent, thread="t-1", if_match=seq - 1),
        keys.change(
            agent=agent,
            thread="t-1",
            changes=(keys.setting("k", 1, Expiry()),),
            if_match=seq - 1,
        ),
        checkpoints.take(
            agent=agent, thread="t-1", command=TakeCheckpoint(), if_match=seq - 1
        ),
        checkpoints.delete(agent=agent, thread="t-1", target="then", if_match=seq - 1),
    ]
    for each in asked:
        with pytest.raises(StaleError):
            run(each)
    assert get_thread(agent).head_seq == seq
    gone = checkpoints.delete(agent=agent, thread="t-1", target="then", if_match=seq)
    assert run(gone).seq == seq + 1


def test_a_thread_full_of_expired_keys_is_not_full(agent: Agent) -> None:
    with at(NOON):
        make_thread(agent, max_keys=2)
        set_key(agent, "a", ttl=MINUTE)
        set_key(agent, "b", ttl=MINUTE)
    project = get_thread(agent).project
    full = [
        memory_checks.get_memory_checks(project, now=moment).full
        for moment in (NOON, NOON + MINUTE)
    ]
    assert full == [("t-1",), ()]
