from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import fields
from statistics import median

import pytest

from memoryhub import journal
from memoryhub.errors import (
    ForkTooDeepError,
    NameTakenError,
    NotFoundError,
    Refusal,
    ScopeConflictError,
    SeqUnknownError,
    StaleError,
    SubjectConflictError,
    ThreadClosedError,
    ThreadErasedError,
    ThreadFullError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.commands import RetireThread
from memoryhub.kernel.events import LabelValue, Limits
from memoryhub.kernel.state import Scope, ThreadState, to_json
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.services import slots, subjects, threads
from memoryhub.services.api_keys import Agent
from tests.factories import (
    append,
    get_thread,
    make_agent,
    make_slot,
    make_thread,
    run,
)

pytestmark = pytest.mark.django_db


def fork(
    agent: Agent,
    parent: str,
    name: str,
    *,
    seq: int | None = None,
    labels: dict[str, LabelValue] | None = None,
    **limits: int,
) -> Thread:
    row = get_thread(agent, parent)
    command = threads.fork_command(
        row,
        row.head_seq if seq is None else seq,
        scope=Scope(),
        labels=labels,
        config=Limits(**limits),
    )
    run(threads.fork(agent=agent, name=name, command=command))
    return get_thread(agent, name)


def amend(agent: Agent, thread: str = "t-1", **changes: object) -> Receipt:
    given = {"scope": Scope(), **changes}
    return run(threads.amend(agent=agent, thread=thread, **given))  # type: ignore[arg-type]  # as the test gives them


def state_of(thread: Thread, seq: int | None = None) -> ThreadState:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    return journal.state_at(row, row.head_seq if seq is None else seq).state


def contents(thread: Thread) -> list[object]:
    """The thread's messages as a reader sees them, its ancestors' included."""
    state = state_of(thread)
    lines = [
        line
        for part in state.lineage
        for line in own(Thread.objects.get(id=part.thread), part.first, part.end)
    ]
    return lines + own(thread, state.inherited, state.slot_count)


def own(thread: Thread, first: int, end: int) -> list[object]:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    slots = row.slots.filter(index__gte=first, index__lt=end).order_by("index")
    seqs = [slot.seq for slot in slots]
    opened = journal.contents(row.subject, row.project_id, row.id, seqs)
    return [opened[seq]["content"] for seq in seqs]


# Made and found


def test_a_thread_is_made_as_asked_and_begins_with_an_event(agent: Agent) -> None:
    scope = Scope(agent_type="airline", agent_instance="a-1", session="s-1")
    made = make_thread(agent, scope=scope, labels={"b": 2, "a": "x"}, max_slots=9)
    assert (made.agent_type, made.agent_instance, made.session) == (
        "airline",
        "a-1",
        "s-1",
    )
    assert made.labels == '{"a":"x","b":2}'
    assert made.config == '{"max_slots":9}'
    assert (made.head_seq, made.slot_count, made.status) == (1, 0, "open")
    assert [event.type for event in made.events.all()] == ["thread.created"]


def test_a_repeated_put_writes_nothing(agent: Agent) -> None:
    first = make_thread(agent, labels={"a": "x"}, max_slots=9)
    again = make_thread(agent, max_slots=3, labels={"b": "y"})
    assert again.id == first.id
    assert (again.head_seq, again.head_hash) == (1, first.head_hash)
    assert (again.config, again.labels) == (first.config, first.labels)


@pytest.mark.parametrize("level", [field.name for field in fields(Scope)])
def test_a_scope_level_is_filled_once_and_never_changed(
    agent: Agent, level: str
) -> None:
    make_thread(agent)
    make_thread(agent, scope=Scope(**{level: "one"}))
    make_thread(agent, scope=Scope(**{level: "one"}))
    assert get_thread(agent).head_seq == 2
    with pytest.raises(ScopeConflictError) as refusal:
        make_thread(agent, scope=Scope(**{level: "two"}))
    assert refusal.value.detail == {"level": level}
    with pytest.raises(ScopeConflictError):
        amend(agent, scope=Scope(**{level: "two"}))
    assert getattr(get_thread(agent), level) == "one"


def test_a_thread_never_changes_its_subject(agent: Agent) -> None:
    ann = make_thread(agent, user_id="ann")
    with pytest.raises(SubjectConflictError):
        make_thread(agent, user_id="bob")
    make_thread(agent, user_id="ann")
    make_thread(agent)
    assert get_thread(agent).subject_id == ann.subject_id
    assert get_thread(agent).head_seq == 1


def test_a_bound_key_makes_threads_of_its_subject_and_of_no_other(
    acme: Project,
) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    bound = make_agent(acme, subject=ann)
    assert make_thread(bound, "a").subject_id == ann.id
    append(bound, "b", "by writing")
    assert get_thread(bound, "b").subject_id == ann.id
    with pytest.raises(NotFoundError):
        make_thread(bound, "c", user_id="bob")


def test_a_thread_of_another_subject_is_as_absent(acme: Project) -> None:
    free = make_agent(acme)
    bound = make_agent(acme, subject=subjects.find_or_create(acme.id, "ann"))
    make_thread(free, "bobs", user_id="bob")
    refusals = []
    for name in ("bobs", "nowhere"):
        for attempt in (
            threads.close(agent=bound, thread=name, reason="completed"),
            threads.reopen(agent=bound, thread=name),
            threads.amend(agent=bound, thread=name, scope=Scope()),
        ):
            with pytest.raises(NotFoundError) as refusal:
                run(attempt)
            refusals.append((refusal.value.code, refusal.value.detail))
    assert len(set(map(str, refusals))) == 1


def test_lookup_is_exact(agent: Agent) -> None:
    for name in ("t-1", "t-10", "T-1", "t-1.", "t_1"):
        append(agent, name, name)
    for name in ("t-1", "t-10", "T-1", "t-1.", "t_1"):
        assert contents(get_thread(agent, name)) == [name]


# Amended, closed, ended


def test_labels_are_replaced_as_a_whole(agent: Agent) -> None:
    made = make_thread(agent, labels={"a": "x", "b": 1})
    amend(agent, labels={"c": True, "b": 0.5})
    rows = ThreadLabel.objects.filter(thread=made).order_by("name")
    assert [(row.name, row.value) for row in rows] == [("b", "0.5"), ("c", "true")]
    amend(agent, labels={})
    assert not ThreadLabel.objects.filter(thread=made).exists()
    assert get_thread(agent).labels == "{}"


def test_what_changes_nothing_writes_nothing(agent: Agent) -> None:
    make_thread(agent, labels={"a": "x"}, max_slots=5)
    amend(agent, labels={"a": "x"}, config={"max_slots": 5})
    amend(agent)
    run(threads.reopen(agent=agent, thread="t-1"))
    assert get_thread(agent).head_seq == 1


def test_a_limit_may_fall_below_what_exists(agent: Agent) -> None:
    append(agent, "t-1", "a", "b", "c")
    amend(agent, config={"max_slots": 2})
    with pytest.raises(ThreadFullError):
        append(agent, "t-1", "d")
    assert contents(get_thread(agent)) == ["a", "b", "c"]
    amend(agent, config={"max_slots": None})
    append(agent, "t-1", "d")
    assert get_thread(agent).slot_count == 4


def test_an_amendment_of_what_has_moved_is_refused(agent: Agent) -> None:
    seq = append(agent, "t-1", "a").seq
    append(agent, "t-1", "b")
    with pytest.raises(StaleError) as refusal:
        amend(agent, labels={"a": "x"}, if_match=seq)
    assert refusal.value.detail == {"head_seq": seq + 1}
    amend(agent, labels={"a": "x"}, if_match=seq + 1)


@pytest.mark.parametrize("reason", ["completed", "failed", "cancelled", "archived"])
def test_a_closed_thread_takes_no_writes_until_reopened(
    agent: Agent, reason: str
) -> None:
    append(agent, "t-1", "a")
    first = run(threads.close(agent=agent, thread="t-1", reason=reason))  # type: ignore[arg-type]  # one of the words
    again = run(threads.close(agent=agent, thread="t-1", reason=reason))  # type: ignore[arg-type]  # one of the words
    assert (first.seq, again.seq, again.events) == (3, 3, ())
    with pytest.raises(ThreadClosedError):
        append(agent, "t-1", "b")
    assert contents(get_thread(agent)) == ["a"]
    run(threads.reopen(agent=agent, thread="t-1"))
    append(agent, "t-1", "b")
    assert contents(get_thread(agent)) == ["a", "b"]


def test_a_closed_thread_can_be_forked(agent: Agent) -> None:
    append(agent, "t-1", "a")
    run(threads.close(agent=agent, thread="t-1", reason="completed"))
    child = fork(agent, "t-1", "child")
    assert child.status == "open"
    append(agent, "child", "b")
    assert contents(get_thread(agent, "child")) == ["a", "b"]


def retire(agent: Agent, name: str = "t-1") -> None:
    journal.perform(
        journal.Order(
            address=journal.Address(project=agent.project, name=name),
            command=RetireThread(policy_days=30, idle_days=31),
            actor="worker:retention",
        )
    )


def test_name_never_reborn(agent: Agent) -> None:
    append(agent, "t-1", "a")
    append(agent, "t-2", "a")
    retire(agent)
    parent = get_thread(agent, "t-2")
    command = threads.fork_command(
        parent, 1, scope=Scope(), labels=None, config=Limits()
    )
    attempts: list[Callable[[], object]] = [
        lambda: append(agent, "t-1", "b"),
        lambda: make_thread(agent),
        lambda: amend(agent),
        lambda: run(threads.close(agent=agent, thread="t-1", reason="completed")),
        lambda: run(threads.reopen(agent=agent, thread="t-1")),
        lambda: run(threads.fork(agent=agent, name="t-1", command=command)),
    ]
    for attempt in attempts:
        with pytest.raises(ThreadErasedError):
            attempt()
    assert Thread.objects.filter(name="t-1").count() == 1
    assert get_thread(agent).slot_count == 1


# Forked


def test_a_fork_goes_on_where_its_parent_stood(agent: Agent) -> None:
    append(agent, "t-1", "a", "b", "c")
    child = fork(agent, "t-1", "child", seq=3)
    assert (child.slot_count, child.head_seq, child.fork_seq) == (2, 1, 3)
    append(agent, "child", "C")
    append(agent, "t-1", "d")
    assert contents(get_thread(agent, "child")) == ["a", "b", "C"]
    assert contents(get_thread(agent)) == ["a", "b", "c", "d"]
    assert [slot.index for slot in get_thread(agent, "child").slots.all()] == [2]


def test_inherited_slots_count_against_a_forks_limit(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    fork(agent, "t-1", "child", max_slots=3)
    append(agent, "child", "c")
    with pytest.raises(ThreadFullError):
        append(agent, "child", "d")


def test_a_fork_needs_a_name_of_its_own_and_a_seq_that_is(agent: Agent) -> None:
    append(agent, "t-1", "a")
    append(agent, "taken", "x")
    with pytest.raises(NameTakenError):
        fork(agent, "t-1", "taken")
    with pytest.raises(NameTakenError):
        fork(agent, "t-1", "t-1")
    with pytest.raises(SeqUnknownError):
        fork(agent, "t-1", "child", seq=3)
    assert Thread.objects.count() == 2


def test_a_fork_may_have_32_ancestors_and_no_more(agent: Agent) -> None:
    append(agent, "f-0", "0")
    for depth in range(1, 33):
        fork(agent, f"f-{depth - 1}", f"f-{depth}")
        append(agent, f"f-{depth}", str(depth))
    with pytest.raises(ForkTooDeepError) as refusal:
        fork(agent, "f-32", "f-33")
    assert refusal.value.detail == {"max_depth": 32}
    deepest = get_thread(agent, "f-32")
    assert contents(deepest) == [str(depth) for depth in range(33)]
    assert len(state_of(deepest).lineage) == 32


#: Of a state, what makes a fork another thread than its parent.
IDENTITY = {"id", "seq", "at", "status", "scope", "labels", "config", "depth"}
IDENTITY |= {"lineage", "inherited", "created_at", "active_seq", "active_at"}


def inherited(state: ThreadState) -> dict[str, object]:
    return {name: to_json(state)[name] for name in to_json(state).keys() - IDENTITY}


class Scribbler:
    """Writes anything that can be written to threads, from a seed."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent = agent
        self.chance = random.Random(seed)

    def write(self, thread: str) -> None:
        rare = [self._label, self._limit, self._close, self._reopen, self._fill]
        attempt = self.chance.choice([*[self._append] * 3, *rare])
        try:
            attempt(thread)
        except (ThreadClosedError, ThreadFullError, ScopeConflictError):
            return

    def _append(self, thread: str) -> None:
        append(self.agent, thread, *(self.chance.random() for _ in range(3)))

    def _label(self, thread: str) -> None:
        amend(self.agent, thread, labels={"n": self.chance.randrange(4)})

    def _limit(self, thread: str) -> None:
        amend(self.agent, thread, config={"max_slots": self.chance.randrange(50, 500)})

    def _close(self, thread: str) -> None:
        run(threads.close(agent=self.agent, thread=thread, reason="archived"))

    def _reopen(self, thread: str) -> None:
        run(threads.reopen(agent=self.agent, thread=thread))

    def _fill(self, thread: str) -> None:
        amend(self.agent, thread, scope=Scope(session=self.chance.choice("ab")))


@pytest.mark.parametrize(
    ("seed", "length"),
    [(1, 40), (2, 40), pytest.param(3, 200, marks=pytest.mark.nightly)],
)
def test_fork_equals_state_at(agent: Agent, seed: int, length: int) -> None:
    scribbler = Scribbler(agent, seed)
    append(agent, "t-1", "first")
    for _ in range(length):
        scribbler.write("t-1")
    parent = get_thread(agent)
    seq = scribbler.chance.randrange(1, parent.head_seq + 1)
    child = fork(agent, "t-1", "child", seq=seq)
    assert inherited(state_of(child)) == inherited(state_of(parent, seq))
    for _ in range(length):
        before = to_json(state_of(child))
        scribbler.write("t-1")
        assert to_json(state_of(child)) == before
    for _ in range(length):
        before = to_json(state_of(parent))
        scribbler.write("child")
        assert to_json(state_of(parent)) == before
    assert to_json(state_of(child, 1)) == to_json(journal_fold(child, 1))


def journal_fold(thread: Thread, seq: int) -> ThreadState:
    """The state from the events alone, without any snapshot."""
    Snapshot.objects.filter(thread=thread).delete()
    return state_of(thread, seq)


def test_a_fork_copies_no_content(agent: Agent) -> None:
    append(agent, "t-1", *("x" * 1000 for _ in range(20)))
    child = fork(agent, "t-1", "child")
    assert Event.objects.filter(thread=child).count() == 1
    assert not child.slots.exists()
    assert not Event.objects.filter(thread=child, payload__isnull=False).exists()


def test_a_refused_write_leaves_a_thread_as_it_was(agent: Agent) -> None:
    append(agent, "t-1", "a")
    run(threads.close(agent=agent, thread="t-1", reason="failed"))
    before = Thread.objects.values().get(name="t-1")
    for attempt in (
        lambda: append(agent, "t-1", "b"),
        lambda: append(agent, "t-1", "b", if_match=1),
        lambda: amend(agent, if_match=1),
        lambda: fork(agent, "t-1", "t-1"),
    ):
        with pytest.raises(Refusal):
            attempt()
    assert Thread.objects.values().get(name="t-1") == before


def seconds_to_fork(agent: Agent, parent: str, name: str) -> float:
    row = get_thread(agent, parent)
    began = time.process_time()
    fork_of(agent, row, name)
    return time.process_time() - began


def fork_of(agent: Agent, parent: Thread, name: str) -> None:
    seq = parent.head_seq
    command = threads.fork_command(
        parent, seq, scope=Scope(), labels=None, config=Limits()
    )
    run(threads.fork(agent=agent, name=name, command=command))


def grow(agent: Agent, thread: str, size: int) -> None:
    batch = [make_slot("x")] * 200
    for done in range(0, size, 200):
        run(slots.append(agent=agent, thread=thread, slots=batch[: size - done]))


@pytest.mark.parametrize("size", [1_100, 2_300])
def test_a_fork_costs_the_same_statements_at_any_size(
    agent: Agent, size: int, django_assert_num_queries
) -> None:
    grow(agent, "t-1", size)
    parent = get_thread(agent)
    fork_of(agent, parent, "warm")
    # Its state: snapshot, chain there, events. Its birth: savepoint, heads, fence,
    # thread count, thread, event, release.
    with django_assert_num_queries(10):
        fork_of(agent, parent, "child")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_fork_cost_flat(agent: Agent) -> None:
    """A fork of 100,000 slots costs at most twice one of 100.

    Both stand equally far, 100 events, behind a place to start folding from.
    """
    make_thread(agent, "large", max_slots=200_000)
    grow(agent, "small", 100)
    grow(agent, "large", 100_100)
    small, large = [], []
    for number in range(61):
        small.append(seconds_to_fork(agent, "small", f"s-{number}"))
        large.append(seconds_to_fork(agent, "large", f"l-{number}"))
    assert median(large) / median(small) <= 2
