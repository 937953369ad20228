"""Bundle imports: a subject's export becomes memory here, all of it or nothing.

Only the manifest and the events are read. All events are checked before any is written;
no reader sees the threads until the last event is written. See decision 23.
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
from memoryhub.journal.log.heads import ThreadHead
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.rows import DerivationRow
from memoryhub.kernel.formats.bundles import (
    EVENTS,
    FORMAT,
    MANIFEST,
    BundleFile,
    BundleManifest,
    CutThread,
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
from memoryhub.services.export.archives import ImportArchive
from memoryhub.services.export.bundle_passes import (
    BundleIds,
    BundlePass,
    IncomingEvent,
    check_events,
    find_living_threads,
    fold_event,
)
from memoryhub.services.export.withholding import WithheldEvents
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys
from memoryhub.vault.proof import signing

MANIFEST_BYTES: Final = 256 * 2**20
#: Names looked up in one statement.
CHUNK: Final = 200
_GONE: Final = (Subject.State.ERASING, Subject.State.ERASED)
#: Actor of `manage.py import`.
ACTOR: Final = "command"

#: Called with the number of events checked or written since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBundle:
    """Result of an import, or of its dry run."""

    #: None only in a dry run whose subject does not exist yet.
    subject: UUID | None
    threads: int
    events: int
    #: Events whose content was erased here earlier, and was not imported.
    withheld: int = 0
    #: Whether an earlier import brought the bundle in; nothing was written now.
    is_repeat: bool = False


@dataclass(slots=True)
class Bundle:
    """Opened bundle: complete by its manifest, and signed by a known key."""

    _archive: ImportArchive
    manifest: BundleManifest
    file: BundleFile

    @classmethod
    def open(
        cls, path: Path, stack: ExitStack, *, trusted: Mapping[str, bytes]
    ) -> Self:
        """Open the bundle for as long as the stack is open.

        `trusted` are public keys by id, besides this instance's own. Raises
        BadBundleError, and OSError of the file itself.
        """
        archive = stack.enter_context(archives.open_archive(path))
        manifest = _read_manifest(archive, {**signing.list_public_keys(), **trusted})
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
        """Number of events in the bundle."""
        return sum(each.head_seq for each in self.manifest.cut)

    def iter_lines(self) -> Iterator[bytes]:
        """Yield the lines of the events file."""
        return self._archive.iter_lines(EVENTS)


def _name_format_problem(found: object) -> str:
    """Name the problem with a format other than the present one."""
    name, _, number = FORMAT.partition("/")
    family, _, version = (
        found.partition("/") if isinstance(found, str) else ("", "", "")
    )
    if family != name or not version.isdecimal():
        return "unknown_format"
    return "newer_format" if int(version) > int(number) else "older_format"


def _read_manifest(
    archive: ImportArchive, trusted: Mapping[str, bytes]
) -> BundleManifest:
    """Read the manifest and verify its signature. Raises BadBundleError."""
    try:
        plain = orjson.loads(archive.read(MANIFEST, most=MANIFEST_BYTES))
    except orjson.JSONDecodeError:
        raise BadBundleError(what="manifest") from None
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise BadBundleError(what=_name_format_problem(found))
    try:
        manifest = BundleManifest.model_validate_json(orjson.dumps(plain))
        sig = bytes.fromhex(manifest.signature.sig)
    except (ValidationError, ValueError):
        raise BadBundleError(what="manifest") from None
    signer = manifest.signature.key_id
    if signer not in trusted:
        raise BadBundleError(what="unknown_signer")
    if not signing.is_signed(signer, bundles.build_canonical(plain), sig, trusted):
        raise BadBundleError(what="signature")
    threads = {each.thread for each in manifest.cut}
    names = {each.name for each in manifest.cut}
    if not len(threads) == len(names) == len(manifest.cut):
        raise BadBundleError(what="cut")
    return manifest


def import_bundle(
    bundle: Bundle,
    project: Project,
    *,
    progress: Progress = lambda events: None,
    dry_run: bool = False,
) -> ImportedBundle:
    """Import the whole bundle for the subject of its `user_id`.

    Checks everything first; a dry run ends there. A bundle that is there already is
    left as it is, whatever was written to its threads since. Raises BadBundleError;
    SubjectErasedError, BundleErasedError, ThreadErasedError, NameTakenError,
    SubjectRestrictedError, ProjectFullError; after any error nothing of the bundle is
    stored.
    """
    manifest = bundle.manifest
    taken = ImportedBundle(
        subject=None, threads=len(manifest.cut), events=bundle.events
    )
    if (there := _find_imported(manifest, project)) is not None:
        return replace(taken, subject=there, is_repeat=True)
    found = _require_acceptable(manifest, project)
    walk = _build_pass(manifest, project, found or uuid7())
    for _ in check_events(walk, bundle.iter_lines(), bundle.file):
        progress(1)
    if dry_run:
        return replace(taken, subject=found)
    subject = _ensure_subject(manifest, project)
    walk = _build_pass(manifest, project, subject.id)
    withheld = WithheldEvents(subject)
    try:
        later = list[DerivationRow]()
        arrived = list(
            _write_threads(bundle, walk, withheld, subject, progress, later=later)
        )
        importing.open_all(arrived, subject, actor=ACTOR, held_back=later)
    except BaseException:
        importing.remove(walk.ids.threads.values())
        raise
    importing.purge(arrived)
    return replace(taken, subject=subject.id, withheld=withheld.count)


def _build_pass(
    manifest: BundleManifest, project: Project, subject: UUID
) -> BundlePass:
    """Build a pass with a new id for each thread."""
    ids = BundleIds(
        project=project.id,
        subject=subject,
        subject_in_bundle=str(manifest.subject.id),
        threads={str(each.thread): uuid7() for each in manifest.cut},
    )
    return BundlePass(
        manifest=manifest, ids=ids, folded_threads=find_living_threads(manifest)
    )


def _find_imported(manifest: BundleManifest, project: Project) -> UUID | None:
    """Return the subject that has all of the bundle's living threads, if there is one.

    A thread is the same by its id there and the hash of its last event. Two queries,
    and one for 200 threads.
    """
    subject = _find_subject(manifest, project)
    living = [each for each in manifest.cut if each.status != "erased"]
    if subject is None or not living:
        return None
    rows = Thread.objects.filter(project=project, subject=subject)
    there = rows.exclude(status__in=[Thread.Status.IMPORTING, Thread.Status.ERASED])
    for begin in range(0, len(living), CHUNK):
        origins = [
            importing.render_origin(
                instance=manifest.instance, thread=each.thread, head_hash=each.head_hash
            )
            for each in living[begin : begin + CHUNK]
        ]
        if there.filter(origin__in=origins).count() < len(origins):
            return None
    return subject.id


def _require_acceptable(manifest: BundleManifest, project: Project) -> UUID | None:
    """Return the id of the existing subject; raise what would be refused anyway."""
    subject = _find_subject(manifest, project)
    if Instance.objects.filter(id=manifest.instance).exists():
        gone = Subject.objects.filter(id=manifest.subject.id, state__in=_GONE)
        if gone.exists():
            raise BundleErasedError
    room = project.max_threads - project.thread_count
    if sum(not _is_home(manifest, each) for each in manifest.cut) > room:
        raise ProjectFullError(max_threads=project.max_threads)
    own = subject.id if subject else None
    _require_free(
        [_build_thread_name(manifest, each, own) for each in manifest.cut], project, own
    )
    return own


def _find_subject(manifest: BundleManifest, project: Project) -> Subject | None:
    """Find whom the bundle is about. Raises BadBundleError for an invalid user id."""
    whom = manifest.subject
    if whom.user_id is None:
        if not whom.anonymous:
            raise BadBundleError(what="subject")
        return subjects.get_anonymous(project.id)
    try:
        return subjects.find(project.id, whom.user_id)
    except InvalidError:
        raise BadBundleError(what="subject") from None


def _build_thread_name(
    manifest: BundleManifest, cut: CutThread, own: UUID | None
) -> str:
    """Build a thread's name here: home and bound threads contain the subject's id."""
    if own is not None and _is_home(manifest, cut):
        return names.build_home_name(own)
    called = names.remove_subject(cut.name, manifest.subject.id)
    return (
        cut.name
        if own is None or called == cut.name
        else names.add_subject(own, called)
    )


def _is_home(manifest: BundleManifest, cut: CutThread) -> bool:
    """Return whether the thread is its subject's home thread."""
    return cut.name == names.build_home_name(manifest.subject.id)


def _require_free(wanted: Sequence[str], project: Project, own: UUID | None) -> None:
    """Raise HomeTakenError, NameTakenError or ThreadErasedError.

    Two queries for 200 names, and one.
    """
    home = names.build_home_name(own) if own else None
    if home in wanted and Thread.objects.filter(project=project, name=home).exists():
        raise HomeTakenError
    owners = {owner for name in wanted if (owner := names.find_owner(name))} - {own}
    if Subject.objects.filter(project=project, id__in=owners).exists():
        raise NameTakenError
    for begin in range(0, len(wanted), CHUNK):
        chunk = wanted[begin : begin + CHUNK]
        for dead in tombstones.find_dead_names(
            (project.id, name) for name in chunk if not name.startswith(names.HOME)
        ).values():
            raise dead.build_refusal(None)
        if Thread.objects.filter(project=project, name__in=chunk).exists():
            raise NameTakenError


def _ensure_subject(manifest: BundleManifest, project: Project) -> Subject:
    """Return the bundle's subject, created if new."""
    if manifest.subject.user_id is None:
        return subjects.get_anonymous(project.id)
    return subjects.find_or_create(project.id, manifest.subject.user_id)


def _write_threads(
    bundle: Bundle,
    walk: BundlePass,
    withheld: WithheldEvents,
    subject: Subject,
    progress: Progress,
    *,
    later: list[DerivationRow],
) -> Iterator[ThreadHead]:
    """Write the threads; yield each head once its thread is on disk, except `later`."""
    there = set[UUID]()
    chains: dict[tuple[UUID, int], bytes] = {}
    arrival: Arrival | None = None
    for each in walk.iter_events(bundle.iter_lines(), bundle.file):
        if arrival is None:
            arrival = _begin_arrival(walk, each, bundle.manifest)
            withheld.begin(arrival.head.state, each.thread.head_seq)
            there.add(arrival.head.state.id)
        _add_event(arrival, _link_to_parent(each, chains), withheld, subject)
        state = arrival.head.state
        walk.keep_fork_point(state)
        if (state.id, state.seq) in walk.states:
            chains[state.id, state.seq] = arrival.head.chain
        last = state.seq == each.thread.head_seq
        if last or arrival.is_full:
            progress(len(arrival.events))
            later += importing.hold_back(arrival, there)
            importing.write(arrival, epoch=subject.epoch)
        if last:
            _append_erasures(arrival, withheld, subject)
            yield arrival.head
            arrival = None


def _begin_arrival(
    walk: BundlePass, each: IncomingEvent, manifest: BundleManifest
) -> Arrival:
    """Begin the arrival of a thread with its first event. Raises BadBundleError."""
    cut = each.thread
    bare = walk.is_bare(cut)
    home = isinstance(each.event, ThreadCreated) and each.event.home is True
    if not bare and home != _is_home(manifest, cut):
        raise BadBundleError(what="cut")
    # A thread whose names are blanked needs no salt.
    salt = b"" if bare else name_salt()
    return Arrival(
        head=ThreadHead.build_new(
            walk.build_first_state(each),
            name=_build_thread_name(manifest, cut, walk.ids.subject),
            salt=salt,
        ),
        origin=importing.render_origin(
            instance=manifest.instance, thread=cut.thread, head_hash=cut.head_hash
        ),
        bare=bare,
    )


def _link_to_parent(
    each: IncomingEvent, chains: Mapping[tuple[UUID, int], bytes]
) -> IncomingEvent:
    """Link a fork to the chain hash that its parent has here."""
    event = each.event
    if not isinstance(event, ThreadForked):
        return each
    link = chains[event.parent, event.parent_seq].hex()
    return replace(each, event=event.model_copy(update={"parent_chain": link}))


def _add_event(
    arrival: Arrival, each: IncomingEvent, withheld: WithheldEvents, subject: Subject
) -> None:
    """Add an event to the arrival, without content that stays erased."""
    before, content, erased_by = arrival.head.state, each.line.content, each.line.erased
    if content is not None:
        erased_by = withheld.find_erasing_seq(before, each.event, content)
    arrival.add(
        each.recorded,
        None if erased_by else content,
        state=fold_event(before, each, bare=arrival.bare),
        erased_by=erased_by,
        key=keys.get_subject_keys(subject.id, epoch=subject.epoch),
    )


def _append_erasures(
    arrival: Arrival, withheld: WithheldEvents, subject: Subject
) -> None:
    """Append the events that prove that the thread's gaps are lawful."""
    key = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    while recorded := next(withheld.iter_erasures(arrival.head.state), None):
        state = evolve(arrival.head.state, recorded)
        arrival.add(recorded, None, state=state, erased_by=None, key=key)
        importing.write(arrival, epoch=subject.epoch)
