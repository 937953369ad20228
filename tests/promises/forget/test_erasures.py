"""Chains after erasures: whole, with every record that still counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from memoryhub.errors import Refusal, UnavailableError
from memoryhub.journal.log.log import Origins
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from memoryhub.workers import expiry
from tests.cast.factories import append, get_thread
from tests.oracles.memory_acts import (
    NEVER,
    NOON,
    SECOND,
    clear,
    delete_key,
    dues,
    forget_checkpoint,
    key_rows,
    lasting,
    new_key,
    restore,
    retime,
    set_keys,
    take,
)
from tests.oracles.page_acts import act, make_pages, new_page, new_text
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db

STEPS = 50


class Life:
    """Threads to which all kinds of things happen while time passes."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.chance = agent, random.Random(seed)
        self.threads = [f"{seed}-0"]
        self.pages: set[tuple[str, str]] = set()
        self.done: Counter[str] = Counter()
        self.grace = self.chance.choice([0, 1, 5])
        project = Project.objects.get(id=agent.project)
        projects.set_lifetimes(
            project, default_ttl_seconds=None, grace_seconds=self.grace
        )

    def step(self, traveller: Any) -> bool:
        """Do one random thing; return whether it may have erased something."""
        traveller.shift(SECOND / 2 * self.chance.randrange(3))
        (name,) = self.chance.choices([*ACTS], [OFTEN.get(each, 1) for each in ACTS])
        thread = self.chance.choice(self.threads)
        try:
            took = ACTS[name](self, thread)
        except UnavailableError:
            raise
        except Refusal:
            return False
        self.done[name] += 1
        return bool(took)

    def pick_key(self) -> str:
        return self.chance.choice("ab")

    def pick_expiry(self) -> Expiry:
        ttl = self.chance.choice([SECOND, 2 * SECOND, 6 * SECOND, None])
        return NEVER if ttl is None else lasting(ttl)

    def append(self, thread: str) -> None:
        append(self.agent, thread, "hello")

    def set(self, thread: str) -> None:
        names = self.chance.sample("abc", self.chance.randint(1, 3))
        keys = (new_key(name, self.done["set"], self.pick_expiry()) for name in names)
        set_keys(self.agent, *keys, thread=thread)

    def retime(self, thread: str) -> None:
        retime(self.agent, self.pick_key(), self.pick_expiry(), thread)

    def delete(self, thread: str) -> None:
        delete_key(self.agent, self.pick_key(), thread)

    def clear(self, thread: str) -> None:
        clear(self.agent, thread)

    def take(self, thread: str) -> None:
        take(self.agent, self.chance.choice("xyz"), thread)

    def restore(self, thread: str) -> None:
        restore(self.agent, self.chance.choice("xyz"), ("keys", "frames"), thread)

    def forget(self, thread: str) -> None:
        forget_checkpoint(self.agent, self.chance.choice("xyz"), thread)

    def make_page(self, thread: str) -> None:
        make_pages(self.agent, new_page(self.pick_key()), thread=thread)

    def rewrite(self, thread: str) -> None:
        act(self.agent, new_text(self.pick_key(), "other"), thread)

    def drop(self, thread: str) -> bool:
        return bool(act(self.agent, DeletePage(page_id=self.pick_key()), thread).events)

    def fork(self, thread: str) -> None:
        head = get_thread(self.agent, thread).head_seq
        name = f"{self.threads[0]}-{len(self.threads)}"
        seq = self.chance.randint(max(1, head - 5), head)
        if len(self.threads) < 4:
            fork(self.agent, thread, name, seq=seq)
            self.threads.append(name)

    def sweep(self, thread: str) -> int:
        return expiry.expire(datetime.now(tz=NOON.tzinfo))

    def erase(self, thread: str) -> int:
        return expiry.erase(datetime.now(tz=NOON.tzinfo))


ACTS: dict[str, Callable[[Life, str], object]] = {
    name: getattr(Life, name)
    for name in (
        *("append", "set", "retime", "delete", "clear", "take", "restore", "forget"),
        *("make_page", "rewrite", "drop", "fork", "sweep", "erase"),
    )
}
#: Weights of acts that must coincide to erase or save a value in time.
OFTEN = {"set": 3, "retime": 6, "take": 2, "sweep": 2, "erase": 4}


def assert_whole(life: Life) -> None:
    """Assert that each chain verifies, and that all unerased records can be read."""
    origins = Origins()
    for name in life.threads:
        row = get_thread(life.agent, name)
        assert verify(row, origins=origins) is None
        nothing_that_counts_is_gone(row)


def nothing_that_counts_is_gone(thread: Thread) -> None:
    state = state_of(thread)
    now = max(state.at or NOON, datetime.now(tz=NOON.tzinfo))
    held: list[KeyEntry] = [*state.memory.contents.keys.values()]
    for point in state.memory.checkpoints.values():
        held += point.contents.keys.values()
    for entry in held:
        if entry.is_visible(now):
            home, seq = state.locate_event(entry.value)
            assert Event.objects.get(thread=home, seq=seq).payload is not None


def is_over(life: Life, traveller: Any) -> None:
    """Assert that days later all expiring values are gone, and no others."""
    traveller.shift(timedelta(days=1))
    life.sweep("")
    life.erase("")
    assert_whole(life)
    for name in life.threads:
        row = get_thread(life.agent, name)
        assert dues(row) == {}
        rows = key_rows(row)
        assert {each["expires_at"] for each in rows} <= {None}
        rebuild(row)
        assert (key_rows(row), dues(row)) == (rows, {})


def lived(life: Life, traveller: Any) -> None:
    for _ in range(STEPS):
        if life.step(traveller):
            life.done["erasures"] += 1
            assert_whole(life)
    is_over(life, traveller)


@pytest.mark.promise("P5", load="{lives} lives of 50 steps")
@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(12, id="some"),
        pytest.param(
            3_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7_200)], id="many"
        ),
    ],
)
def test_erasure_keeps_the_chain_valid(agent: Agent, lives: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(lives):
        with time_machine.travel(NOON, tick=False) as traveller:
            life = Life(agent, seed)
            life.append(life.threads[0])
            try:
                lived(life, traveller)
            except AssertionError as failure:
                failure.add_note(f"seed {seed}")
                raise
        done += life.done
    assert {*ACTS} <= {*done}
    erased = Event.objects.filter(erased_by__isnull=False).count()
    assert min(erased, done["erasures"]) > lives
