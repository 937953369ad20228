from __future__ import annotations  # the command is called import

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError
from memoryhub.journal.log import fence
from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord
from memoryhub.kernel.formats.transcripts import ImportOptions, Item
from memoryhub.kernel.state.paging_config import RANGES
from memoryhub.kernel.text import names, user_ids
from memoryhub.management import bundle_import, noting, people, start
from memoryhub.management.import_progress import ImportProgress
from memoryhub.management.import_summary import (
    Summary,
    build_bad_fields,
    render_bad_line,
)
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.imports import checkpoint_files
from memoryhub.services.imports.imports import Import
from memoryhub.workers.overview import activity

CHUNK_BYTES = 65_536

ABOUT: Final = """\
Import recorded agent runs into a project, through the same writer as the API.

FILE holds messages as the API takes them, in one of these formats:
runs         a JSON array, each element a run: task_id, trial (an integer) and traj
             (its messages); reward and info if it has them, the person as
             info.task.user_id
chat         JSON Lines, each line a message: role, content and the like; thread,
             user_id and at (a time with its offset) if it has them
tuning       lines for fine-tuning, each a thread: messages, and what stands beside
chatgpt      conversations.json of ChatGPT's export; of each the branch that is
             current, without thoughts, with a line for each picture or file
claude       conversations.json of Claude's export; of each the branch that is
             current, without thoughts, with the text of what was attached
claude-code  a session file of Claude Code: its messages, each once, without what is
             between and what the program itself put into the user's mouth
codex        a session file (rollout) of Codex: its items, without what is between
mem0         memories as mem0's get_all returns them: an array, or pages with results;
             those of each user, agent, app and run are a thread, by time
letta        an agent file (.af) of Letta: the messages of each agent are a thread, its
             blocks are blocks of the subject, under their labels with . for /
langgraph    a database of LangGraph's SQLite saver: the messages of the newest
             checkpoint of each thread, of the person that user_id of its metadata names
zep          pages of Zep's API: the messages of each thread are a thread, and each edge
             of the graph is a claim that is valid as long as the edge was

What has no place here, such as tools, secrets and settings of a Letta agent, is left
out and counted by its name. A block that is there already stays as it is. A later
file with other words in earlier messages is refused (differs): give another --source.
One with another title goes on, and the first title stays.

A database is only read, and no class that it names is built. Messages get the time
of the first checkpoint that has them; LINE of a place is the row's number.

With mem0, get_all returns twenty memories unless top_k says more. An agent file holds
at most the messages in the agent's context, or fifty, and no archival memory.

A tool whose name can't be a sender's is mended there, and kept in the message.

Safe to interrupt and to repeat: a run that is there already is left as it is, one
that is incomplete goes on where it stopped. A server may be running meanwhile.

With --budget each model call is replayed as if it had had that budget: a turn is begun
before each answer of the model, what the messages refer to is fetched back, and each
request is recorded and marked simulated. Another budget for the same threads is
refused (budget_differs): give another --source then.

With --format bundle the file is the export of one person's memory, and all of it comes
in or nothing: the threads with their numbers, times and names, under ids and keys of
this hub. One of another hub needs its public keys (--keys). The same bundle once more
is already there; another bundle of that person is refused (home_taken, name_taken).

What can't be imported is named by its place, as FILE:LINE:OFFSET run=N message=N
CODE (lines count from 1, all else from 0), never by its content.

With --skip-bad a result whose call was left out is left out as well (unknown_call).

Exit code: 0 all is in; 1 stopped, by a bad record or by you; 2 wrong usage, or nothing
came in; 3 all is in but for what was skipped or has been erased here."""


class Command(Base):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("file", metavar="FILE", help="the file, or - for stdin")
        add("--project", metavar="NAME", required=True, help="where it goes")
        others = [checkpoint_files.FORMAT, bundle_import.FORMAT]
        kinds = ["auto", *formats.FORMATS, *others]
        add("--format", choices=kinds, default="auto", help="auto: by the first record")
        add("--keys", metavar="FILE", help="bundle: public keys of the hub it is from")
        add("--source", metavar="NAME", help="default: the file's name, no ending")
        add("--thread", metavar="NAME", help="chat: of lines that name no thread")
        about = "whom all of it is about: the id is read from standard input"
        add("--user-id", action="store_true", help=about)
        add("--agent-type", metavar="NAME", help="scope of threads; default: source")
        add("--budget", metavar="TOKENS", help="simulate paging under it")
        add("--skip-bad", action="store_true", help="leave bad records out and go on")
        add("--dry-run", action="store_true", help="check it all, write nothing")
        add("--report", metavar="FILE", help="write bad records there, as NDJSON")
        add("--json", action="store_true", help="sum up in one JSON object")
        add("--quiet", action="store_true", help="no progress and no table")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["format"] == bundle_import.FORMAT:
            bundle_import.run(self, options, self._require_project)
            return
        if options["keys"] is not None:
            self._refuse_usage("--keys goes with --format bundle only.")
        read_as = self._read_options(options)
        began = time.monotonic()
        with ExitStack() as stack:
            file = self._open_file(options["file"], stack)
            report = self._open_report(options["report"], stack)
            job = Import(
                self._require_project(options["project"]),
                skip_bad=options["skip_bad"],
                dry_run=options["dry_run"],
                budget=self._parse_budget(options["budget"]),
            )
            progress = self._build_progress(file, job, options)
            name, items = self._read_items(file, progress, read_as, options, stack)
            self._import_items(job, items, progress, options["file"], report)
        self._note_import(job)
        activity.flush()
        summary = Summary(
            file=options["file"],
            format=name,
            complete=job.complete,
            dry_run=job.dry_run,
            counts=job.counts,
            read_bytes=progress.done,
            took_seconds=time.monotonic() - began,
        )
        self._print_summary(summary, options)

    def _note_import(self, job: Import) -> None:
        if runs := 0 if job.dry_run else job.counts.runs:
            noting.note(self, "import.done", project=job.project.id, count=runs)

    def _print_summary(self, summary: Summary, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(summary.to_dict()))
        elif not options["quiet"]:
            self.stdout.write(summary.render_table())
        if summary.complete and summary.is_empty:
            self._refuse_usage(
                "Nothing came in: the file holds nothing that can be imported."
            )
        if code := summary.exit_code:
            sys.exit(code)

    def _read_options(self, options: dict[str, Any]) -> ImportOptions:
        """Read the options that describe the file; refuse invalid names."""
        source = options["source"]
        if source is None:
            stdin = options["file"] == "-"
            source = "stdin" if stdin else Path(options["file"]).stem
            if not _is_free_name(source):
                self._refuse_usage(
                    "The file's name can't begin the names of threads; "
                    "say --source NAME."
                )
        found = ImportOptions(
            source=source,
            thread=options["thread"],
            user_id=self._read_user_id(options["file"]) if options["user_id"] else None,
            agent_type=options["agent_type"],
        )
        for option in ("source", "thread", "agent_type"):
            text = getattr(found, option)
            if text is not None and not _is_free_name(text):
                self._refuse_usage(
                    f"--{option.replace('_', '-')} takes a name: letters, digits and "
                    "._:@- after a letter or digit, at most 128, not beginning with mh."
                )
        return found

    def _read_user_id(self, file: str) -> str:
        """Read the user id from standard input, which keeps it out of process lists."""
        if file == "-":
            self._refuse_usage(
                "--user-id reads standard input, which is the file already."
            )
        return user_ids.require(people.read_user_id(self))

    def _parse_budget(self, sent: str | int | None) -> int | None:
        if sent is None:
            return None
        text, (least, most) = str(sent), RANGES["budget_tokens"]
        tokens = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= tokens <= most:
            self._refuse_usage(
                f"--budget takes a whole number from {least:,} to {most:,}."
            )
        return tokens

    def _require_project(self, slug: str) -> Project:
        start.prepare_existing()
        # Checked once here, not as an error of every message.
        clock.require_true()
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            self._refuse_usage(
                f"There is no project of that name. Make it: {PROGRAM} create_project "
                f"{slug}"
            )
        fence.require_active(project.id)
        return project

    def _open_file(self, file: str, stack: ExitStack) -> int:
        """Open the file and return its descriptor."""
        if file == "-":
            return sys.stdin.fileno()
        try:
            descriptor = os.open(file, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            os.read(descriptor, 0)  # a folder fails here, not during the import
        except OSError as failure:
            self._refuse_usage(_render_failure("read", failure))
        return descriptor

    def _open_report(self, file: str | None, stack: ExitStack) -> TextIO | None:
        if file is None:
            return None
        try:
            return stack.enter_context(Path(file).open("w", encoding="utf-8"))
        except OSError as failure:
            self._refuse_usage(_render_failure("write", failure))

    def _build_progress(
        self, file: int, job: Import, options: dict[str, Any]
    ) -> ImportProgress:
        stdin = options["file"] == "-"
        size = None if stdin else os.fstat(file).st_size
        out = cast("TextIO", self.stderr._out)  # noqa: SLF001 # to ask it isatty
        progress = ImportProgress(out, size_bytes=size, counts=job.counts)
        if options["quiet"]:
            progress.every = math.inf
        return progress

    def _read_items(
        self,
        file: int,
        progress: ImportProgress,
        read_as: ImportOptions,
        options: dict[str, Any],
        stack: ExitStack,
    ) -> tuple[str, Iterator[Item]]:
        """Return the format's name and a lazy iterator over the file's items."""

        def iter_chunks() -> Iterator[bytes]:
            while chunk := os.read(file, CHUNK_BYTES):
                progress.add(len(chunk))
                yield chunk

        name = options["format"]
        if name == "auto" and _is_database(file, options["file"]):
            name = checkpoint_files.FORMAT
        if name == checkpoint_files.FORMAT and options["file"] == "-":
            self._refuse_usage("A database can't come from stdin; name its file.")
        try:
            if name == checkpoint_files.FORMAT:
                path = Path(options["file"])
                items = checkpoint_files.read(
                    path, stack, options=read_as, progress=progress.add
                )
            else:
                name, items = formats.read(
                    iter_chunks(), options=read_as, format_name=name
                )
        except InvalidError as refusal:
            if refusal.invalid_code == "empty":
                self._refuse_usage("Nothing came in: the file is empty.")
            formats_read = ", ".join([*formats.FORMATS, checkpoint_files.FORMAT])
            self._refuse_usage(
                "The file is none of the formats that are read, by its first record "
                f"(unknown_format): {formats_read}. The export of a person comes in "
                "by --format bundle. See import --help."
            )
        if read_as.thread is not None and name != "chat":
            self._refuse_usage("--thread goes with --format chat only.")
        return name, items

    def _import_items(
        self,
        job: Import,
        items: Iterable[Item],
        progress: ImportProgress,
        file: str,
        report: TextIO | None,
    ) -> None:
        """Import the items; print each bad record at once."""
        try:
            for step in job.import_items(items):
                if not isinstance(step, BadRecord):
                    progress.add(0)
                    continue
                progress.close()
                self.stderr.write(render_bad_line(file, step))
                if report is not None:
                    report.write(json.dumps(build_bad_fields(file, step)) + "\n")
        except KeyboardInterrupt:
            pass  # imported runs stay, and the summary reports the stop
        except OSError as failure:
            progress.close()
            self.end(_render_failure("read", failure))
        finally:
            progress.close()

    def _refuse_usage(self, line: str) -> NoReturn:
        self.end(line, code=WRONG_USAGE)


def _is_free_name(text: str) -> bool:
    return names.is_valid(text) and not names.is_reserved(text)


def _is_database(file: int, name: str) -> bool:
    """Return whether the file is an SQLite database; standard input is none."""
    magic = checkpoint_files.MAGIC
    return name != "-" and os.pread(file, len(magic), 0) == magic


def _render_failure(verb: str, failure: OSError) -> str:
    what = failure.strerror or type(failure).__name__
    return f"Can't {verb} {failure.filename or 'the file'}: {what}."
