"""`manage.py import --format bundle`: import a subject's export of any hub."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO, cast

from memoryhub.distribution import PROGRAM
from memoryhub.errors import BadBundleError
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import WRONG_USAGE, Command
from memoryhub.models.projects import Project
from memoryhub.services.export import bundles
from memoryhub.services.export.bundles import Bundle, ImportedBundle
from memoryhub.vault.proof import signing

FORMAT = "bundle"
#: Options of runs and chats; a bundle contains all of this itself.
_OTHERS = (
    *("source", "thread", "user_id", "agent_type", "budget", "report", "skip_bad"),
)


class _BundleProgress(ProgressBar):
    """Progress of an import: each event is checked, then written."""

    def add(self, amount: int) -> None:
        if self.done >= self.total:
            self.done, self.unit = 0, "events written"
            self.began = time.monotonic()
        super().add(amount)


def run(
    command: Command, options: Mapping[str, Any], project: Callable[[str], Project]
) -> None:
    """Import the bundle, or end the command with the reason."""
    given = [name for name in _OTHERS if options[name] not in (None, False)]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        command.end(
            f"A bundle says it all itself; leave out {flags}.", code=WRONG_USAGE
        )
    if options["file"] == "-":
        command.end("A bundle can't come from stdin; name its file.", code=WRONG_USAGE)
    row = project(options["project"])
    with ExitStack() as stack:
        try:
            trusted = _read_trusted_keys(command, options["keys"])
            bundle = Bundle.open(Path(options["file"]), stack, trusted=trusted)
            taken = _take_bundle(command, bundle, row, options)
        except BadBundleError as refusal:
            if refusal.detail.get("what") == "older_format":
                command.end(
                    "The bundle is of a format from before the first release, which is "
                    "read no more; export it anew with this version."
                )
            hint = ""
            if refusal.detail.get("what") == "unknown_signer":
                hint = (
                    " A bundle of another hub needs --keys FILE: what "
                    f"`{PROGRAM} receipt keys` prints there."
                )
            command.end(f"{refusal.code}: {refusal.sentence}{hint}")
        except OSError as failure:
            what = failure.strerror or type(failure).__name__
            command.end(f"Can't read {failure.filename or 'the file'}: {what}.")
    _report_taken(command, taken, options)


def _read_trusted_keys(command: Command, file: str | None) -> Mapping[str, bytes]:
    if file is None:
        return {}
    try:
        return signing.decode_keys(Path(file).read_bytes())
    except ValueError:
        command.end(
            "--keys takes the public keys of the hub that made the bundle, as its "
            f"`{PROGRAM} receipt keys` prints them.",
            code=WRONG_USAGE,
        )


def _take_bundle(
    command: Command, bundle: Bundle, project: Project, options: Mapping[str, Any]
) -> ImportedBundle:
    out = cast("TextIO", command.stderr._out)  # noqa: SLF001 # to ask it isatty
    progress = _BundleProgress(out, total=bundle.events, unit="events checked")
    if options["quiet"]:
        progress.every = math.inf
    try:
        return bundles.import_bundle(
            bundle, project, progress=progress.add, dry_run=options["dry_run"]
        )
    except KeyboardInterrupt:
        progress.close()
        command.say("Stopped. Nothing of the bundle is there.")
        sys.exit(1)
    finally:
        progress.close()


def _report_taken(
    command: Command, taken: ImportedBundle, options: Mapping[str, Any]
) -> None:
    if options["json"]:
        report = {
            "file": options["file"],
            "format": FORMAT,
            "dry_run": options["dry_run"],
            "subject": str(taken.subject) if taken.subject else None,
            "threads": taken.threads,
            "events": taken.events,
            "withheld": taken.withheld,
            "already_there": taken.is_repeat,
        }
        command.stdout.write(json.dumps(report))
    elif not options["quiet"]:
        held = f", {taken.withheld:,} of them erased here before" * bool(taken.withheld)
        line = f"{taken.threads:,} threads, {taken.events:,} events{held}"
        if taken.is_repeat:
            command.stdout.write(f"{line}: already there. Nothing was written.")
        elif options["dry_run"]:
            command.stdout.write(f"{line}: all right. Nothing was written.")
        else:
            command.stdout.write(f"{line}: all of it is in.")
