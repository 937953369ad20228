from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import (
    InvalidError,
    NotFoundError,
    PlanStaleError,
    Refusal,
)
from memoryhub.journal.forget import scrub
from memoryhub.kernel.state.erase_events import REASONS
from memoryhub.management import deleting, following, noting, people, start
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import FAILED, WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.scan import rewrites
from memoryhub.queries.threads import threads
from memoryhub.services.forget import (
    erasures,
    ledgers,
    receipts,
    replays,
)
from memoryhub.services.people import subjects
from memoryhub.services.scan import collecting

ACTOR: Final = "command"

ABOUT: Final = f"""\
Forget a person, one thread, what is older than a time, or one record.

Forgetting takes two steps. `forget plan` counts what would go, erases nothing and
prints what confirms it; `forget confirm` erases, for good, and shows how far it is
until there is a receipt. A running server does the work as well; stopped anywhere,
it goes on where it was.

  echo customer-7 | {PROGRAM} forget plan --project acme --reason consent_withdrawn
  {PROGRAM} forget confirm 0193… --token 5f… --count 412
  {PROGRAM} forget status

A user id is read from standard input, which holds nothing else: arguments end up in
histories and in lists of processes."""

ABOUT_PLAN: Final = """\
Count what forgetting would take, by place: what goes, what stays and why, and what
is out of our reach. Nothing is erased. The plan is valid for 15 minutes. It
grows stale when agents write about the person meanwhile; --restrict keeps them out.

Scopes: `subject` (all of a person, with the key), `thread`, `before` (every
record of the person that happened, or was recorded, before a time; of one thread
with --thread) and `record` (one event of a thread). The last
three take along what was made of it."""

ABOUT_CONFIRM: Final = """\
Erase what a plan says, and wait for the receipt. Cannot be undone. A plan that is
stale is counted anew and shown; confirm that one then. While a hold is in force
nothing is erased: agents are kept out instead."""

ABOUT_STATUS: Final = """\
Show how far one erasure is, or all that are not finished: the state, since when,
and what the next step waits for."""

ABOUT_NEEDLES: Final = f"""\
Look again for what a scan had found, after a restart: an erasure that waits for
`needles` goes on only when somebody types what it was about. Reads standard input:
of a person the id on the first line, then, a line each, other texts to look for. It
is kept in memory alone, and the erasure is followed to its receipt.

  echo customer-7 | {PROGRAM} forget needles 0193…"""

ABOUT_CANCEL: Final = """\
Drop a plan. What was confirmed goes on."""

RESUME: Final = "go on with all that was confirmed, here, as far as it goes"
REPLAY: Final = "after a restore: erase once more what the ledger says was erased"
REWRITE: Final = (
    "PostgreSQL: write tables anew, without the free space and log that may hold "
    "sealed bytes; locks each table, and adds to the receipts"
)


class Command(Base):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        whole = parser.add_mutually_exclusive_group()
        whole.add_argument("--resume", action="store_true", help=RESUME)
        whole.add_argument("--replay", action="store_true", help=REPLAY)
        whole.add_argument("--rewrite", action="store_true", help=REWRITE)
        actions = parser.add_subparsers(dest="action", metavar="ACTION")

        def add(name: str, short: str, about: str) -> argparse.ArgumentParser:
            return actions.add_parser(
                name,
                help=short,
                description=about,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )

        _add_plan(add("plan", "count what would go; erases nothing", ABOUT_PLAN))
        confirming = add("confirm", "erase what a plan says", ABOUT_CONFIRM)
        confirming.add_argument("erasure", type=UUID, help="the plan's id")
        confirming.add_argument("--token", required=True, help="the plan's token")
        confirming.add_argument(
            "--count", type=int, required=True, help="the plan's count, repeated"
        )
        telling = add("status", "show how far an erasure is", ABOUT_STATUS)
        telling.add_argument("erasure", type=UUID, nargs="?", help="its id; else all")
        short = "look again for what a scan had found"
        recalling = add("needles", short, ABOUT_NEEDLES)
        recalling.add_argument("erasure", type=UUID, help="its id")
        cancelling = add("cancel", "drop a plan", ABOUT_CANCEL)
        cancelling.add_argument("erasure", type=UUID, help="the plan's id")

    def handle(self, *args: Any, action: str | None, **options: Any) -> None:
        chosen = [name for name in ("resume", "replay", "rewrite") if options[name]]
        if bool(action) == bool(chosen):
            self.end(
                "Say what to do: plan, confirm, status, needles or cancel, or one of "
                "--resume, --replay and --rewrite; `forget --help` explains them.",
                code=WRONG_USAGE,
            )
        start.prepare_existing(held_back=options["replay"])
        getattr(self, f"do_{action or chosen[0]}")(**options)

    def do_plan(self, **options: Any) -> None:
        owner = self._require_subject(options["project"], options["subject"])
        name = options["thread"]
        made = erasures.plan(
            owner,
            scope=options["scope"],
            thread=(
                threads.get_thread(owner.project_id, name, subject=owner.id)
                if name
                else None
            ),
            before=options["recorded_before"] or options["before"],
            clocked="recorded" if options["recorded_before"] else "occurred",
            seq=options["record"],
            reason=options["reason"],
            ticket=options["ticket"],
            restrict=options["restrict"],
            actor=ACTOR,
        )
        self._show_plan(made)

    def do_confirm(self, *, erasure: UUID, token: str, count: int, **_: Any) -> None:
        row = self._require_row(erasure)
        try:
            row = erasures.confirm(row, token=token, count=count, actor=ACTOR)
        except PlanStaleError as refusal:
            self.say(refusal.message)
            self._show_plan(self._require_row(erasure))
            sys.exit(FAILED)
        self._follow_erasures([row])

    def do_status(self, *, erasure: UUID | None, **_: Any) -> None:
        rows = [self._require_row(erasure)] if erasure else following.list_unfinished()
        for row in rows:
            self.stdout.write(following.render_progress(ErasureLine.from_row(row)))
        if not rows:
            self.stdout.write("No erasure is unfinished.")

    def do_needles(self, *, erasure: UUID, **_: Any) -> None:
        row = self._require_row(erasure)
        texts = [line for line in sys.stdin.read().splitlines() if line]
        try:
            collecting.recall_targets(row, texts)
        except InvalidError as refusal:
            self.end(
                "The first line of standard input is not the id of who was erased."
                if refusal.loc == "user_id"
                else "Standard input has nothing that is long enough to look for.",
                code=WRONG_USAGE,
            )
        self._follow_erasures([row])

    def do_cancel(self, *, erasure: UUID, **_: Any) -> None:
        erasures.cancel(self._require_row(erasure), actor=ACTOR)
        self.stdout.write(f"The plan {erasure} is cancelled; nothing was erased.")

    def do_resume(self, **_: Any) -> None:
        replays.resume_fences()
        erasures.close_due()
        self._follow_erasures(following.list_confirmed())

    def do_replay(self, **_: Any) -> None:
        lines = replays.list_pending()
        progress = ProgressBar(sys.stderr, total=len(lines), unit="erasures")
        rows, projects, broken = {}, [], 0
        for line in lines:
            try:
                if line.scope == ledgers.PROJECT:
                    projects.append(replays.redo_project_deletion(line))
                else:
                    row = replays.replay_erasure(line)
                    rows[row.id] = row
            except Refusal as refusal:
                # A refusal of one erasure does not stop the others.
                self.say(f"{line.erasure}: {refusal.sentence}")
                broken += 1
            progress.add(1)
        progress.close()
        noting.note(self, "replayed", count=len(rows))
        for project in projects:
            # Erase the subjects that the ledger did not list, then the project.
            ended = deleting.follow(project, out=sys.stderr)
            self.stdout.write(deleting.render_progress(ended))
        self._report_erasures([*rows.values()])
        if broken:
            sys.exit(FAILED)

    def do_rewrite(self, **_: Any) -> None:
        before = rewrites.list_files()
        if waiting := scrub.rewrite():
            self.end(f"The tables could not be written anew; in the way: {waiting}.")
        left = rewrites.find_old_remains(before)
        rows = following.list_with_space_left(left.ended)
        for row in rows:
            receipts.add_addendum(row, "rewritten", left.numbers, ended=left.ended)
        noting.note(self, "erasure.rewritten", count=len(rows))
        self.stdout.write(f"Written anew; {len(rows):,} receipts have an addendum.")
        if rows:
            self.stdout.write(f"Over: {', '.join(left.ended) or 'nothing'}.")

    def _show_plan(self, row: Erasure) -> None:
        self.stdout.write(following.render_plan(ErasureLine.from_row(row)))
        token = erasures.build_token(row)
        count = ErasureLine.from_row(row).count
        self.stdout.write(
            f"To erase this for good, by {row.expires_at:%H:%M:%S} UTC:\n"
            f"  {PROGRAM} forget confirm {row.id} --token {token} --count {count}"
        )

    def _follow_erasures(self, rows: Sequence[Erasure]) -> None:
        """Continue the erasures in this process until each ends or waits."""
        self._report_erasures([following.follow(row, out=sys.stderr) for row in rows])

    def _report_erasures(self, rows: Sequence[Erasure]) -> None:
        for row in rows:
            self.stdout.write(following.render_progress(ErasureLine.from_row(row)))
        if any(row.state != Erasure.State.COMPLETE for row in rows):
            self.say("What waits goes on by itself while a server or worker runs.")
            sys.exit(FAILED)

    def _require_subject(self, slug: str, subject: UUID | None) -> Subject:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            self.end(f"There is no project {slug!r}.", code=WRONG_USAGE)
        if subject is not None:
            row = Subject.objects.filter(project=project, id=subject).first()
        else:
            row = subjects.find(project.id, people.read_user_id(self))
        if row is None:
            self.end("There is no such subject in this project.", code=WRONG_USAGE)
        return row

    def _require_row(self, erasure: UUID) -> Erasure:
        row = Erasure.objects.filter(id=erasure).first()
        if row is None:
            raise NotFoundError
        return row


def _add_plan(planning: argparse.ArgumentParser) -> None:
    planning.add_argument("--project", required=True, help="the project's slug")
    planning.add_argument(
        "--subject",
        type=UUID,
        help="the subject by our own id, instead of a user id from standard input",
    )
    planning.add_argument(
        "--scope",
        choices=Erasure.Scope.values,
        default=Erasure.Scope.SUBJECT,
        help="how much (default: subject)",
    )
    planning.add_argument(
        "--thread", help="of the scopes thread and record: its name; narrows before"
    )
    either = planning.add_mutually_exclusive_group()
    either.add_argument(
        "--before",
        type=_parse_moment,
        help="of the scope before: what happened before 2026-01-31T12:00Z",
    )
    either.add_argument(
        "--recorded-before",
        type=_parse_moment,
        help="of the scope before: only what was recorded before then",
    )
    planning.add_argument("--record", type=int, help="of the scope record: the seq")
    planning.add_argument(
        "--reason",
        required=True,
        choices=REASONS,
        metavar="WORD",
        help=_render_reasons(),
    )
    planning.add_argument("--ticket", help="such as LEGAL-42; no free text is kept")
    planning.add_argument(
        "--restrict", action="store_true", help="keep agents out meanwhile"
    )


def _render_reasons() -> str:
    return f"why: {', '.join(REASONS[:-1])} or {REASONS[-1]}"


def _parse_moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
