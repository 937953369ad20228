from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db.models import QuerySet, Sum

from memoryhub.distribution import PROGRAM
from memoryhub.errors import LedgerBrokenError
from memoryhub.journal.log.log import Origins
from memoryhub.management import noting, start
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import Command as Base
from memoryhub.models.threads import Thread
from memoryhub.queries.access import audit
from memoryhub.queries.verify import (
    anchors,
    context_verification,
    key_checks,
    total_checks,
    verification,
)
from memoryhub.services.forget import ledgers
from memoryhub.vault.proof import chains, signing

#: Faults of the anchors, in words, by code.
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

#: Said of a difference while an erasure of the thread's subject is under way.
ERASING = (
    ", while an erasure of its person is under way, which may be why: verify once more "
    f"when it is over. `{PROGRAM} forget --resume` goes on with it without a server."
)
#: Said of a ledger that the keys database is behind, as after a restore.
LEDGER_AHEAD = (
    "the ledger has lines that the keys database does not know of: a backup was "
    "restored from before some erasures. Leave the ledger as it is, and run: "
    f"{PROGRAM} forget --replay"
)


class Command(Base):
    help = (
        "Fold journals, compare them with the stored rows and walk their hash chains, "
        "and with --all the anchors, the audit log and the subjects' keys, too; or, "
        "with --contexts, put "
        "each recorded context together again. "
        "Exit 0 when all is well; exit 1 and the first that is wrong on any difference."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--all", action="store_true", help="every thread")
        which.add_argument(
            "--thread",
            metavar="PROJECT/NAME",
            help="one thread, by project and name or by its id",
        )
        parser.add_argument(
            "--contexts",
            action="store_true",
            help="instead, put every recorded context together again and compare bytes",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        start.refuse_old_formats()
        threads, project = select_threads(options["thread"]), None
        if options["thread"]:
            project = threads.values_list("project_id", flat=True).get()
        try:
            self._check_threads(threads, options)
        except CommandError:
            noting.note(self, "verified", project=project, outcome="failed")
            raise
        noting.note(self, "verified", project=project, count=threads.count())

    def _check_threads(
        self, threads: QuerySet[Thread], options: dict[str, Any]
    ) -> None:
        if options["contexts"]:
            self._verify_contexts(threads)
            return
        self._verify_journals(threads)
        if options["all"]:
            self._verify_anchors()
            self._verify_audit()
            self._verify_keys()
            # Last, since rows removed outside the journals also change the totals.
            self._verify_totals()

    def _verify_audit(self) -> None:
        verdict = audit.verify()
        if verdict.wrong is not None:
            raise CommandError(
                f"entry {verdict.wrong} of the audit log is not as it was written",
                returncode=1,
            )
        self.stdout.write(f"The audit log is verified to {verdict.verified_to:,}.")

    def _verify_keys(self) -> None:
        """Open a text of each subject, whose key no chain covers."""
        checked = 0
        for subject, opens in key_checks.iter_key_checks():
            if not opens:
                raise CommandError(
                    f"the newest text of subject {subject} does not open: its key is "
                    "lost, or it is damaged. Are the keys older than the memory?",
                    returncode=1,
                )
            checked += 1
        self.stdout.write(f"The newest text of each of {checked:,} subjects opens.")

    def _verify_journals(self, threads: QuerySet[Thread]) -> None:
        total = threads.aggregate(events=Sum("head_seq"))["events"] or 0
        progress = ProgressBar(sys.stderr, total=total, unit="events")
        checked, origins = 0, Origins()
        for thread in threads.select_related("subject").iterator(chunk_size=200):
            difference = verification.verify(
                thread, progress=progress.add, origins=origins
            )
            if difference is not None:
                difference = verification.confirm(difference, thread.id)
            if difference is not None:
                progress.close()
                raise CommandError(
                    f"thread {thread.id} differs at event {difference.seq}: "
                    f"{difference.what}{ERASING if difference.erasing else ''}",
                    returncode=1,
                )
            checked += 1
        progress.close()
        self.stdout.write(
            f"{checked:,} threads, {progress.done:,} events: every journal folds to "
            "its rows and every chain is whole."
        )

    def _verify_totals(self) -> None:
        """Compare the totals of each subject, which no journal of a thread covers."""
        for subject in total_checks.iter_drifted():
            raise CommandError(
                f"the totals of subject {subject} are not what counting finds. "
                f"`{PROGRAM} rebuild` counts them anew.",
                returncode=1,
            )

    def _verify_anchors(self) -> None:
        """Check the public keys, the ledger and the anchors, which no thread's chain
        covers.

        Anchors show a thread that vanished."""
        for what, check in (
            ("public keys", signing.check),
            ("ledger", ledgers.verify_ledger),
        ):
            try:
                check()
            except LedgerBrokenError as broken:
                if broken.detail.get("what") == chains.AHEAD:
                    raise CommandError(LEDGER_AHEAD, returncode=1) from None
                raise CommandError(
                    f"the {what}: {broken.sentence}", returncode=1
                ) from None
        standing = anchors.check_anchors()
        if standing.wrong:
            since = f"; it is as of line {standing.as_of}" if standing.as_of else ""
            raise CommandError(
                f"line {standing.n} of the anchors: {standing.wrong}, "
                f"{ANCHOR_TEXTS[standing.wrong]}{since}. "
                f"After a restore that you know of: `{PROGRAM} forget --replay`, then "
                f"`{PROGRAM} anchor --anew`, which vouches for what is there now.",
                returncode=1,
            )
        if standing.at is not None:
            self.stdout.write(
                f"{standing.threads:,} threads still reach where they were anchored at "
                f"{standing.at:%Y-%m-%d %H:%M} UTC."
            )

    def _verify_contexts(self, threads: QuerySet[Thread]) -> None:
        total = context_verification.count_contexts(threads)
        progress = ProgressBar(sys.stderr, total=total, unit="contexts")
        exact = erased = 0
        for thread in threads.select_related("subject").iterator(chunk_size=200):
            for checked in context_verification.iter_checks(thread):
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


def select_threads(address: str | None) -> QuerySet[Thread]:
    """Return all threads, or the thread at `project/name` or of an id."""
    # Threads of a running import do not count; the sweep deletes a killed import's.
    threads = Thread.objects.exclude(status=Thread.Status.IMPORTING).order_by("id")
    if address is None:
        return threads
    project, _, name = address.partition("/")
    try:
        threads = threads.filter(id=UUID(address))
    except ValueError:
        threads = threads.filter(project__slug=project, name=name)
    if not threads.exists():
        raise CommandError(
            f"There is no thread {address!r}. Name it as PROJECT/THREAD, or by the id "
            "that a difference names.",
            returncode=2,
        )
    return threads
