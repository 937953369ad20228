from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final, TextIO, cast

from django.core.management.base import CommandParser

from memoryhub.errors import NotFoundError
from memoryhub.management import people, start
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.export import exports
from memoryhub.services.export.exports import BundleExport
from memoryhub.services.people import subjects

ABOUT: Final = """\
Hand over all that is remembered of one person: a ZIP with every event, what it came
to, pages to read in a browser, who has seen it, and a signed manifest.

The person's id, as your application knows them, is read from standard input, so that
it stands in no process list. A server may be running meanwhile. The file appears under
its name once it is whole; it is readable by you alone, and holds content in the clear.

It counts among the exports of the project (MEMORYHUB_EXPORTS_PER_DAY and the like) and
stands in the audit log."""


class Command(Base):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("project", help="the project's name")
        add("-o", "--output", metavar="FILE", help="default: memoryhub-<subject>.zip")
        add(
            "--anonymous",
            action="store_true",
            help="what is about nobody in particular; nothing is read from stdin",
        )
        add("--quiet", action="store_true", help="no progress")

    def handle(self, *_: Any, project: str, **options: Any) -> None:
        start.prepare()
        clock.require_true()
        subject = self._require_subject(project, anonymous=options["anonymous"])
        export = exports.begin_export(subject, actor="command")
        path = Path(options["output"] or export.name)
        try:
            self._write_file(export, path, quiet=options["quiet"])
        except OSError as failure:
            what = failure.strerror or type(failure).__name__
            self.end(f"Can't write {failure.filename or path}: {what}.")
        finally:
            export.close()
        size = export.sent / 1e6
        self.stdout.write(f"{export.cut.events:,} events, {size:,.1f} MB: {path}")

    def _require_subject(self, slug: str, *, anonymous: bool) -> Subject:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            self.end("There is no project of that name.")
        if anonymous:
            return subjects.get_anonymous(project.id)
        subject = subjects.find(project.id, people.read_user_id(self))
        if subject is None:
            raise NotFoundError
        return subject

    def _write_file(self, export: BundleExport, path: Path, *, quiet: bool) -> None:
        """Write to a `.part` file first, so that the file at `path` is complete."""
        out = cast("TextIO", self.stderr._out)  # noqa: SLF001 # to ask it isatty
        # Events are read twice: once for JSON files, once for pages.
        progress = ProgressBar(out, total=2 * export.cut.events, unit="events")
        if quiet:
            progress.every = math.inf
        draft = path.with_name(f"{path.name}.part")
        draft.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                for part in export.stream(progress=progress.add):
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            progress.close()
