"""Checkpoints of large and small threads: runs inside an instance."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from benchmarks.hubs import PROJECT
from memoryhub.kernel.commands import Command
from memoryhub.kernel.memory.checkpoints import RestoreCheckpoint, TakeCheckpoint
from memoryhub.kernel.memory.keys import ChangeKeys, SetKey
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.models.projects import Project
from memoryhub.queries.memory import comparisons
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keyring
from tests.cast import factories
from tests.oracles.page_acts import act

CHANGED = 10
#: Keys that one command sets.
AT_ONCE = 200


class Keeper:
    """Thread of so many keys, ten of which change again and again."""

    def __init__(self, agent: Agent, keys: int) -> None:
        self.agent = agent
        self.name = f"keys-{keys}"
        self.values = 0
        for first in range(0, keys, AT_ONCE):
            self.set(range(first, min(first + AT_ONCE, keys)))
        self.base = self.take()

    def do(self, command: Command) -> int:
        """Do a command and return the thread's seq after it."""
        return act(self.agent, command, self.name).seq

    def set(self, numbers: range) -> None:
        self.values += 1
        value = str(self.values).encode()
        changes = tuple(
            SetKey(key=f"k-{n}", value=value, bytes=len(value)) for n in numbers
        )
        self.do(ChangeKeys(changes=changes))

    def take(self) -> int:
        return self.do(TakeCheckpoint())

    def compare(self) -> None:
        row = factories.get_thread(self.agent, self.name)
        found = comparisons.compare(row, self.base, "head")
        assert len(found.keys.items) == CHANGED

    def restore(self) -> None:
        self.do(RestoreCheckpoint(target=self.base, parts=RESTORED))

    def round(self) -> dict[str, float]:
        """Return CPU seconds of each act, after ten keys have changed."""
        self.set(range(CHANGED))
        acts: dict[str, Callable[[], object]] = {
            "take": self.take,
            "compare": self.compare,
            "restore": self.restore,
        }
        return {name: _timed(work) for name, work in acts.items()}


def measure(*, sizes: list[int], rounds: int) -> None:
    """Print the seconds of each round of each size, the sizes by turns."""
    keyring.prepare(empty=False)
    agent = factories.make_agent(Project.objects.get(slug=PROJECT))
    keepers = [Keeper(agent, size) for size in sizes]
    for keeper in keepers:
        keeper.round()
    taken = [[keeper.round() for keeper in keepers] for _ in range(rounds)]
    sys.stdout.write(json.dumps(taken))


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
