"""Tombstones: keyed digests of erased values and names that must not come back.

The writer looks them up in its own transaction, so that nothing can be erased between
look and write. The eraser inserts them in the transaction that erases. See decision 22.
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
from memoryhub.kernel.commands import EventDraft
from memoryhub.kernel.registry import TYPES as EVENTS
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.text import strict_json
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.keys.keys import SubjectKeys

#: Length of a folded text; shorter ones are too common to identify: a yes, a seat.
SHORTEST: Final = 20
#: Types of events whose sealed texts are values: all whose texts do not recur.
TYPES: Final = tuple(
    name
    for name, event in EVENTS.items()
    if event.sealed and not (event.recurs or event.resent)
)
#: Members that give the kind or time of a content: many other contents share them.
_OF_MANY: Final = frozenset({"agent_at", "mime_type", "schema_name", "started_at"})
#: Digests that one statement looks for.
_AT_ONCE: Final = 500

Name = tuple[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDigest:
    """An erased or a new value by its digest; only the digest is ever stored."""

    of: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadName:
    """A thread's name that is never used again, and the subject that it belonged to."""

    subject: UUID
    erasure: UUID

    def build_refusal(self, bound: UUID | None = None) -> Refusal:
        """Return a write's refusal, which reveals nothing to another subject's key."""
        if bound not in (None, self.subject):
            return NotFoundError()
        return ThreadErasedError(erasure=str(self.erasure))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadUserId:
    """A `user_id` whose subject was erased, with the last subject that had it."""

    project: UUID
    subject: UUID
    generation: int
    erasure: UUID

    def build_refusal(self) -> SubjectErasedError:
        return SubjectErasedError(erasure=str(self.erasure))


def digest_value(keys: SubjectKeys, content: object) -> bytes | None:
    """Return the digest of a whole content, in its JSON form.

    A text that is alone in its object counts as that text, so it has one digest in
    every shape. None when the text is too short for a tombstone.
    """
    whole = _render_whole(_fold_texts(content))
    if len(whole) < SHORTEST:
        return None
    return blind_index.digest_value(keys, whole)


def iter_values(
    keys: SubjectKeys, event: EventBody, payload: Mapping[str, Any] | bytes | None
) -> Iterator[ValueDigest]:
    """Yield the values in an event's payload that need a tombstone once erased.

    Each part as a whole, and each text inside the part.
    """
    of = event.event_type.partition(".")[0]
    if event.together:
        for digest in _digest_together(keys, event, payload)[:1]:
            yield ValueDigest(of=of, digest=digest)
        return
    for part in _iter_parts(event, payload):
        whole = [_render_whole(part)] if _has_content(part) else []
        for digest in _digest_texts(keys, {*whole, *_iter_texts(part)}):
            yield ValueDigest(of=of, digest=digest)


def find_dead_names(names: Iterable[Name]) -> dict[Name, DeadName]:
    """Return the erased ones among these (project, name). One query, or none."""
    wanted = {
        (project, _digest_name(project, name)): (project, name)
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
        wanted[project, bytes(digest)]: DeadName(subject=subject, erasure=erasure)
        for project, digest, subject, erasure in rows.values_list(*columns)
    }


def find_subject(project: UUID, ref: bytes) -> DeadUserId | None:
    """Return the last erased subject with this ref. One query.

    The subject may have been readmitted since: look for a live subject of that ref
    first.
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


def require_not_erased(keys: SubjectKeys, drafts: Iterable[EventDraft]) -> None:
    """Raise ValueErasedError if a draft holds a value that was erased.

    The kind of record and the depth do not matter: a page's text does not come back as
    a value, nor as a member of an object. One query for 500 texts, or none.
    """
    wanted: set[bytes] = set()
    for draft in drafts:
        wanted |= _digest_all(keys, draft.event, draft.payload)
    for stone in _list_tombstones(keys.subject, wanted)[:1]:
        raise ValueErasedError(tombstone=str(stone.id), erasure=str(stone.erasure_id))


def find_erased(
    keys: SubjectKeys, contents: Sequence[tuple[EventBody, Mapping[str, Any] | None]]
) -> dict[int, UUID]:
    """Return the indexes of contents whose values were erased, each with its erasure.

    For callers that skip such contents instead of being refused. One query for 500
    texts, or none; call it only for a subject that has tombstones.
    """
    places: dict[bytes, set[int]] = {}
    for place, (event, payload) in enumerate(contents):
        for digest in _digest_all(keys, event, payload):
            places.setdefault(digest, set()).add(place)
    out: dict[int, UUID] = {}
    for stone in _list_tombstones(keys.subject, places):
        out |= dict.fromkeys(places[bytes(stone.digest)], stone.erasure_id)
    return out


def lay_subject(erasure: Erasure, subject: Subject) -> None:
    """Keep the subject's `user_id` out, until it is readmitted.

    A subject that was readmitted and erased again gets the newest generation's
    tombstone. The anonymous subject has no id to keep out.
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

    Does nothing in a project whose key is destroyed: no thread is ever named there
    again.
    """
    project = erasure.project_id
    with suppress(ProjectDeletedError):
        lay_names(erasure, {_digest_name(project, name) for name in names})


def lay_names(erasure: Erasure, digests: Iterable[bytes]) -> None:
    """Lay tombstones of names by their digests, as `lay_threads` does by the names."""
    _lay_digests(erasure, Tombstone.Kind.THREAD, dict.fromkeys(digests, ""))


def lay_values(erasure: Erasure, values: Iterable[ValueDigest]) -> int:
    """Keep these values of the erasure's subject out; return how many are new."""
    laid = _lay_digests(
        erasure, Tombstone.Kind.VALUE, {value.digest: value.of for value in values}
    )
    if laid:
        rows = Subject.objects.filter(id=erasure.subject_id)
        rows.update(tombstones=F("tombstones") + laid)
    return laid


def _lay_digests(
    erasure: Erasure, kind: Tombstone.Kind, digests: Mapping[bytes, str]
) -> int:
    rows = Tombstone.objects.filter(project_id=erasure.project_id, kind=kind)
    stored = [
        row
        for batch in _split_batches(digests)
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


def _list_tombstones(subject: UUID, digests: Iterable[bytes]) -> list[Tombstone]:
    """Return the subject's tombstones among these digests, in a fixed order."""
    rows = Tombstone.objects.filter(subject_id=subject, kind=Tombstone.Kind.VALUE)
    found = [
        row
        for batch in _split_batches(digests)
        for row in rows.filter(digest__in=batch)
    ]
    return sorted(found, key=lambda row: (row.created_at, row.id))


def _split_batches(digests: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split digests into batches that one statement can look for."""
    rest = iter(digests)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _digest_all(
    keys: SubjectKeys, event: EventBody, payload: Mapping[str, Any] | bytes | None
) -> set[bytes]:
    """Return all digests under which anything in a payload may have been erased."""
    texts: set[str] = set()
    for part in _iter_parts(event, payload):
        texts.update(map(_render_whole, filter(_has_content, _iter_nested(part))))
    return {*_digest_texts(keys, texts), *_digest_together(keys, event, payload)}


def _digest_together(
    keys: SubjectKeys, event: EventBody, payload: Mapping[str, Any] | bytes | None
) -> list[bytes]:
    """Return digests of the members that make one value together, if any.

    The first is the digest of a new tombstone. A tombstone of an older version may have
    one of the other digests, in which the predicate is folded as that version did.
    """
    if not event.together or payload is None:
        return []
    opened = (
        strict_json.parse_stored(payload) if isinstance(payload, bytes) else payload
    )
    texts = {name: _fold_texts(opened[name]) for name in event.together}
    found = []
    for spelling in blind_index.list_predicate_spellings(opened["predicate"]):
        texts["predicate"] = spelling
        whole = strict_json.dump_canonical([event.event_type, *texts.values()])
        found.append(blind_index.digest_value(keys, whole.decode()))
    return found


def _digest_texts(keys: SubjectKeys, texts: Iterable[str]) -> set[bytes]:
    """Return the digests of texts that are long enough for a tombstone."""
    long = (text for text in texts if len(text) >= SHORTEST)
    return {blind_index.digest_value(keys, text) for text in long}


def _iter_parts(
    event: EventBody, payload: Mapping[str, Any] | bytes | None
) -> Iterator[object]:
    """Yield the values that an event seals, folded; none if its values may recur."""
    if event.is_recurring or payload is None:
        return
    opened = (
        strict_json.parse_stored(payload) if isinstance(payload, bytes) else payload
    )
    # Knowledge of a run is any JSON; all other payloads are objects that we made.
    yield from map(
        _fold_texts, opened.values() if isinstance(opened, Mapping) else [opened]
    )


def _iter_texts(plain: object) -> Iterator[str]:
    """Yield the texts in a value, except names of members, types and schemas."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, Mapping):
        for name, each in plain.items():
            if name not in _OF_MANY:
                yield from _iter_texts(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from _iter_texts(each)


def _iter_nested(plain: object) -> Iterator[object]:
    """Yield a value and everything inside it, names too."""
    yield plain
    if isinstance(plain, Mapping):
        for name, each in plain.items():
            yield blind_index.fold(name)
            yield from _iter_nested(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from _iter_nested(each)


def _has_content(plain: object) -> bool:
    """Return whether a value holds a text or a number, names of members aside.

    One without is the same for many: a block's empty description, with its flag.
    """
    if isinstance(plain, Mapping):
        return any(map(_has_content, plain.values()))
    if isinstance(plain, list):
        return any(map(_has_content, plain))
    return not (plain is None or plain == "" or isinstance(plain, bool))


def _render_whole(plain: object) -> str:
    """Return a folded value as one text."""
    if isinstance(plain, Mapping) and len(plain) == 1:
        (plain,) = plain.values()
    return (
        plain if isinstance(plain, str) else strict_json.dump_canonical(plain).decode()
    )


def _fold_texts(content: object) -> object:
    """Return the value with each text in it folded by itself."""
    if isinstance(content, str):
        return blind_index.fold(content)
    if isinstance(content, Mapping):
        return {name: _fold_texts(value) for name, value in content.items()}
    return (
        [_fold_texts(each) for each in content]
        if isinstance(content, list)
        else content
    )


def _digest_name(project: UUID, name: str) -> bytes:
    return blind_index.digest_thread_name(keys.get_project_key(project), name)
