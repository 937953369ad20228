"""Tombstones: keyed digests of what was erased and must not come back.

Asked inside the writer's transaction, so that nothing slips in between the look and the
write; and laid there by the eraser, in the transaction that erases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Q

from memoryhub.errors import (
    NotFoundError,
    ProjectDeletedError,
    Refusal,
    SubjectErasedError,
    ThreadErasedError,
    ValueErasedError,
)
from memoryhub.kernel import strict_json
from memoryhub.kernel.bodies import Event
from memoryhub.kernel.commands import Draft
from memoryhub.kernel.memory_events import KeySet, NoteAdded
from memoryhub.kernel.page_events import PageCreated, PageUpdated
from memoryhub.models.clock import clock
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.subjects import Subject
from memoryhub.vault import blind_index, keys
from memoryhub.vault.keys import SubjectKeys

#: Shorter values, once folded, are nobody's secret alone: a yes, a seat, a greeting.
SHORTEST: Final = 20
#: What values are of, and where in a payload they stand. A message is said anew each
#: time, so slots are not among them.
_VALUES: Mapping[type[Event], tuple[str, str]] = {
    PageCreated: ("page", "content"),
    PageUpdated: ("page", "content"),
    KeySet: ("key", "value"),
    NoteAdded: ("note", "text"),
}
KINDS: Final = ("page", "key", "note")
#: The types of the events that hold them.
TYPES: Final = tuple(event.event_type for event in _VALUES)

Name = tuple[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An erased or a new value by its digest, which alone is ever stored."""

    of: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A thread's name that is never used again, and whose it was."""

    subject: UUID
    erasure: UUID

    def refusal(self, bound: UUID | None = None) -> Refusal:
        """What a write to it answers; to who knows another subject alone: nothing."""
        if bound not in (None, self.subject):
            return NotFoundError()
        return ThreadErasedError(erasure=str(self.erasure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A `user_id` whose subject was erased: the last one that had it."""

    project: UUID
    subject: UUID
    generation: int
    erasure: UUID

    def refusal(self) -> SubjectErasedError:
        return SubjectErasedError(erasure=str(self.erasure))


def value_digest(keys: SubjectKeys, of: str, content: object) -> bytes | None:
    """The digest of a page's content, a key's value or a note's text, as JSON has it.

    A text that stands alone in its object counts as that text, so that it is the same
    in every shape. None when it is too short to be kept out.
    """
    folded = _folded(content)
    return None if folded is None else blind_index.value_tombstone(keys, of, folded)


def value_of(
    keys: SubjectKeys, event: Event, payload: Mapping[str, Any] | bytes | None
) -> Value | None:
    """What an event's payload holds that would need a tombstone; None: nothing.

    The same for an event about to be written and for one about to be erased.
    """
    found = _content(event, payload)
    if found is None:
        return None
    digest = value_digest(keys, *found)
    return None if digest is None else Value(of=found[0], digest=digest)


def dead_names(names: Iterable[Name]) -> dict[Name, Dead]:
    """Those of these (project, name) that were erased. One query, or none."""
    wanted = {
        (project, _name_digest(project, name)): (project, name)
        for project, name in names
    }
    asked = Q()
    for project, digest in wanted:
        asked |= Q(project_id=project, digest=digest)
    if not asked:
        return {}
    rows = Tombstone.objects.filter(asked, kind=Tombstone.Kind.THREAD)
    columns = ("project_id", "digest", "subject_id", "erasure_id")
    return {
        wanted[project, bytes(digest)]: Dead(subject=subject, erasure=erasure)
        for project, digest, subject, erasure in rows.values_list(*columns)
    }


def find_subject(project: UUID, ref: bytes) -> Gone | None:
    """Who was erased last of those with this ref. One query.

    She may have been readmitted since: look for a subject of that ref first.
    """
    rows = Tombstone.objects.filter(
        project_id=project, kind=Tombstone.Kind.SUBJECT, digest=ref
    )
    columns = ("subject_id", "subject__generation", "erasure_id")
    for subject, generation, erasure in rows.values_list(*columns):
        return Gone(
            project=project, subject=subject, generation=generation, erasure=erasure
        )
    return None


def require_welcome(keys: SubjectKeys, drafts: Iterable[Draft]) -> None:
    """Raise ValueErasedError if a draft holds a value that was erased.

    Whatever it was of: a page's text does not come back as a note. One query, or none.
    """
    wanted: set[bytes] = set()
    for draft in drafts:
        if found := _content(draft.event, draft.payload):
            wanted |= _digests(keys, found[1])
    for stone in _stones(keys.subject, wanted)[:1]:
        raise ValueErasedError(tombstone=str(stone.id), erasure=str(stone.erasure_id))


def kept_out(
    keys: SubjectKeys, contents: Sequence[tuple[Event, Mapping[str, Any] | None]]
) -> dict[int, UUID]:
    """Places in the list of events whose values were erased, each with the erasure.

    For who skips them instead of being refused. One query, or none; call it only for a
    subject that has tombstones.
    """
    places: dict[bytes, set[int]] = {}
    for place, (event, payload) in enumerate(contents):
        if found := _content(event, payload):
            for digest in _digests(keys, found[1]):
                places.setdefault(digest, set()).add(place)
    out: dict[int, UUID] = {}
    for stone in _stones(keys.subject, places):
        out |= dict.fromkeys(places[bytes(stone.digest)], stone.erasure_id)
    return out


def lay_subject(erasure: Erasure, subject: Subject) -> None:
    """Keep the subject's `user_id` out, until she is readmitted.

    One that was readmitted and erased again has the newest generation's. The anonymous
    subject has no id to keep out.
    """
    if subject.subject_ref is None:
        return
    Tombstone.objects.update_or_create(
        project_id=subject.project_id,
        kind=Tombstone.Kind.SUBJECT,
        digest=bytes(subject.subject_ref),
        defaults={
            "subject": subject,
            "erasure": erasure,
            "created_at": clock.now(),
        },
    )


def lay_threads(erasure: Erasure, names: Iterable[str]) -> None:
    """Keep these names out for ever; call it in the transaction that blanks them.

    Not in a project whose key is destroyed: nothing is ever named there again.
    """
    project = erasure.project_id
    with suppress(ProjectDeletedError):
        lay_names(erasure, {_name_digest(project, name) for name in names})


def lay_names(erasure: Erasure, digests: Iterable[bytes]) -> None:
    """As `lay_threads`, by digests: for who was never told the names."""
    _lay(erasure, Tombstone.Kind.THREAD, dict.fromkeys(digests, ""))


def lay_values(erasure: Erasure, values: Iterable[Value]) -> int:
    """Keep these values of the erasure's subject out; how many are new."""
    laid = _lay(
        erasure, Tombstone.Kind.VALUE, {value.digest: value.of for value in values}
    )
    if laid:
        rows = Subject.objects.filter(id=erasure.subject_id)
        rows.update(tombstones=F("tombstones") + laid)
    return laid


def _lay(erasure: Erasure, kind: Tombstone.Kind, digests: Mapping[bytes, str]) -> int:
    rows = Tombstone.objects.filter(project_id=erasure.project_id, kind=kind)
    known = rows.filter(digest__in=[*digests]).values_list("digest", flat=True)
    fresh = digests.keys() - {bytes(digest) for digest in known}
    Tombstone.objects.bulk_create(
        Tombstone(
            project_id=erasure.project_id,
            subject_id=erasure.subject_id,
            kind=kind,
            digest=digest,
            of=digests[digest],
            erasure=erasure,
            created_at=clock.now(),
        )
        for digest in sorted(fresh)
    )
    return len(fresh)


def _stones(subject: UUID, digests: Collection[bytes]) -> list[Tombstone]:
    """Tombstones of the subject's values among these, in a fixed order."""
    if not digests:
        return []
    rows = Tombstone.objects.filter(subject_id=subject, kind=Tombstone.Kind.VALUE)
    return list(rows.filter(digest__in=[*digests]).order_by("created_at", "id"))


def _digests(keys: SubjectKeys, content: object) -> set[bytes]:
    """All digests that a content may have been erased under."""
    folded = _folded(content)
    if folded is None:
        return set()
    return {blind_index.value_tombstone(keys, kind, folded) for kind in KINDS}


def _content(
    event: Event, payload: Mapping[str, Any] | bytes | None
) -> tuple[str, Any] | None:
    """What kind of value an event has, and the value; None if it has none."""
    place = _VALUES.get(type(event))
    if place is None or payload is None:
        return None
    kind, field = place
    opened = strict_json.kept(payload) if isinstance(payload, bytes) else payload
    # A page may change its hint alone.
    return (kind, opened[field]) if field in opened else None


def _folded(content: object) -> str | None:
    """The text that is digested; None when it is too short to be kept out."""
    if isinstance(content, Mapping) and len(content) == 1:
        (content,) = content.values()
    plain = _plain(content)
    text = plain if isinstance(plain, str) else strict_json.canonical(plain).decode()
    return text if len(text) >= SHORTEST else None


def _plain(content: object) -> object:
    """The same value, each text in it folded by itself."""
    if isinstance(content, str):
        return blind_index.fold(content)
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items()}
    return [_plain(each) for each in content] if isinstance(content, list) else content


def _name_digest(project: UUID, name: str) -> bytes:
    return blind_index.thread_name(keys.project_key(project), name)
