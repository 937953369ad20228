"""Tombstones: keyed digests of what was erased and must not come back.

Asked inside the writer's transaction, so that nothing slips in between the look and the
write; and laid there by the eraser, in the transaction that erases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
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
from memoryhub.kernel.commands import Draft
from memoryhub.kernel.registry import TYPES as EVENTS
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.text import strict_json
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.keys.keys import SubjectKeys

#: Shorter values, once folded, are nobody's secret alone: a yes, a seat, a greeting.
SHORTEST: Final = 20
#: The types of events whose sealed texts are values: all that do not come again.
TYPES: Final = tuple(
    name
    for name, event in EVENTS.items()
    if event.sealed and not (event.recurs or event.resent)
)
#: Members that say of what kind or time a content is: many others are of the same.
_OF_MANY: Final = frozenset({"agent_at", "mime_type", "schema_name", "started_at"})
#: Digests that one statement looks for.
_AT_ONCE: Final = 500

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
        """Return what refuses a write; it tells a key of another subject nothing."""
        if bound not in (None, self.subject):
            return NotFoundError()
        return ThreadErasedError(erasure=str(self.erasure))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadUserId:
    """A `user_id` whose subject was erased: the last one that had it."""

    project: UUID
    subject: UUID
    generation: int
    erasure: UUID

    def refusal(self) -> SubjectErasedError:
        return SubjectErasedError(erasure=str(self.erasure))


def value_digest(keys: SubjectKeys, content: object) -> bytes | None:
    """Digest a content as a whole, as JSON has it.

    A text that stands alone in its object counts as that text, so that it is the same
    in every shape. None when it is too short to be kept out.
    """
    whole = _whole(_plain(content))
    if len(whole) < SHORTEST:
        return None
    return blind_index.value_tombstone(keys, whole)


def values_of(
    keys: SubjectKeys, event: Event, payload: Mapping[str, Any] | bytes | None
) -> Iterator[Value]:
    """Yield the values in an event's payload that need a tombstone once erased.

    Each part as a whole, and each text that stands in it.
    """
    of = event.event_type.partition(".")[0]
    if event.together:
        for digest in _together(keys, event, payload):
            yield Value(of=of, digest=digest)
        return
    for part in _parts(event, payload):
        for digest in _digests(keys, {_whole(part), *_texts(part)}):
            yield Value(of=of, digest=digest)


def dead_names(names: Iterable[Name]) -> dict[Name, Dead]:
    """Return those of these (project, name) that were erased. One query, or none."""
    wanted = {
        (project, _name_digest(project, name)): (project, name)
        for project, name in names
    }
    condition = Q()
    for project, digest in wanted:
        condition |= Q(project_id=project, digest=digest)
    if not condition:
        return {}
    rows = Tombstone.objects.filter(condition, kind=Tombstone.Kind.THREAD)
    columns = ("project_id", "digest", "subject_id", "erasure_id")
    return {
        wanted[project, bytes(digest)]: Dead(subject=subject, erasure=erasure)
        for project, digest, subject, erasure in rows.values_list(*columns)
    }


def find_subject(project: UUID, ref: bytes) -> DeadUserId | None:
    """Return the subject with this ref that was erased last. One query.

    It may have been readmitted since: look for a subject of that ref first.
    """
    rows = Tombstone.objects.filter(
        project_id=project, kind=Tombstone.Kind.SUBJECT, digest=ref
    )
    columns = ("subject_id", "subject__generation", "erasure_id")
    for subject, generation, erasure in rows.values_list(*columns):
        return DeadUserId(
            project=project, subject=subject, generation=generation, erasure=erasure
        )
    return None


def require_welcome(keys: SubjectKeys, drafts: Iterable[Draft]) -> None:
    """Raise ValueErasedError if a draft holds a value that was erased.

    Whatever it was of, and however deep it stands: a page's text does not come back as
    a value, nor as a member of an object. One query for 500 texts, or none.
    """
    wanted: set[bytes] = set()
    for draft in drafts:
        wanted |= _met(keys, draft.event, draft.payload)
    for stone in _stones(keys.subject, wanted)[:1]:
        raise ValueErasedError(tombstone=str(stone.id), erasure=str(stone.erasure_id))


def kept_out(
    keys: SubjectKeys, contents: Sequence[tuple[Event, Mapping[str, Any] | None]]
) -> dict[int, UUID]:
    """Return the events' places whose values were erased, each with its erasure.

    For who skips them instead of being refused. One query for 500 texts, or none; call
    it only for a subject that has tombstones.
    """
    places: dict[bytes, set[int]] = {}
    for place, (event, payload) in enumerate(contents):
        for digest in _met(keys, event, payload):
            places.setdefault(digest, set()).add(place)
    out: dict[int, UUID] = {}
    for stone in _stones(keys.subject, places):
        out |= dict.fromkeys(places[bytes(stone.digest)], stone.erasure_id)
    return out


def lay_subject(erasure: Erasure, subject: Subject) -> None:
    """Keep the subject's `user_id` out, until it is readmitted.

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
    """Lay tombstones as `lay_threads` does, by digests, without the names."""
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
    stored = [
        row
        for batch in _batched(digests)
        for row in rows.filter(digest__in=batch).values_list("digest", flat=True)
    ]
    fresh = digests.keys() - set(map(bytes, stored))
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


def _stones(subject: UUID, digests: Iterable[bytes]) -> list[Tombstone]:
    """Tombstones of the subject's values among these, in a fixed order."""
    rows = Tombstone.objects.filter(subject_id=subject, kind=Tombstone.Kind.VALUE)
    found = [
        row for batch in _batched(digests) for row in rows.filter(digest__in=batch)
    ]
    return sorted(found, key=lambda row: (row.created_at, row.id))


def _batched(digests: Iterable[bytes]) -> Iterator[list[bytes]]:
    """In parts that one statement can look for."""
    rest = iter(digests)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _met(
    keys: SubjectKeys, event: Event, payload: Mapping[str, Any] | bytes | None
) -> set[bytes]:
    """All digests that something in a payload may have been erased under."""
    texts: set[str] = set()
    for part in _parts(event, payload):
        texts.update(map(_whole, _inside(part)))
    return _digests(keys, texts) | _together(keys, event, payload)


def _together(
    keys: SubjectKeys, event: Event, payload: Mapping[str, Any] | bytes | None
) -> set[bytes]:
    """The digest of the members that make one value, if the event has such."""
    if not event.together or payload is None:
        return set()
    opened = strict_json.kept(payload) if isinstance(payload, bytes) else payload
    whole = [event.event_type, *(_plain(opened[name]) for name in event.together)]
    return {blind_index.value_tombstone(keys, strict_json.canonical(whole).decode())}


def _digests(keys: SubjectKeys, texts: Iterable[str]) -> set[bytes]:
    """Of those that are not too short to be kept out."""
    long = (text for text in texts if len(text) >= SHORTEST)
    return {blind_index.value_tombstone(keys, text) for text in long}


def _parts(event: Event, payload: Mapping[str, Any] | bytes | None) -> Iterator[object]:
    """The values that an event seals, folded; none of one that may come again."""
    if event.recurring or payload is None:
        return
    opened = strict_json.kept(payload) if isinstance(payload, bytes) else payload
    # What is known of a run is any JSON; all others are objects of ours.
    yield from map(_plain, opened.values() if isinstance(opened, Mapping) else [opened])


def _texts(plain: object) -> Iterator[str]:
    """The texts in a value, but for names: those of members, types and schemas."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, Mapping):
        for name, each in plain.items():
            if name not in _OF_MANY:
                yield from _texts(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from _texts(each)


def _inside(plain: object) -> Iterator[object]:
    """A value and all that stands in it, names too."""
    yield plain
    if isinstance(plain, Mapping):
        for name, each in plain.items():
            yield blind_index.fold(name)
            yield from _inside(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from _inside(each)


def _whole(plain: object) -> str:
    """The one text of a folded value."""
    if isinstance(plain, Mapping) and len(plain) == 1:
        (plain,) = plain.values()
    return plain if isinstance(plain, str) else strict_json.canonical(plain).decode()


def _plain(content: object) -> object:
    """The same value, each text in it folded by itself."""
    if isinstance(content, str):
        return blind_index.fold(content)
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items()}
    return [_plain(each) for each in content] if isinstance(content, list) else content


def _name_digest(project: UUID, name: str) -> bytes:
    return blind_index.thread_name(keys.project_key(project), name)
