from __future__ import annotations

import signal
from typing import Any

from memoryhub.management import logs, start
from memoryhub.management.terminal import Command as Base
from memoryhub.workers.reconcile import Reconciler


class Command(Base):
    help = (
        "Run the background work in a process of its own: lists, levels of pages, "
        "sums, sweeps, expiry of keys and their values, and retention. `serve` does it "
        "too; of all processes one works at a time, and another takes over within half "
        "a minute when it dies. MEMORYHUB_EXPIRY_INTERVAL_SECONDS says how often what "
        "has expired is swept."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        start.prepare()
        logs.configure()
        reconciler = Reconciler()
        try:
            # SIGTERM ends the wait as Ctrl-C does.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            reconciler.start()
            self.say("The worker runs. Stop it with Ctrl-C or SIGTERM.")
            reconciler.wait()
        except KeyboardInterrupt:
            self.say("Stopping after the task at hand.")
        reconciler.stop()
