"""A hub's life as a seed decides it: acts, passing time, erasures and kills.

Runs in an instance of its own, one process for each part of the life. All parts but the
last are killed around one of their commits; the next goes on with what is stored. Time
stands still but for what the seed lets pass, so that a seed decides everything.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Callable
from typing import Any

import orjson
import time_machine

from memoryhub.errors import Refusal
from memoryhub.kernel.paging.page_commands import EvictPage, FaultPage
from memoryhub.kernel.state_json import to_json
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.observing import observers
from memoryhub.services.paging import page_faults
from tests.cast import forgetting
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_project,
    make_thread,
    run,
)
from tests.harness import killing
from tests.oracles.memory_acts import DAY, NOON
from tests.oracles.page_acts import act
from tests.promises.forget import test_erasures
from tests.promises.forget.test_erasures import Life
from tests.promises.journal.appender import tell
from tests.replay import assert_all_replay
from tests.services.acts import fork, state_of

#: Ids, and the names that erased names are replaced by.
CHANCE = re.compile(r"~[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PARTS, STEPS = 3, 40
#: Commits after which a part is killed.
COMMITS = (5, 30)
SLUG = "acme"
SETTINGS: dict[str, Any] = {
    "observe": True,
    "budget_tokens": 2_400,
    "reserved_tokens": 800,
    "observe_keep_tokens": 300,
}


class SeededLife(Life):
    """Part of a life, which goes on with the threads that are stored."""

    def __init__(self, agent: Agent, seed: int, part: int) -> None:
        super().__init__(agent, seed)
        self.chance = random.Random(f"{seed}/{part}")  # a seed repeats it
        self.part = part
        self.threads = []

    def act(self, traveller: time_machine.Traveller) -> str:
        """Do one random thing; return its name and its outcome."""
        traveller.shift(self.chance.choice([0.1, 1, 3]))
        stored = Thread.objects.filter(home=False).exclude(name__startswith="~")
        self.threads = sorted(stored.values_list("name", flat=True))
        if not self.threads:
            self.meet()
            return "meet"
        (name,) = self.chance.choices([*ACTS], [OFTEN.get(each, 1) for each in ACTS])
        thread = self.chance.choice(self.threads)
        self.done[name] += 1
        try:
            ACTS[name](self, thread)
        except Refusal as refusal:
            return f"{name} {thread}: {refusal.code}"
        return f"{name} {thread}"

    def meet(self) -> None:
        """Make a thread of somebody new."""
        name = f"t-{Thread.objects.count()}"
        make_thread(self.agent, name, user_id=f"of-{name}", **SETTINGS)

    def say(self, thread: str) -> None:
        append(self.agent, thread, *["It goes on like this. " * 20] * 3)

    def evict(self, thread: str) -> None:
        act(self.agent, EvictPage(page_id=self.pick_key()), thread)

    def fault(self, thread: str) -> None:
        command = FaultPage(page_id=self.pick_key(), level=self.chance.randrange(3))
        run(page_faults.fault_page(agent=self.agent, thread=thread, command=command))

    def observe(self, thread: str) -> None:
        run(observers.observe_now(agent=self.agent, thread=thread))

    def fork(self, thread: str) -> None:
        if len(self.threads) < 4:
            name = f"t-{Thread.objects.count()}"
            fork(self.agent, thread, name)

    def forget_person(self, thread: str) -> None:
        forgetting.forget(get_thread(self.agent, thread).subject)


ACTS: dict[str, Callable[[SeededLife, str], object]] = {
    **test_erasures.ACTS,
    **{
        name: getattr(SeededLife, name)
        for name in ("say", "evict", "fault", "observe", "fork", "forget_person")
    },
}
OFTEN = {**test_erasures.OFTEN, "say": 5, "observe": 3, "restore": 3, "fork": 2}
OFTEN |= {"make_page": 4, "evict": 3, "fault": 4, "forget_person": 2}


def live_part(seed: int, part: int) -> None:
    """Live a part; print each act with the digest of all that is stored after it."""
    clock.use_source(time.time_ns)
    with time_machine.travel(NOON + part * DAY, tick=False) as traveller:
        if not part:
            make_project(SLUG)
        life = SeededLife(make_agent(Project.objects.get(slug=SLUG)), seed, part)
        if part + 1 < PARTS:
            moment = life.chance.choice(killing.MOMENTS)
            killing.die_at(moment, life.chance.randrange(*COMMITS))
        end_erasures()
        tell(f"part {part} {digest()}")
        for _ in range(STEPS):
            said = life.act(traveller)
            assert_all_replay()
            tell(f"{said} {digest()}")


def end_erasures() -> None:
    """Go on with an erasure in the middle of which the part before was killed."""
    for begun in Erasure.objects.exclude(state__in=["planned", "complete"]):
        row = begun
        while row.state != Erasure.State.COMPLETE:
            row = erasures.advance_erasure(row)
            assert not row.waiting_on, row.waiting_on


def digest() -> str:
    """Return a digest of every thread, with what is made by chance by first appearance.

    Of an erased thread nothing but its length, for it is folded no more.
    """
    names: dict[str, int] = {}
    # Ids that were made at one instant are in any order.
    rows = sorted(Thread.objects.all(), key=lambda row: (row.id.int >> 80, row.home))
    erased = Thread.Status.ERASED
    held = [
        row.head_seq if row.status == erased else to_json(state_of(row)) for row in rows
    ]
    text = orjson.dumps(held).decode()
    plain = CHANCE.sub(lambda found: str(names.setdefault(found[0], len(names))), text)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]
