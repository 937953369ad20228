from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO, cast, get_args
from zipfile import ZipFile

from django.core.management.base import CommandParser

from memoryhub.errors import NotFoundError
from memoryhub.management import people, start
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.export import exports
from memoryhub.services.export.exports import BundleExport, ExportFormat
from memoryhub.services.people import subjects

ABOUT: Final = """\
Hand over all that is remembered of one person: a ZIP with every event, what it came
to, pages to read in a browser, who has seen it, and a signed manifest.

--format markdown hands over the present memory alone, as Markdown files for people and
other tools. The files are not signed, and no hub can import them.

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
            "--format",
            choices=get_args(ExportFormat),
            default="bundle",
            help="default: bundle; of markdown, -o FOLDER/ makes a new folder",
        )
        add(
            "--anonymous",
            action="store_true",
            help="what is about nobody in particular; nothing is read from stdin",
        )
        add("--quiet", action="store_true", help="no progress")

    def handle(self, *_: Any, project: str, **options: Any) -> None:
        start.prepare_existing()
        clock.require_true()
        kind, output = options["format"], options["output"] or ""
        folder = output.endswith("/")
        if folder and kind != "markdown":
            self.end("A folder needs --format markdown: a bundle is one file.", code=2)
        if folder and os.path.lexists(Path(output)):
            self.end(f"{output} exists.")
        subject = self._require_subject(project, anonymous=options["anonymous"])
        export = exports.begin_export(subject, actor="command", kind=kind)
        path = Path(output or export.name)
        try:
            self._write_file(export, path, folder=folder, quiet=options["quiet"])
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

    def _write_file(
        self, export: BundleExport, path: Path, *, folder: bool, quiet: bool
    ) -> None:
        """Write to a `.part` file first, so that what is at `path` is complete."""
        out = cast("TextIO", self.stderr._out)  # noqa: SLF001 # to ask it isatty
        progress = ProgressBar(out, total=export.reads, unit="events")
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
            if folder:
                _unpack(draft, path)
            else:
                draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            progress.close()


def _unpack(draft: Path, path: Path) -> None:
    """Unpack the ZIP at `draft` into a new folder at `path`, then delete the ZIP."""
    # The folder of the draft is readable by its owner alone, and is moved whole.
    with TemporaryDirectory(prefix=f"{draft.name}-", dir=path.parent) as name:
        with ZipFile(draft) as whole:
            for entry in whole.infolist():
                file = Path(name) / entry.filename
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with whole.open(entry) as packed, file.open("xb") as plain:
                    file.chmod(0o600)
                    shutil.copyfileobj(packed, plain)
        Path(name).replace(path)
    draft.unlink()
