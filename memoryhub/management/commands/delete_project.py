from __future__ import annotations

import sys
from typing import Any, Final

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import SubjectHeldError
from memoryhub.kernel.state.erase_events import REASONS
from memoryhub.management import deleting, start
from memoryhub.management.terminal import FAILED, WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import project_deletions as listed
from memoryhub.services.forget import project_deletions

ABOUT: Final = f"""\
Delete a project: everybody in it is forgotten, then the project's key is destroyed.

Without --confirm nothing is deleted: it says what would go. With it, the project's
API keys end at once and nothing new begins in it; then each of its subjects is erased
as by `forget`, with a receipt of its own. A running server or worker does that; with
--wait it is done here as well, up to the end. Stopped anywhere, it goes on where it
was. Nothing is deleted while a hold is in force.

  {PROGRAM} delete_project acme
  {PROGRAM} delete_project acme --confirm acme --reason not_needed --wait
  {PROGRAM} delete_project acme             # how far it is

What stays is what proves it: the slug, which is never used again, the audit log, the
receipts, and the roles of those who may look at them."""


class Command(Base):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the project's name")
        parser.add_argument(
            "--confirm", metavar="SLUG", help="the project's name again: delete it"
        )
        parser.add_argument(
            "--reason",
            choices=REASONS,
            metavar="WORD",
            help=f"why: {', '.join(REASONS[:-1])} or {REASONS[-1]}",
        )
        parser.add_argument("--ticket", help="such as LEGAL-42; no free text is kept")
        parser.add_argument(
            "--wait", action="store_true", help="go on here until it is deleted"
        )

    def handle(self, *args: Any, slug: str, **options: Any) -> None:
        start.prepare_existing()
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            self.end(f"There is no project {slug!r}.", code=WRONG_USAGE)
        if options["confirm"] is not None:
            project = self._begin_deletion(project, options)
        elif project.state == Project.State.ACTIVE:
            self._show_plan(project)
            return
        if options["wait"]:
            project = deleting.follow(project, out=sys.stderr)
        self.stdout.write(deleting.render_progress(project))
        if options["wait"] and project.state != Project.State.DELETED:
            self.say("What waits goes on by itself while a server or worker runs.")
            sys.exit(FAILED)

    def _begin_deletion(self, project: Project, options: dict[str, Any]) -> Project:
        if options["confirm"] != project.slug:
            self.end("--confirm takes the project's name once more.", code=WRONG_USAGE)
        if options["reason"] is None:
            self.end("Say why: --reason WORD; see --help.", code=WRONG_USAGE)
        try:
            return project_deletions.begin_deletion(
                project,
                confirmed=options["confirm"],
                reason=options["reason"],
                ticket=options["ticket"],
            )
        except SubjectHeldError as refusal:
            self.end(f"Nothing was deleted. {refusal.code}: {refusal.sentence}")

    def _show_plan(self, project: Project) -> None:
        counts = listed.get_counts(project, now=clock.now())
        self.stdout.write(deleting.render_plan(project, counts))
        if not counts.holds:
            self.stdout.write(
                "To delete it for good:\n"
                f"  {PROGRAM} delete_project {project.slug} --confirm {project.slug} "
                "--reason WORD"
            )
