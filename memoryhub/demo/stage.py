"""The stage: starts the agents beside the server, and stops them before it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from memoryhub.demo import agents
from memoryhub.demo.agents import FIRST_GUEST, AgentLife, StoppedError
from memoryhub.demo.client import DemoClient, ServerRefusedError

#: Seconds that an agent waits after a refusal or a dropped connection.
PAUSE_SECONDS = 2.0
HISTORY, OFFICER = "history", "privacy-officer"
#: Agents that write; each has a key of its own.
WRITERS = (HISTORY, *agents.AGENTS)


@dataclass(slots=True, kw_only=True)
class Stage:
    """All agents of the demo. The same seed produces the same texts."""

    host: str
    port: int
    #: API keys by agent; the officer's key may erase and cannot read memory.
    keys: Mapping[str, str]
    seed: int
    speed: float
    #: Number of the run: 1 on a new folder; later runs continue its threads.
    run: int = 1
    stopped: threading.Event = field(default_factory=threading.Event)
    #: Number of threads of earlier runs, by story.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: Threads left open by earlier runs, by agent.
    left: Mapping[str, list[str]] = field(default_factory=dict)
    #: Latest failures, each with its agent: statuses, codes and types only.
    trouble: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    _lives: dict[str, AgentLife] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start the agents; return at once."""
        self._spawn_thread(HISTORY, self._begin_plays)

    def stop(self) -> None:
        """Have all agents finish their sentence, and wait for them."""
        self.stopped.set()
        while self._threads:
            self._threads.pop().join()

    @property
    def accepted(self) -> dict[str, int]:
        """Number of accepted requests, by agent."""
        return {name: life.client.accepted for name, life in dict(self._lives).items()}

    @property
    def silent(self) -> list[str]:
        """Agents without an accepted request."""
        return [name for name, count in self.accepted.items() if not count]

    def _begin_plays(self) -> None:
        if self.run == 1:
            self._run_agent(HISTORY, agents.tell_history)
        plays = {**agents.AGENTS, OFFICER: agents.run_privacy_officer}
        for name, play in plays.items():
            if not self.stopped.is_set():
                self._spawn_thread(name, partial(self._run_agent, name, play))

    def _spawn_thread(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=f"demo-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_agent(self, name: str, play: Callable[[AgentLife], None]) -> None:
        life = self._build_life(name)
        self._lives[name] = life
        with suppress(StoppedError):
            while not self._play_through(name, life, play):
                life.rest_for(PAUSE_SECONDS)

    def _play_through(
        self, name: str, life: AgentLife, play: Callable[[AgentLife], None]
    ) -> bool:
        """Play through; return False if a failure means that the agent has to start
        again."""
        try:
            life.clear_up()
            play(life)
        except (ServerRefusedError, OSError, ValueError) as failure:
            self._note_failure(name, failure)
            return False
        return True

    def _build_life(self, name: str) -> AgentLife:
        return AgentLife(
            client=DemoClient(host=self.host, port=self.port, key=self.keys[name]),
            # Seeded by a text, so that agents differ and no hash seed matters.
            chance=Random(f"{self.seed} {self.run} {name}"),  # noqa: S311  # no secret
            stopped=self.stopped,
            speed=self.speed,
            guest=f"{FIRST_GUEST}-{self.run}" if self.run > 1 else FIRST_GUEST,
            counts=Counter(self.counts),
            open=[*self.left.get(name, ())],
        )

    def _note_failure(self, name: str, failure: Exception) -> None:
        if isinstance(failure, ServerRefusedError):
            self.trouble.append(f"{name}: {failure}")
        else:
            self.trouble.append(f"{name}: {type(failure).__name__}")


def count_stories(names: Iterable[str]) -> dict[str, int]:
    """Count the threads of each story, from the names of the threads."""
    counts: dict[str, int] = {}
    for name in names:
        story, _, number = name.rpartition("-")
        found = (story, int(number)) if number.isdecimal() else (name, 1)
        counts[found[0]] = max(found[1], counts.get(found[0], 0))
    return counts
