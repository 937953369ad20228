"""Differences between two moments: values, texts, and how much of each."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.kernel.text import strict_json
from memoryhub.queries.lists import cursors
from memoryhub.queries.memory import comparisons
from memoryhub.queries.memory.comparisons import HEAD
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import keys
from tests.cast.factories import get_thread, run
from tests.oracles.memory_acts import take
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db


def put(agent: Agent, key: str, value: object) -> None:
    change = keys.build_setting(key, value, Expiry())
    run(keys.change_keys(agent=agent, thread="t-1", changes=(change,)))


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
def test_comparison_tells_true_from_one(
    agent: Agent, before: Any, after: Any, kind: str
) -> None:
    put(agent, "k", before)
    take(agent, "then")
    put(agent, "k", after)
    assert kinds(agent) == {"k": kind}


def test_comparison_opens_no_more_than_a_part_may_hold(
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
    def set_task(step: int, **texts: object) -> None:
        said = {**texts, "current_step": step, "started_at": None}
        sealed: Any = {n: strict_json.dump_stored(value) for n, value in said.items()}
        act(agent, SetTask(fields=sealed))

    def list_fields() -> tuple[str, ...]:
        return comparisons.compare(get_thread(agent), "then", HEAD).slices["task"]

    set_task(1, description="Refund", data={"left": [1, True]})
    take(agent, "then")
    set_task(2, description="Refund", data={"left": [1, True]})
    assert list_fields() == ("current_step",)
    set_task(1, description="Refund", data={"left": [True, 1]})
    assert list_fields() == ("data",)
    set_task(1, data={"left": [1, True]})
    assert list_fields() == ("description",)


def test_each_slice_is_compared() -> None:
    assert {each.slice.name for each in COMPARED} == SLICES.keys()
