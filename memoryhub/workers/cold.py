"""Cold threads: payloads of closed, silent threads move to cold storage, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef

from memoryhub.errors import ColdStorageError, Refusal
from memoryhub.journal import cold
from memoryhub.models.cold import ColdObject
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue
from memoryhub.vault.keys.cold_payloads import looked

#: Threads of one round, and the seconds after which a round begins no other thread.
AT_ONCE: Final = 100
ROUND_SECONDS: Final = 10.0
#: Threads whose values one query looks for.
EXAMINED: Final = 500

log = structlog.get_logger()


def move(now: datetime) -> int:
    """Move threads that have been closed and silent for long; return how many.

    Finishes first what a killed process left behind. A storage that does not answer
    ends the round: the next round tries again.
    """
    cold.tidy(now)
    if settings.COLD_DAYS is None:
        return 0
    silent = now - timedelta(days=settings.COLD_DAYS)
    until, count = time.monotonic() + ROUND_SECONDS, 0
    for thread in islice(_iter_movable(silent), AT_ONCE):
        if time.monotonic() > until:
            break
        count += bool(cold.move_thread(thread))
    return count


def _iter_movable(silent: datetime) -> Iterator[Thread]:
    """Yield closed threads that nobody has written to or looked at since an instant.

    A value that will expire would have to be erased from its object: its thread waits.
    One query, one for 500 threads, and two for each thread that has no such value.
    Each kind of row is asked by itself: a cluster keeps them apart from the threads.
    """
    objects = ColdObject.objects.filter(thread=OuterRef("pk"))
    here = {"state": ColdObject.State.RETURNED, "changed_at__lte": silent}
    threads = Thread.objects.filter(
        status=Thread.Status.CLOSED,
        last_event_at__lte=silent,
        subject__state=Subject.State.ACTIVE,
    ).exclude(Exists(objects.exclude(**here)))
    found = [*threads.order_by("id").values_list("id", flat=True)]
    for start in range(0, len(found), EXAMINED):
        batch = found[start : start + EXAMINED]
        due = DueValue.objects.filter(thread__in=batch).values_list("thread")
        waiting = {thread for (thread,) in due.distinct()}
        for thread in batch:
            sealed = Event.objects.filter(thread=thread, payload__isnull=False)
            if thread not in waiting and sealed.exists():
                yield from threads.filter(id=thread)


def return_looked() -> int:
    """Bring back the threads that this process looked at; return how many payloads.

    In each process, whoever has the lease. A lost object is logged. Where the storage
    does not answer or time is up, the rest waits for the next round.
    """
    until, count = time.monotonic() + ROUND_SECONDS, 0
    waiting = [*looked.take_all()]
    while waiting and time.monotonic() < until:
        try:
            count += cold.return_objects(waiting[-1:])
        except ColdStorageError:
            break
        except Refusal as failure:
            log.error("cold.lost", code=failure.code)
        waiting.pop()
    for each in waiting:
        looked.add(each)
    return count
