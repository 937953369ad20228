"""Commands about one person, whose id never appears in a process list."""

from __future__ import annotations

import argparse
import sys
from typing import Any
from uuid import UUID

from memoryhub.kernel.text import user_ids
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.people import subjects


class Command(Base):
    """A command with actions, some of which are about one person."""

    def require_project(self, slug: str) -> Project:
        row = Project.objects.filter(slug=slug).first()
        if row is None:
            self.end(f"There is no project {slug!r}.", code=WRONG_USAGE)
        return row

    def require_person(self, options: dict[str, Any]) -> Subject:
        """Return the subject by our own id, else by the id on standard input.

        Raises SubjectErasedError.
        """
        project, own = self.require_project(options["project"]), options["subject"]
        if own is None:
            row = subjects.find(project.id, read_user_id(self))
        else:
            row = Subject.objects.filter(project=project, id=own).first()
        if row is None:
            self.end("There is no such person in this project.", code=WRONG_USAGE)
        require_subject(row)
        return row


def read_user_id(command: Base) -> str:
    """Read the person's id from standard input, exactly as agents send it."""
    if sys.stdin.isatty():
        command.say("The person's id, exactly as your agents send it:")
        text = sys.stdin.readline()
    else:
        # Read to the end: the first line of a two-line id may be another person's id.
        text = sys.stdin.read()
    text = text.removesuffix("\n")
    try:
        text.encode()
    except UnicodeEncodeError:
        # Refuses bytes that are not text.
        user_ids.require(text)
    return text


def add_action(
    actions: Any, name: str, short: str, about: str
) -> argparse.ArgumentParser:
    """Add an action with its --help text."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=short,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_person(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a project, and a person by our own id."""
    add_project(parser)
    parser.add_argument(
        "--subject",
        type=UUID,
        metavar="ID",
        help="the person by our own id, instead of the one on standard input",
    )


def add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", required=True, metavar="SLUG", help="the project's name"
    )
