from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet, Sum

from memoryhub.errors import LedgerBrokenError
from memoryhub.journal.log.log import Origins
from memoryhub.management import noting, start
from memoryhub.management.progress import Progress
from memoryhub.management.terminal import Command as Base
from memoryhub.models.threads import Thread
from memoryhub.queries.access import audit
from memoryhub.queries.verify import (
    anchors,
    context_verification,
    total_checks,
    verification,
)
from memoryhub.services.forget import ledgers
from memoryhub.vault.proof import signing

#: What is wrong with the anchors, in words.
ANCHOR_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "anchor_file": "the file is not as it was signed",
        "anchors_behind": "the file lacks that line",
        "anchors_ahead": "the keys database does not know of it; was it restored?",
        "anchors_mirror": "the file lacks that line, and its mirror has it",
        "anchors": "the database does not stand where it says",
        "threads_missing": "threads that it vouches for are not there",
        "audit_anchor": "the audit log does not reach to where it says",
    }
)


class Command(Base):
    help = (
        "Fold journals, compare them with the stored rows and walk their hash chains, "
        "and with --all the anchors and the audit log, too; or, with --contexts, put "
        "each recorded context together again. "
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
        start.refuse_old_formats()
        threads, project = chosen(options["thread"]), None
        if options["thread"]:
            project = threads.values_list("project_id", flat=True).get()
        try:
            self._check(threads, options)
        except CommandError:
            noting.note(self, "verified", project=project, outcome="failed")
            raise
        noting.note(self, "verified", project=project, count=threads.count())

    def _check(self, threads: QuerySet[Thread], options: dict[str, Any]) -> None:
        if options["contexts"]:
            self._contexts(threads)
            return
        self._journals(threads)
        if options["all"]:
            self._anchors()
            self._audit()
            # Last: what was taken beside the journals is missing in these as well.
            self._totals()

    def _audit(self) -> None:
        verdict = audit.verify()
        if verdict.wrong is not None:
            raise CommandError(
                f"entry {verdict.wrong} of the audit log is not as it was written",
                returncode=1,
            )
        self.stdout.write(f"The audit log is verified to {verdict.verified_to:,}.")

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

    def _totals(self) -> None:
        """What no journal of a thread shows: how much there is of each subject."""
        for subject in total_checks.iter_drifted():
            raise CommandError(
                f"the totals of subject {subject} are not what counting finds. "
                "`manage.py rebuild` counts them anew.",
                returncode=1,
            )

    def _anchors(self) -> None:
        """What no chain of a thread shows: one that vanished, and lines outside."""
        for what, check in (("public keys", signing.check), ("ledger", ledgers.check)):
            try:
                check()
            except LedgerBrokenError as broken:
                raise CommandError(
                    f"the {what}: {broken.sentence}", returncode=1
                ) from None
        standing = anchors.get_standing()
        if standing.wrong:
            since = f"; it is as of line {standing.as_of}" if standing.as_of else ""
            raise CommandError(
                f"line {standing.n} of the anchors: {standing.wrong}, "
                f"{ANCHOR_TEXTS[standing.wrong]}{since}. "
                "After a restore that you know of: `manage.py forget --replay`, then "
                "`manage.py anchor --anew`, which vouches for what is there now.",
                returncode=1,
            )
        if standing.at is not None:
            self.stdout.write(
                f"{standing.threads:,} threads still reach where they were anchored at "
                f"{standing.at:%Y-%m-%d %H:%M} UTC."
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
    """Return all threads, or the one at `project/name`."""
    # What is being imported is nothing yet; if that was killed, it will be swept.
    threads = Thread.objects.exclude(status=Thread.Status.IMPORTING).order_by("id")
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
