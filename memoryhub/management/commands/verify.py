from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet, Sum

from memoryhub.journal.log import Origins
from memoryhub.management.progress import Progress
from memoryhub.models.threads import Thread
from memoryhub.queries import context_verification, verification


class Command(BaseCommand):
    help = (
        "Fold journals, compare them with the stored rows and walk their hash chains; "
        "or, with --contexts, put each recorded context together again. "
        "Exit 0 when all is well; exit 1 and the first that is wrong on any difference."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--all", action="store_true", help="every thread")
        which.add_argument(
            "--thread", metavar="PROJECT/NAME", help="one thread, by project and name"
        )
        parser.add_argument(
            "--contexts",
            action="store_true",
            help="instead, put every recorded context together again and compare bytes",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        threads = chosen(options["thread"])
        if options["contexts"]:
            self._contexts(threads)
        else:
            self._journals(threads)

    def _journals(self, threads: QuerySet[Thread]) -> None:
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

    def _contexts(self, threads: QuerySet[Thread]) -> None:
        total = context_verification.total(threads)
        progress = Progress(sys.stderr, total=total, unit="contexts")
        exact = erased = 0
        for thread in threads.select_related("subject").iterator(chunk_size=200):
            for checked in context_verification.iter_checked(thread):
                if checked.wrong:
                    progress.close()
                    raise CommandError(
                        f"thread {thread.id}, turn {checked.turn}: {checked.wrong}",
                        returncode=1,
                    )
                exact += not checked.erased
                erased += checked.erased
                progress.add(1)
        progress.close()
        whole = f"{exact:,} of {exact:,} contexts byte-exact"
        gone = f"; {erased:,} with erased parts" if erased else ""
        self.stdout.write(f"{whole}{gone}.")


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
