from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.management import start
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import MAX_THREADS
from memoryhub.services.access import operators, projects

MOST_THREADS = 10_000_000


class Command(Base):
    help = "Make a project: a tenant with keys, threads and people of its own."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "slug", help="its name in addresses: a-z, 0-9 and -, 40 at most"
        )
        parser.add_argument(
            "--max-threads",
            type=int,
            default=MAX_THREADS,
            help=f"threads it may have, 1 to {MOST_THREADS} (default: {MAX_THREADS})",
        )

    def handle(self, *args: Any, slug: str, max_threads: int, **options: Any) -> None:
        try:
            projects.require_slug(slug)
        except InvalidError:
            self.end("A project's name has 1 to 40 characters of a-z, 0-9 and -.")
        if not 1 <= max_threads <= MOST_THREADS:
            self.end(f"--max-threads goes from 1 to {MOST_THREADS}.")
        is_new = start.is_new()
        start.prepare()
        if is_new:
            self.say(f"Began a new hub, with its files in {settings.DATA_DIR}.")
        try:
            projects.create(slug, max_threads=max_threads)
        except NameTakenError:
            self.end(f"There is a project {slug} already. Choose another name.")
        # Without an operator nobody could see the project; add_operator adds more.
        operators.ensure_default()
        self.say(f"Made the project {slug}. Next: {PROGRAM} create_key {slug}")
