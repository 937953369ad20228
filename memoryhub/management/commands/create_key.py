from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError
from memoryhub.management import people, start
from memoryhub.management.serving import address
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.access import api_keys
from memoryhub.services.people import subjects

MOST_DAYS = 3650
_PROBLEMS = {
    "scopes_mixed": "Memory scopes and subject scopes never go together; make two "
    "keys.",
    "scopes": f"--scopes takes {', '.join((*MEMORY_SCOPES, *SUBJECT_SCOPES))}.",
    "name": f"--name takes letters, digits and . _ : @ -, at most "
    f"{api_keys.MAX_NAME} of them.",
}


class Command(Base):
    help = (
        "Make an API key for a project's agents and print it, once: only a digest of "
        "it is kept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", help="the project's name")
        parser.add_argument(
            "--name",
            default="",
            help="what people call it, after what uses it: lists show it as the actor",
        )
        parser.add_argument(
            "--scopes",
            default=",".join(MEMORY_SCOPES),
            help=f"comma-separated, of {', '.join(MEMORY_SCOPES)}, or of "
            f"{', '.join(SUBJECT_SCOPES)} (default: reading and writing memory)",
        )
        parser.add_argument(
            "--user-id",
            action="store_true",
            help="confine the key to one person; the id is read from standard input, "
            "so that it stands in no process list",
        )
        parser.add_argument(
            "--expires-days",
            type=int,
            help="end the key after so many days (default: never)",
        )

    def handle(self, *args: Any, project: str, **options: Any) -> None:
        days = options["expires_days"]
        if days is not None and not 1 <= days <= MOST_DAYS:
            self.end(f"--expires-days goes from 1 to {MOST_DAYS}.", code=WRONG_USAGE)
        start.prepare_existing()
        row = Project.objects.filter(slug=project).first()
        if row is None:
            self.end(
                f"There is no project of that name. Make it: {PROGRAM} create_project "
                f"{project}"
            )
        scopes = self.read_scopes(options["scopes"], name=options["name"])
        subject = None
        if options["user_id"]:
            subject = subjects.find_or_create(row.id, people.read_user_id(self))
        _, key = api_keys.create(
            row,
            name=options["name"],
            scopes=scopes,
            subject=subject,
            expires_at=clock.now() + timedelta(days=days) if days else None,
        )
        self.show_key(key)

    def read_scopes(self, given: str, *, name: str) -> list[str]:
        """Parse the scopes; end if no key of this name could have them."""
        scopes = [word for word in given.split(",") if word]
        try:
            api_keys.require_creatable(scopes, name=name)
        except InvalidError as refusal:
            problem = _PROBLEMS.get(refusal.invalid_code, _PROBLEMS["scopes"])
            self.end(problem, code=WRONG_USAGE)
        return scopes

    def show_key(self, key: str) -> None:
        self.say("This key is shown once. Put it into KEY and try it:")
        threads = f"{address.find_address()}/api/v1/threads"
        self.say(f'  curl -H "Authorization: Bearer $KEY" {threads}')
        self.stdout.write(key)
