"""The configured model, as workers ask it: counted, within what a day has for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.db import connections

from memoryhub import journal
from memoryhub.journal.writing.activity import ModelOutcome, ModelRole, activity
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import model_use
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.model_calls import Ask, Message, Reply
from memoryhub.workers.leases import Held
from memoryhub.workers.loops import Loop

#: How long nobody is asked while the model is away, or a project's day is used up.
AWAY, USED_UP = timedelta(minutes=1), timedelta(minutes=10)
#: How long one round asks. A project that had nothing to ask when it began waits no
#: longer than this, and for the calls at hand.
ROUND = timedelta(seconds=10)


def model() -> Ask | None:
    """Return what asks the configured model; None without one."""
    if settings.MODEL is None:
        return None
    # It needs an extra that nobody has who needs no model.
    client = import_module("memoryhub.services.model_client")
    ask: Ask = client.ModelClient(settings.MODEL).ask
    return ask


def host() -> str | None:
    """Return whom messages are given to."""
    return settings.MODEL.host if settings.MODEL else None


def is_used_up(project: UUID, now: datetime) -> bool:
    """Return whether a project has no tokens left of its day."""
    journal.run(activity.flush)
    spent = model_use.get_use(project, now=now).tokens
    return spent >= settings.MODEL_DAILY_TOKENS


@dataclass(slots=True)
class Run:
    """A model that is asked for one purpose, and what becomes of it."""

    ask: Ask
    outcome: ModelOutcome = "void"
    calls: int = 0
    tokens: int = 0

    @property
    def answered(self) -> bool:
        """Whether what was asked last was answered."""
        return self.calls > 0 and self.outcome != "no_model"

    def __call__(self, messages: Sequence[Message]) -> Reply:
        self.calls, self.outcome = self.calls + 1, "no_model"
        reply = self.ask(messages)
        self.outcome = "void"
        self.tokens += reply.tokens_in + reply.tokens_out
        return reply

    def wrote(self, *, useless: bool) -> None:
        """Note that its answer was written, or that it was of no use."""
        if self.outcome != "no_model":
            self.outcome = "useless" if useless else "written"


@contextmanager
def counted(ask: Ask, project: UUID, role: ModelRole) -> Iterator[Run]:
    """Count a run for the project, whatever becomes of it."""
    run = Run(ask)
    try:
        yield run
    finally:
        if run.calls:
            activity.model_asked(
                project, role, run.outcome, calls=run.calls, tokens=run.tokens
            )


@dataclass(slots=True, kw_only=True)
class ModelWorker(ABC):
    """Asks the model for what is due, round after round, until it is stopped.

    In a thread of its own, for an answer may take a minute, by one process of all.
    """

    #: Of the thread, and of the lease.
    name: ClassVar[str]
    lease: ClassVar[str]
    poll_seconds: ClassVar[float]

    clock: Callable[[], datetime] = clock.now
    ask: Ask | None = field(default_factory=model)
    _lease: Held = field(init=False)
    _loop: Loop = field(init=False)
    #: By when threads are to be looked at again.
    _again: dict[UUID, datetime] = field(default_factory=dict)
    #: The last round ended with work left; the next one begins at once.
    _cut: bool = False

    def __post_init__(self) -> None:
        self._lease = Held(name=self.lease, clock=self.clock)
        self._loop = Loop(
            name=self.name,
            worker=self.lease,
            work=self._work,
            pause=lambda: 0 if self._cut else self.poll_seconds,
        )

    def start(self) -> None:
        """Loop in a thread of its own, if there is a model to ask."""
        if self.ask is not None:
            self._loop.start()

    def stop(self) -> None:
        """Finish the calls at hand. The writer must still run."""
        self._loop.stop()

    @property
    def stopped(self) -> bool:
        """Whether no more is to be asked: it is stopped, or the lease is another's."""
        return self._loop.stopped.is_set() or self._lease.lost.is_set()

    def round(self) -> int:
        """Ask what is due, if the lease is ours; how many runs there were."""
        self._cut = False
        if self.ask is None or clock.skewed or maintenance.waiting:
            return 0
        found = self.find(self.clock())
        if not found or not self._lease.take():
            return 0
        try:
            with self._lease.beating():
                return self.ask_all(found)
        finally:
            self._lease.release()

    def _work(self) -> None:
        try:
            self.round()
        finally:
            connections.close_all()

    @abstractmethod
    def find(self, now: datetime) -> list[UUID]:
        """Return the threads of which something may be due."""

    @abstractmethod
    def ask_all(self, found: list[UUID]) -> int:
        """Ask what is due of these; how many runs there were."""
