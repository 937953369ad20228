from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Sum

from memoryhub.distribution import PROGRAM
from memoryhub.errors import Refusal
from memoryhub.journal.log.log import Origins
from memoryhub.management import noting, start
from memoryhub.management.commands.verify import select_threads
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import Command as Base
from memoryhub.queries.forget import erasures
from memoryhub.services.rebuild import rebuild, recount


class Command(Base):
    help = (
        "Write projections again from the journals: slots, turns, labels, counters, "
        "totals. "
        "The journal itself is never touched. Safe to repeat and to interrupt. Not "
        "while an erasure is under way."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--thread", metavar="PROJECT/NAME", help="one thread; without it, all"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        start.refuse_old_formats()
        if waiting := len(erasures.list_unfinished()):
            raise CommandError(
                f"{waiting:,} erasures are not finished, and rows that are written "
                f"anew would have to go once more. First: {PROGRAM} forget --resume",
                returncode=1,
            )
        threads = select_threads(options["thread"])
        total = threads.aggregate(events=Sum("head_seq"))["events"] or 0
        progress = ProgressBar(sys.stderr, total=total, unit="events")
        rebuilt, origins = 0, Origins()
        for thread in threads.select_related("subject").iterator(chunk_size=200):
            try:
                rebuild(thread, progress=progress.add, origins=origins)
            except Refusal as refusal:
                progress.close()
                raise CommandError(
                    f"thread {thread.id} can't be rebuilt: {refusal.code}. Nothing of "
                    f"it was changed; run `{PROGRAM} verify` to see where it is wrong.",
                    returncode=1,
                ) from None
            rebuilt += 1
        progress.close()
        recount(threads.order_by().values_list("subject_id", flat=True).distinct())
        noting.note(self, "journal.rebuilt", count=rebuilt)
        self.stdout.write(f"{rebuilt:,} threads rebuilt from {progress.done:,} events.")
