"""Webhooks in processes of an instance."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.core.management import execute_from_command_line

from memoryhub.models.webhooks import WebhookQueue
from memoryhub.services.access import webhooks as made
from memoryhub.workers import leases, webhooks
from tests.cast.factories import append, make_agent, make_project
from tests.promises.journal.appender import tell


def live_in_threads(url: str, threads: int, messages: int) -> None:
    """Add a webhook, then append so many messages to so many threads."""
    project = make_project("acme")
    made.create(project, url=url, types=["slot.appended"], actor="command")
    agent = make_agent(project)
    for number in range(threads):
        append(agent, f"t-{number}", *map(str, range(messages)))


def work(*words: str) -> None:
    """Print a command that does background work, with short leases and pauses."""
    leases.LEASE = timedelta(seconds=1)
    made.FIRST_PAUSE = timedelta(seconds=0.1)
    vars(webhooks)["POLL_SECONDS"] = 0.1
    vars(webhooks)["HeldLease"] = partial(leases.HeldLease, beat_seconds=0.3)
    execute_from_command_line(["manage.py", *words])


def count_left() -> None:
    """Print the number of threads that have events to send."""
    tell(str(WebhookQueue.objects.count()))
