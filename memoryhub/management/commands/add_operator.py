from __future__ import annotations

import getpass
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.management import start
from memoryhub.management.terminal import Command as Base
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.services.access import identities, operators

#: Value of --role that removes an operator from a project.
NO_ROLE = "none"


class Command(Base):
    help = (
        "Add somebody who may look into projects, or change the role of one who may. "
        "Each role includes the one before: viewer, editor, officer, owner."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the operator signs in as")
        parser.add_argument(
            "--project",
            action="append",
            required=True,
            help="a project they get the role in; may be given several times",
        )
        parser.add_argument(
            "--role",
            choices=[*Membership.Role.values, NO_ROLE],
            default=Membership.Role.VIEWER.value,
            help="what they may do there (default: viewer); none takes them out of it",
        )
        parser.add_argument(
            "--password",
            action="store_true",
            help="give them a password, asked for or read from standard input; "
            f"without one they sign in by links from `{PROGRAM} signin`",
        )
        self.add_identity(parser)

    def add_identity(self, parser: CommandParser) -> None:
        identity = parser.add_mutually_exclusive_group()
        identity.add_argument(
            "--sso",
            metavar="SUBJECT",
            help="let them in by single sign-on, as whom the provider calls by this "
            "`sub`; once more for another",
        )
        identity.add_argument(
            "--no-sso",
            action="store_true",
            help="let them in by single sign-on no more",
        )

    def handle(
        self, *args: Any, name: str, project: list[str], role: str, **options: Any
    ) -> None:
        start.prepare_existing()
        rows = {row.slug: row for row in Project.objects.filter(slug__in=project)}
        if missing := [slug for slug in project if slug not in rows]:
            self.end(
                f"There is no project {missing[0]}. Make it: {PROGRAM} create_project "
                f"{missing[0]}"
            )
        if role == NO_ROLE:
            self.remove_roles(name, [*rows.values()])
            return
        self.admit_operator(name, [*rows.values()], role, options)
        self.say(f"{name} is {role} of {', '.join(sorted(rows))}.")
        if not self.has_password(name):
            self.say(f"To sign in: {PROGRAM} signin --operator {name}")

    def admit_operator(
        self, name: str, rows: list[Project], role: str, options: dict[str, Any]
    ) -> None:
        try:
            if options["sso"] is not None and not settings.SSO:
                raise InvalidError(code="sso_off", loc="sso")
            operator = operators.find(name) or operators.add(name)
            if options["password"]:
                operators.set_password(operator, self.read_password())
            self.set_identity(operator, options)
            for row in rows:
                operators.set_role(row, operator, role)
        except NameTakenError:
            self.end(
                f"The operator {name} is disabled. Let them in again: {PROGRAM} "
                f"disable_operator {name} --enable"
            )
        except InvalidError as refusal:
            self.end(_REASONS[refusal.invalid_code])

    def set_identity(self, operator: Operator, options: dict[str, Any]) -> None:
        if options["sso"] is not None:
            issuer = settings.SSO_ISSUER
            identities.bind(operator, issuer=issuer, subject=options["sso"])
        if options["no_sso"]:
            identities.remove_identities(operator)

    def remove_roles(self, name: str, rows: list[Project]) -> None:
        # Disabled operators too, or the role would return when they are enabled.
        operator = Operator.objects.filter(username=name).first()
        if operator is None:
            self.end("There is no operator of this name.")
        try:
            for row in rows:
                operators.set_role(row, operator, None)
        except InvalidError as refusal:
            self.end(_REASONS[refusal.invalid_code])
        self.say(f"{name} has no role in {', '.join(sorted(r.slug for r in rows))}.")

    def read_password(self) -> str:
        if not sys.stdin.isatty():
            return sys.stdin.readline().rstrip("\n")
        first = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != first:
            self.end("The two differ; nothing was changed.")
        return first

    def has_password(self, name: str) -> bool:
        row: Operator | None = operators.find(name)
        return row is not None and row.has_usable_password()


_REASONS = {
    "sso_off": "Single sign-on is off here; docs/configuration.md says what turns it "
    "on.",
    "subject": "A subject has 1 to 255 characters of ASCII.",
    "subject_taken": "Another operator is let in by this subject already.",
    "name": "A name begins with a letter or digit and has 64 at most of A-Z a-z 0-9 "
    ". _ : @ and -.",
    "password_weak": "The password is too easy to guess: take 12 characters or more, "
    "not only digits, and nothing common.",
    "last_owner": "The project would have no owner; make somebody else owner first.",
}
