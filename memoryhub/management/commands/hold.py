from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError
from memoryhub.management import people, start
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.models.erasures import Hold
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import holds as listed
from memoryhub.queries.lists.cursors import iter_batches
from memoryhub.services.access import operators
from memoryhub.services.access.audit import COMMAND_ACTOR
from memoryhub.services.people import holds

LONGEST_DAYS: Final = holds.MAX_TERM.days

ABOUT: Final = f"""\
Keep what may not be erased. While a hold on a person is in force neither an erasure
nor the retention policy takes anything of it; an erasure that is confirmed under
it keeps agents out instead.

  echo customer-7 | {PROGRAM} hold open --project acme \\
      --basis legal_claims --reviewer vera --days 90
  {PROGRAM} hold list --project acme
  {PROGRAM} hold lift 0193…

A hold has a reason of a closed list, an officer who looks at it again, and an end
within {LONGEST_DAYS} days. A person's id is read from standard input, alone
there: arguments end up in histories and in lists of processes."""

ABOUT_OPEN: Final = """\
Open a hold on a person. Bases (Article 17(3) of the GDPR): expression, legal_duty,
public_health, archiving, legal_claims. The reviewer is an operator of the project,
officer or owner."""

ABOUT_RENEW: Final = """\
Give a hold that is in force another end, counted from now."""

ABOUT_LIFT: Final = """\
End a hold. What was held back is not erased by that: plan it anew."""

ABOUT_LIST: Final = """\
List the holds of a project, newest first: those in force, or with --all each one
that there ever was."""


class Command(people.Command):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        opening = people.add_action(actions, "open", "keep a person's", ABOUT_OPEN)
        people.add_person(opening)
        opening.add_argument(
            "--basis", required=True, choices=Hold.Basis.values, metavar="WORD"
        )
        opening.add_argument(
            "--reviewer", required=True, metavar="NAME", help="who looks at it again"
        )
        renewing = people.add_action(actions, "renew", "another end", ABOUT_RENEW)
        lifting = people.add_action(actions, "lift", "end a hold", ABOUT_LIFT)
        for each in (opening, renewing):
            each.add_argument(
                "--days",
                type=int,
                required=True,
                metavar="N",
                help=f"from now on, 1 to {LONGEST_DAYS}",
            )
        for each in (renewing, lifting):
            each.add_argument("hold", type=UUID, help="its id, as the list shows it")
        listing = people.add_action(actions, "list", "the holds there are", ABOUT_LIST)
        people.add_project(listing)
        listing.add_argument("--all", action="store_true", help="ended ones as well")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        days = options.get("days")
        if days is not None and not 1 <= days <= LONGEST_DAYS:
            self.end(f"--days goes from 1 to {LONGEST_DAYS}.", code=WRONG_USAGE)
        start.prepare_existing()
        getattr(self, f"do_{action}")(options)

    def do_open(self, options: dict[str, Any]) -> None:
        reviewer = operators.find(options["reviewer"])
        if reviewer is None:
            self._refuse_reviewer()
        person = self.require_person(options)
        try:
            made = holds.open_hold(
                person,
                basis=options["basis"],
                reviewer=reviewer,
                expires_at=clock.now() + timedelta(days=options["days"]),
                actor=COMMAND_ACTOR,
            )
        except InvalidError as refusal:
            if refusal.loc != "reviewer":
                raise
            self._refuse_reviewer()
        self.stdout.write(_render_hold(made))

    def do_renew(self, options: dict[str, Any]) -> None:
        until = clock.now() + timedelta(days=options["days"])
        self.stdout.write(
            _render_hold(
                holds.renew_hold(options["hold"], expires_at=until, actor=COMMAND_ACTOR)
            )
        )

    def do_lift(self, options: dict[str, Any]) -> None:
        lifted = holds.lift_hold(options["hold"], actor=COMMAND_ACTOR)
        self.stdout.write(f"The hold {lifted.id} is lifted.")

    def do_list(self, options: dict[str, Any]) -> None:
        project, now = self.require_project(options["project"]), clock.now()
        parts = iter_batches(
            lambda after: listed.list_holds(
                project.id, now=now, open_only=not options["all"], after=after
            )
        )
        count = 0
        for hold in (each for part in parts for each in part):
            state = "in force" if hold.in_force else "ended"
            self.stdout.write(
                f"{hold.id}  {state:<8}  {hold.basis:<13}  subject {hold.subject}  "
                f"until {hold.expires_at:%Y-%m-%d %H:%M} UTC  "
                f"reviewer {hold.reviewer or 'nobody'}"
            )
            count += 1
        if not count:
            self.say("No hold is in force." if not options["all"] else "No holds.")

    def _refuse_reviewer(self) -> NoReturn:
        self.end(
            "--reviewer names an operator who is officer or owner of the project.",
            code=WRONG_USAGE,
        )


def _render_hold(hold: Hold) -> str:
    until = f"{hold.expires_at:%Y-%m-%d %H:%M} UTC"
    return f"{hold.id}  {hold.basis}, in force until {until}"
