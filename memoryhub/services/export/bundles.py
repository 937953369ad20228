"""Bundles taken in: a subject's export becomes its memory here, all of it or nothing.

Only the manifest and the events are read. All is checked before anything is written;
what is written is seen by nobody until the last of it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from uuid import UUID

import orjson
from pydantic import ValidationError

from memoryhub.errors import (
    BadBundleError,
    BundleErasedError,
    HomeTakenError,
    InvalidError,
    NameTakenError,
    ProjectFullError,
)
from memoryhub.journal import importing
from memoryhub.journal.importing import Arrival
from memoryhub.journal.log.heads import Head
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.rows import DerivationRow
from memoryhub.kernel.formats.bundles import (
    EVENTS,
    FORMAT,
    MANIFEST,
    CutThread,
    File,
    Manifest,
)
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state.events import ThreadCreated, ThreadForked
from memoryhub.kernel.text import names
from memoryhub.models.projects import Instance, Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, name_salt
from memoryhub.queries.export import bundles
from memoryhub.services.export import archives
from memoryhub.services.export.archives import Archive
from memoryhub.services.export.bundle_passes import (
    Ids,
    Incoming,
    Pass,
    check,
    folded,
    living,
)
from memoryhub.services.export.withholding import Withheld
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys
from memoryhub.vault.proof import signing

MANIFEST_BYTES: Final = 256 * 2**20
#: Names looked up in one statement.
CHUNK: Final = 200
_GONE: Final = (Subject.State.ERASING, Subject.State.ERASED)
#: Whoever runs `manage.py import`.
ACTOR: Final = "command"

#: Told how many events were looked at or written since the last time.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What has come in, or would."""

    #: None only in a dry run, of one that would be made.
    subject: UUID | None
    threads: int
    events: int
    #: Events whose content was erased here before, and did not come back.
    withheld: int = 0


@dataclass(slots=True)
class Bundle:
    """A bundle that was opened: whole by its own account, and signed by a known key."""

    _archive: Archive
    manifest: Manifest
    file: File

    @classmethod
    def open(
        cls, path: Path, stack: ExitStack, *, trusted: Mapping[str, bytes]
    ) -> Self:
        """Open it for as long as the stack is.

        `trusted` are public keys by id, besides this instance's own. Raises
        BadBundleError, and OSError of the file itself.
        """
        archive = stack.enter_context(archives.opened(path))
        manifest = _manifest(archive, {**signing.public_keys(), **trusted})
        named = {file.path: file for file in manifest.files}
        sizes = {path: file.bytes for path, file in named.items()}
        held = {name: n for name, n in archive.sizes.items() if name != MANIFEST}
        if len(named) != len(manifest.files) or held != sizes:
            raise BadBundleError(what="files")
        if EVENTS not in named:
            raise BadBundleError(what="missing_file")
        return cls(archive, manifest, named[EVENTS])

    @property
    def events(self) -> int:
        return sum(each.head_seq for each in self.manifest.cut)

    def lines(self) -> Iterator[bytes]:
        return self._archive.lines(EVENTS)


def _format_problem(found: object) -> str:
    """What is wrong with a format that is not ours of today."""
    name, _, number = FORMAT.partition("/")
    family, _, version = (
        found.partition("/") if isinstance(found, str) else ("", "", "")
    )
    if family != name or not version.isdecimal():
        return "unknown_format"
    return "newer_format" if int(version) > int(number) else "older_format"


def _manifest(archive: Archive, trusted: Mapping[str, bytes]) -> Manifest:
    try:
        plain = orjson.loads(archive.read(MANIFEST, most=MANIFEST_BYTES))
    except orjson.JSONDecodeError:
        raise BadBundleError(what="manifest") from None
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise BadBundleError(what=_format_problem(found))
    try:
        manifest = Manifest.model_validate_json(orjson.dumps(plain))
        sig = bytes.fromhex(manifest.signature.sig)
    except (ValidationError, ValueError):
        raise BadBundleError(what="manifest") from None
    signer = manifest.signature.key_id
    if signer not in trusted:
        raise BadBundleError(what="unknown_signer")
    if not signing.verify(signer, bundles.canonical(plain), sig, trusted):
        raise BadBundleError(what="signature")
    threads = {each.thread for each in manifest.cut}
    names = {each.name for each in manifest.cut}
    if not len(threads) == len(names) == len(manifest.cut):
        raise BadBundleError(what="cut")
    return manifest


def take(
    bundle: Bundle,
    project: Project,
    *,
    progress: Progress = lambda events: None,
    dry_run: bool = False,
) -> Taken:
    """Take all of the bundle in, for the subject of its `user_id`.

    Checks everything first; a dry run ends there. Raises BadBundleError;
    SubjectErasedError, BundleErasedError, ThreadErasedError, NameTakenError,
    SubjectRestrictedError, ProjectFullError; whatever it raises, nothing of the bundle
    is there afterwards.
    """
    manifest = bundle.manifest
    found = _require_welcome(manifest, project)
    walk = _pass(manifest, project, found or uuid7())
    for _ in check(walk, bundle.lines(), bundle.file):
        progress(1)
    taken = Taken(subject=found, threads=len(manifest.cut), events=bundle.events)
    if dry_run:
        return taken
    subject = _subject(manifest, project)
    walk = _pass(manifest, project, subject.id)
    withheld = Withheld(subject)
    try:
        later = list[DerivationRow]()
        arrived = list(_written(bundle, walk, withheld, subject, progress, later=later))
        importing.open_all(arrived, subject, actor=ACTOR, held_back=later)
    except BaseException:
        importing.remove(walk.ids.threads.values())
        raise
    importing.purge(arrived)
    return replace(taken, subject=subject.id, withheld=withheld.count)


def _pass(manifest: Manifest, project: Project, subject: UUID) -> Pass:
    ids = Ids(
        project=project.id,
        subject=subject,
        was=str(manifest.subject.id),
        threads={str(each.thread): uuid7() for each in manifest.cut},
    )
    return Pass(manifest=manifest, ids=ids, folded=living(manifest))


def _require_welcome(manifest: Manifest, project: Project) -> UUID | None:
    """The subject that is here already. Raises what would be refused anyway."""
    whom = manifest.subject
    subject: Subject | None
    if whom.user_id is None:
        subject = subjects.anonymous(project.id) if whom.anonymous else None
        if subject is None:
            raise BadBundleError(what="subject")
    else:
        subject = _find(project, whom.user_id)
    if Instance.objects.filter(id=manifest.instance).exists():
        gone = Subject.objects.filter(id=whom.id, state__in=_GONE)
        if gone.exists():
            raise BundleErasedError
    room = project.max_threads - project.thread_count
    if sum(not _home(manifest, each) for each in manifest.cut) > room:
        raise ProjectFullError(max_threads=project.max_threads)
    own = subject.id if subject else None
    _require_free([_name(manifest, each, own) for each in manifest.cut], project, own)
    return own


def _find(project: Project, user_id: str) -> Subject | None:
    try:
        return subjects.find(project.id, user_id)
    except InvalidError:
        raise BadBundleError(what="subject") from None


def _name(manifest: Manifest, cut: CutThread, own: UUID | None) -> str:
    """Of a thread here: home's and a bound key's have the subject's id of here."""
    if own is not None and _home(manifest, cut):
        return names.home(own)
    called = names.called(cut.name, manifest.subject.id)
    return (
        cut.name if own is None or called == cut.name else names.of_subject(own, called)
    )


def _home(manifest: Manifest, cut: CutThread) -> bool:
    return cut.name == names.home(manifest.subject.id)


def _require_free(wanted: Sequence[str], project: Project, own: UUID | None) -> None:
    """Raise HomeTakenError, NameTakenError or ThreadErasedError.

    Two queries for 200 names, and one.
    """
    home = names.home(own) if own else None
    if home in wanted and Thread.objects.filter(project=project, name=home).exists():
        raise HomeTakenError
    owners = {owner for name in wanted if (owner := names.owner(name))} - {own}
    if Subject.objects.filter(project=project, id__in=owners).exists():
        raise NameTakenError
    for begin in range(0, len(wanted), CHUNK):
        chunk = wanted[begin : begin + CHUNK]
        for dead in tombstones.dead_names(
            (project.id, name) for name in chunk if not name.startswith(names.HOME)
        ).values():
            raise dead.refusal(None)
        if Thread.objects.filter(project=project, name__in=chunk).exists():
            raise NameTakenError


def _subject(manifest: Manifest, project: Project) -> Subject:
    if manifest.subject.user_id is None:
        return subjects.anonymous(project.id)
    return subjects.find_or_create(project.id, manifest.subject.user_id)


def _written(
    bundle: Bundle,
    walk: Pass,
    withheld: Withheld,
    subject: Subject,
    progress: Progress,
    *,
    later: list[DerivationRow],
) -> Iterator[Head]:
    """Each thread once all of it is on disk, but for what is added to `later`."""
    there = set[UUID]()
    chains: dict[tuple[UUID, int], bytes] = {}
    arrival: Arrival | None = None
    for each in walk.incoming(bundle.lines(), bundle.file):
        if arrival is None:
            arrival = _begun(walk, each, bundle.manifest)
            withheld.begin(arrival.head.state, each.thread.head_seq)
            there.add(arrival.head.state.id)
        _add(arrival, _tied(each, chains), withheld, subject)
        state = arrival.head.state
        walk.keep(state)
        if (state.id, state.seq) in walk.states:
            chains[state.id, state.seq] = arrival.head.chain
        last = state.seq == each.thread.head_seq
        if last or arrival.full:
            progress(len(arrival.events))
            later += importing.hold_back(arrival, there)
            importing.write(arrival, epoch=subject.epoch)
        if last:
            _let_go(arrival, withheld, subject)
            yield arrival.head
            arrival = None


def _begun(walk: Pass, each: Incoming, manifest: Manifest) -> Arrival:
    cut = each.thread
    bare = walk.bare(cut)
    home = isinstance(each.event, ThreadCreated) and each.event.home is True
    if not bare and home != _home(manifest, cut):
        raise BadBundleError(what="cut")
    # Where names are blanked already there is nothing to salt.
    salt = b"" if bare else name_salt()
    return Arrival(
        head=Head.newborn(
            walk.newborn(each), name=_name(manifest, cut, walk.ids.subject), salt=salt
        ),
        origin=importing.origin(
            instance=manifest.instance, thread=cut.thread, head_hash=cut.head_hash
        ),
        bare=bare,
    )


def _tied(each: Incoming, chains: Mapping[tuple[UUID, int], bytes]) -> Incoming:
    """A fork, tied to its parent's history of here."""
    event = each.event
    if not isinstance(event, ThreadForked):
        return each
    link = chains[event.parent, event.parent_seq].hex()
    return replace(each, event=event.model_copy(update={"parent_chain": link}))


def _add(
    arrival: Arrival, each: Incoming, withheld: Withheld, subject: Subject
) -> None:
    before, content, erased_by = arrival.head.state, each.line.content, each.line.erased
    if content is not None:
        erased_by = withheld.erased_by(before, each.event, content)
    arrival.add(
        each.recorded,
        None if erased_by else content,
        state=folded(before, each, bare=arrival.bare),
        erased_by=erased_by,
        key=keys.subject_keys(subject.id, epoch=subject.epoch),
    )


def _let_go(arrival: Arrival, withheld: Withheld, subject: Subject) -> None:
    """End the thread with what proves that its gaps are lawful."""
    key = keys.subject_keys(subject.id, epoch=subject.epoch)
    while recorded := next(withheld.last(arrival.head.state), None):
        state = evolve(arrival.head.state, recorded)
        arrival.add(recorded, None, state=state, erased_by=None, key=key)
        importing.write(arrival, epoch=subject.epoch)
