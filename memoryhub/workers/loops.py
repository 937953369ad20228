"""Loops: work that is done again and again in a thread of its own, until stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.db import close_old_connections, connections

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Loop:
    """One thread and what it does; what breaks is logged, and tried again."""

    name: str
    #: The word by which the log names the worker.
    worker: str
    work: Callable[[], object]
    #: Seconds until the next round.
    pause: Callable[[], float]
    #: What the thread does at its end.
    last: Callable[[], object] = lambda: None
    stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self.stopped.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the work at hand."""
        self.stopped.set()
        self.join()
        self._thread = None

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    def wait(self) -> None:
        """Wait as `join` does, but a signal is heard meanwhile."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=1)

    def _run(self) -> None:
        try:
            while not self.stopped.is_set():
                self._guarded(self.work)
                # One that broke would fail every round to come.
                close_old_connections()
                self.stopped.wait(self.pause())
            self._guarded(self.last)
        finally:
            connections.close_all()

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001  # the outermost of a thread
            log.error("worker.failed", worker=self.worker, code=type(failure).__name__)
