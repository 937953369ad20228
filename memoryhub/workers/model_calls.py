"""Calls of the configured model by workers: counted, within a daily budget."""

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
from memoryhub.services.model_calls import Ask, Message, ModelReply
from memoryhub.workers.leases import HeldLease
from memoryhub.workers.loops import WorkerLoop

#: Pauses while the model is away, and while a project's day is used up.
AWAY, USED_UP = timedelta(minutes=1), timedelta(minutes=10)
#: Duration of one round of calls. A project that had nothing due when the round began
#: waits no longer than this, and for the calls in flight.
ROUND = timedelta(seconds=10)


def build_model() -> Ask | None:
    """Return a callable that asks the configured model; None without one."""
    if settings.MODEL is None:
        return None
    # Its HTTP client is loaded only where a model is configured.
    client = import_module("memoryhub.services.model_client")
    ask: Ask = client.ModelClient(settings.MODEL).ask
    if settings.TRACES:
        tracing = import_module("memoryhub.services.tracing")
        ask = tracing.trace_calls(ask, settings.MODEL)
    return ask


def get_host() -> str | None:
    """Return the host that receives messages; None without a model."""
    return settings.MODEL.host if settings.MODEL else None


def is_used_up(project: UUID, now: datetime) -> bool:
    """Return whether a project has no tokens left for the day."""
    journal.run(activity.flush)
    spent = model_use.get_use(project, now=now).tokens
    return spent >= settings.MODEL_DAILY_TOKENS


@dataclass(slots=True)
class ModelRun:
    """Calls of a model for one purpose, and their outcome."""

    ask: Ask
    outcome: ModelOutcome = "void"
    calls: int = 0
    tokens: int = 0

    @property
    def has_answer(self) -> bool:
        """Whether the last call was answered."""
        return self.calls > 0 and self.outcome != "no_model"

    def __call__(self, messages: Sequence[Message]) -> ModelReply:
        self.calls, self.outcome = self.calls + 1, "no_model"
        reply = self.ask(messages)
        self.outcome = "void"
        self.tokens += reply.tokens_in + reply.tokens_out
        return reply

    def note_result(self, *, useless: bool) -> None:
        """Note that the model's answer was written, or that it was useless."""
        if self.outcome != "no_model":
            self.outcome = "useless" if useless else "written"


@contextmanager
def count_run(ask: Ask, project: UUID, role: ModelRole) -> Iterator[ModelRun]:
    """Count a run for the project, whatever its outcome."""
    run = ModelRun(ask)
    try:
        yield run
    finally:
        if run.calls:
            activity.count_model_run(
                project, role, run.outcome, calls=run.calls, tokens=run.tokens
            )


@dataclass(slots=True, kw_only=True)
class ModelWorker(ABC):
    """Worker that asks the model for due work in rounds, until it is stopped.

    In a thread of its own, since an answer may take a minute; one process at a time.
    """

    #: Names of the thread, and of the lease.
    name: ClassVar[str]
    lease: ClassVar[str]
    poll_seconds: ClassVar[float]

    clock: Callable[[], datetime] = clock.now
    ask: Ask | None = field(default_factory=build_model)
    _lease: HeldLease = field(init=False)
    _loop: WorkerLoop = field(init=False)
    #: Times at which threads are to be looked at again.
    _again: dict[UUID, datetime] = field(default_factory=dict)
    #: The last round ended with work left; the next round begins at once.
    _cut: bool = False

    def __post_init__(self) -> None:
        self._lease = HeldLease(name=self.lease, clock=self.clock)
        self._loop = WorkerLoop(
            name=self.name,
            worker=self.lease,
            work=self._run_and_close,
            pause=lambda: 0 if self._cut else self.poll_seconds,
        )

    def start(self) -> None:
        """Loop in a thread of its own, if there is a model to ask."""
        if self.ask is not None:
            self._loop.start()

    def stop(self) -> None:
        """Finish the calls in flight. The writer must still run."""
        self._loop.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether to ask no more: stopped, or another process has the lease."""
        return self._loop.stopped.is_set() or self._lease.lost.is_set()

    def run_round(self) -> int:
        """Ask for due work, if the lease is ours; return how many runs there were."""
        self._cut = False
        if self.ask is None or clock.is_skewed or maintenance.waiting:
            return 0
        found = self.find(self.clock())
        if not found or not self._lease.take():
            return 0
        try:
            with self._lease.keep_beating():
                return self.ask_all(found)
        finally:
            self._lease.release()

    def _run_and_close(self) -> None:
        try:
            self.run_round()
        finally:
            connections.close_all()

    @abstractmethod
    def find(self, now: datetime) -> list[UUID]:
        """Return the threads that may have work due."""

    @abstractmethod
    def ask_all(self, found: list[UUID]) -> int:
        """Ask for the due work of these threads; return how many runs there were."""
