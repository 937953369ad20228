"""Base of our commands: failures end in one clear line."""

from __future__ import annotations

import sys
from argparse import RawDescriptionHelpFormatter
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, connections

from memoryhub.errors import InvalidError, Refusal, StartRefusedError
from memoryhub.kernel.text import user_ids
from memoryhub.management import logs

#: Exit codes: the command failed; the instance must not run in this state.
FAILED, REFUSED = 1, 2
#: Exit code of arguments that no instance could accept.
WRONG_USAGE = 2


class Command(BaseCommand):
    """A command that ends in one line and a code instead of a traceback."""

    requires_system_checks: list[str] = []

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        # A help of several paragraphs is shown verbatim; a single one is wrapped.
        if "\n" in self.help:
            kwargs["formatter_class"] = RawDescriptionHelpFormatter
        return super().create_parser(prog_name, subcommand, **kwargs)

    def run_from_argv(self, argv: list[str]) -> None:
        # Libraries log through our handler, which drops their texts.
        logs.configure(sys.stderr)
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except StartRefusedError as refused:
            self.end(f"MemoryHub does not start: {refused.reason}", code=REFUSED)
        except InvalidError as refusal:
            if refusal.loc != "user_id":
                says = refusal.message
                if refusal.allowed:
                    says = f"{refusal.loc} takes {refusal.allowed}"
                self.end(f"{refusal.invalid_code}: {says}", code=FAILED)
            self.end(
                f"Standard input takes a person's id: {user_ids.RULE}.",
                code=WRONG_USAGE,
            )
        except Refusal as refusal:
            self.end(f"{refusal.code}: {refusal.sentence}", code=FAILED)
        except Error as failure:
            # The driver's text may hold an address with a password.
            self.end(
                f"database_away: the database does not answer as it should "
                f"({type(failure).__name__}); {_build_database_advice()}",
                code=REFUSED,
            )

    def end(self, line: str, *, code: int = FAILED) -> NoReturn:
        """End the command with one line on standard error."""
        self.stderr.write(" ".join(line.split()))
        sys.exit(code)

    def say(self, line: str = "") -> None:
        """Print a line for the person at the terminal; standard output is for data."""
        self.stderr.write(line, style_func=str)


def _build_database_advice() -> str:
    """Return a question that leads to the cause when a database does not answer."""
    if all(connections[alias].vendor == "sqlite" for alias in connections):
        return f"may you write to {settings.DATA_DIR}, and has its disk room?"
    return "is it running, and are DATABASE_URL and KEYS_DATABASE_URL right?"
