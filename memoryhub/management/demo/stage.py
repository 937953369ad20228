"""The stage: starts the agents beside the server, and stops them before it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from memoryhub.management.demo import agents
from memoryhub.management.demo.agents import FIRST_GUEST, Life, StoppedError
from memoryhub.management.demo.client import Client, RefusedError

#: A refusal or a dropped connection; the agent goes on after it.
PAUSE_SECONDS = 2.0
HISTORY, OFFICER = "history", "privacy-officer"
#: Whoever writes; each has a key of its own.
WRITERS = (HISTORY, *agents.AGENTS)


@dataclass(slots=True, kw_only=True)
class Stage:
    """All agents of the demo. The same seed says the same things."""

    host: str
    port: int
    #: By agent, each under its own name; the officer's may forget, and reads no memory.
    keys: Mapping[str, str]
    seed: int
    speed: float
    #: 1 on a new folder; later ones go on with what is there.
    run: int = 1
    stopped: threading.Event = field(default_factory=threading.Event)
    #: By story, how many threads earlier runs had of it.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: By agent, the threads that they have left open.
    left: Mapping[str, list[str]] = field(default_factory=dict)
    #: What went wrong lately, by agent: statuses, codes and types only.
    trouble: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    _lives: dict[str, Life] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin; returns at once."""
        self._spawn(HISTORY, self._begin)

    def stop(self) -> None:
        """Have everybody finish their sentence, and wait for it."""
        self.stopped.set()
        while self._threads:
            self._threads.pop().join()

    @property
    def accepted(self) -> dict[str, int]:
        """How many requests of each agent the server took."""
        return {name: life.client.accepted for name, life in dict(self._lives).items()}

    @property
    def silent(self) -> list[str]:
        """Who has not had a request taken yet."""
        return [name for name, count in self.accepted.items() if not count]

    def _begin(self) -> None:
        if self.run == 1:
            self._act(HISTORY, agents.tell_history)
        plays = {**agents.AGENTS, OFFICER: agents.privacy_officer}
        for name, play in plays.items():
            if not self.stopped.is_set():
                self._spawn(name, lambda name=name, play=play: self._act(name, play))  # type: ignore[misc]  # bound now

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=f"demo-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _act(self, name: str, play: Callable[[Life], None]) -> None:
        life = self._life(name)
        self._lives[name] = life
        with suppress(StoppedError):
            while not self._played(name, life, play):
                life.rest(PAUSE_SECONDS)

    def _played(self, name: str, life: Life, play: Callable[[Life], None]) -> bool:
        """False when it has to begin again, with other threads."""
        try:
            life.clear_up()
            play(life)
        except (RefusedError, OSError, ValueError) as failure:
            self._note(name, failure)
            return False
        return True

    def _life(self, name: str) -> Life:
        return Life(
            client=Client(host=self.host, port=self.port, key=self.keys[name]),
            # Seeded by a text, so that agents differ and no hash seed matters.
            chance=Random(f"{self.seed} {self.run} {name}"),  # noqa: S311  # no secret
            stopped=self.stopped,
            speed=self.speed,
            guest=f"{FIRST_GUEST}-{self.run}" if self.run > 1 else FIRST_GUEST,
            counts=Counter(self.counts),
            open=[*self.left.get(name, ())],
        )

    def _note(self, name: str, failure: Exception) -> None:
        if isinstance(failure, RefusedError):
            self.trouble.append(f"{name}: {failure}")
        else:
            self.trouble.append(f"{name}: {type(failure).__name__}")


def stories(names: Iterable[str]) -> dict[str, int]:
    """How many threads each story has had, of their names."""
    counts: dict[str, int] = {}
    for name in names:
        story, _, number = name.rpartition("-")
        found = (story, int(number)) if number.isdecimal() else (name, 1)
        counts[found[0]] = max(found[1], counts.get(found[0], 0))
    return counts
