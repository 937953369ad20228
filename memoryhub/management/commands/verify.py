from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet, Sum

from memoryhub.journal.log import Origins
from memoryhub.management.progress import Progress
from memoryhub.models.threads import Thread
from memoryhub.queries import verification


class Command(BaseCommand):
    help = (
        "Fold journals, compare them with the stored rows and walk their hash chains. "
        "Exit 0 when all is well; exit 1 and the first wrong event on any difference."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--all", action="store_true", help="every thread")
        which.add_argument(
            "--thread", metavar="PROJECT/NAME", help="one thread, by project and name"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        threads = chosen(options["thread"])
        total = threads.aggregate(events=Sum("head_seq"))["events"] or 0
        progress = Progress(sys.stderr, total=total, unit="events")
        checked, origins = 0, Origins()
        for thread in threads.select_related("subject").iterator(chunk_size=200):
            difference = verification.verify(
                thread, progress=progress.add, origins=origins
            )
            if difference is not None:
                progress.close()
                raise CommandError(
                    f"thread {thread.id} differs at event {difference.seq}: "
                    f"{difference.what}",
                    returncode=1,
                )
            checked += 1
        progress.close()
        self.stdout.write(
            f"{checked:,} threads, {progress.done:,} events: every journal folds to "
            "its rows and every chain is whole."
        )


def chosen(address: str | None) -> QuerySet[Thread]:
    """All threads, or the one at `project/name`."""
    threads = Thread.objects.order_by("id")
    if address is None:
        return threads
    project, _, name = address.partition("/")
    threads = threads.filter(project__slug=project, name=name)
    if not threads.exists():
        raise CommandError(
            f"There is no thread {name!r} in project {project!r}. "
            "Name it as PROJECT/THREAD.",
            returncode=2,
        )
    return threads
