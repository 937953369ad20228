"""Loops: work repeated in a thread of its own, until stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.db import close_old_connections, connections

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class WorkerLoop:
    """One thread and its repeated work; it logs failures, and tries again."""

    name: str
    #: Name of the worker in the log.
    worker: str
    work: Callable[[], object]
    #: Seconds until the next round.
    pause: Callable[[], float]
    #: Work that the thread does at its end.
    last: Callable[[], object] = lambda: None
    stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self.stopped.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the current work, then end the thread."""
        self.stopped.set()
        self.join()
        self._thread = None

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    def wait(self) -> None:
        """Wait as `join` does, but let signals interrupt."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=1)

    def _run(self) -> None:
        try:
            while not self.stopped.is_set():
                self._run_guarded(self.work)
                # A broken connection would fail every later round.
                close_old_connections()
                self.stopped.wait(self.pause())
            self._run_guarded(self.last)
        finally:
            connections.close_all()

    def _run_guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001  # the outermost of a thread
            log.error("worker.failed", worker=self.worker, code=type(failure).__name__)
