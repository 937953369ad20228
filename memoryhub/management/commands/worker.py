from __future__ import annotations

import signal
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from memoryhub.management import logs, start
from memoryhub.management.terminal import Command as Base
from memoryhub.workers.reconcile import Reconciler


class Command(Base):
    help = (
        "Run the background work in a process of its own: lists, levels of pages, "
        "sums, sweeps, expiry of keys and their values, retention, erasures and the "
        "nightly scan. `serve` does it too; of all processes one works at a time, and "
        "another takes over within half a minute when it dies. "
        "MEMORYHUB_EXPIRY_INTERVAL_SECONDS says how often what has expired is swept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--once",
            action="store_true",
            help="do all that is due, say what that was, and end; for a timer",
        )

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        start.prepare()
        logs.configure()
        run = self.run_once if once else self.run_until_stopped
        if not settings.TRACES:
            run(Reconciler())
            return
        tracing = import_module("memoryhub.services.tracing")
        tracing.start_export()
        run(Reconciler())
        tracing.stop_export()

    def run_once(self, reconciler: Reconciler) -> None:
        done = reconciler.run_once()
        if done is None:
            self.end("Another process does the background work; stop that first.")
        for name, count in done.items():
            self.stdout.write(f"{name}: {count:,}")

    def run_until_stopped(self, reconciler: Reconciler) -> None:
        try:
            # SIGTERM ends the wait like Ctrl-C. Both handlers are installed, since a
            # process in a shell's background inherits an ignored SIGINT.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            reconciler.start()
            self.say("The worker runs. Stop it with Ctrl-C or SIGTERM.")
            reconciler.wait()
        except KeyboardInterrupt:
            self.say("Stopping after the task at hand.")
        reconciler.stop()
