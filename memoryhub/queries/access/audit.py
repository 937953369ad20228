"""The audit log as it is read: listed, streamed, its chain walked. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Min, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from memoryhub.journal import audit
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import Instance
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.lists.terms import (
    Period,
    SearchTerm,
    Span,
    Value,
    Word,
    time_of,
    word_in,
)

CHUNK = 1_000
#: The fields of a record, in order.
FIELDS = (
    "seq", "at", "project", "actor_kind", "actor_ref", "action", "purpose",
    "target_kind", "target_id", "subject", "outcome", "count", "route", "first_seq",
    "last_seq", "request_id", "hash",
)  # fmt: skip
#: Operators, keys or threads that the beginning of a name stands for.
NAMED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An entry, and what its ids stand for now."""

    seq: int
    at: datetime
    project: UUID | None
    actor_kind: str
    actor_ref: str
    action: str
    purpose: str | None
    target_kind: str | None
    target_id: str | None
    #: The name of a thread that has it still, else nothing.
    target_name: str
    #: Hex of the subject's pseudonym.
    subject: str | None
    outcome: str
    count: int
    route: str | None
    first_seq: int | None
    last_seq: int | None
    request_id: str | None
    #: Hex of the chain at this entry.
    hash: str

    @property
    def actor(self) -> str:
        return f"{self.actor_kind}:{self.actor_ref}".removesuffix(":")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCheck:
    """How far the chain is whole."""

    #: The newest entry up to which every one is as it was written.
    verified_to: int
    #: The first that is not, or that is missing; None when all are there.
    wrong: int | None = None
    #: The entry that the walk began behind; 0 is the very first.
    verified_from: int = 0


def list_entries(
    project: UUID | None,
    *,
    terms: Sequence[SearchTerm] = (),
    now: datetime,
    after: str | None = None,
    limit: int = 50,
) -> Batch[Line]:
    """List entries of a project that match, newest first; None is all projects'.

    Two queries, and two more for a target that is asked for. Raises BadCursorError
    when `after` is not of this very list.
    """
    place, filters = project or UUID(int=0), [term.plain() for term in terms]
    listing = Listing(name="audit", project=place, filters=filters)
    rows = _matching(project, terms, now)
    if after is not None:
        rows = rows.filter(seq__lt=listing.open(after)[0])
    found = list(rows.order_by("-seq")[: limit + 1])
    items = _lines(found[:limit])
    following = listing.seal([items[-1].seq]) if len(found) > limit else None
    return Batch(items=items, next=following)


def iter_entries(
    project: UUID | None, *, terms: Sequence[SearchTerm] = (), now: datetime
) -> Iterator[tuple[Line, ...]]:
    """Yield all that match, oldest first, in chunks of two queries each."""
    rows, after = _matching(project, terms, now), 0
    while found := list(rows.filter(seq__gt=after).order_by("seq")[:CHUNK]):
        yield _lines(found)
        after = found[-1].seq


def get_entry(project: UUID, seq: int) -> Line | None:
    """Return one entry of a project. Two queries."""
    found = _lines(list(AuditEntry.objects.filter(project=project, seq=seq)))
    return found[0] if found else None


def record(line: Line) -> dict[str, Any]:
    """Return an entry as JSON values: ids, words, numbers, and the chain at it.

    No query.
    """
    fields = {name: getattr(line, name) for name in FIELDS}
    return fields | {
        "at": line.at.isoformat(timespec="microseconds"),
        "project": str(line.project) if line.project else None,
    }


def head() -> tuple[int, bytes]:
    """Return seq and hash of the newest entry; 0 and the genesis before the first."""
    instance = Instance.objects.first() or Instance()
    return instance.audit_seq, bytes(instance.audit_hash) or audit.GENESIS


def verify(*, after: int = 0, digest: bytes = audit.GENESIS) -> ChainCheck:
    """Walk the chain behind an entry that is known to be right, up to the head.

    Names the first entry that was changed, is missing or is too many. One query for
    every thousand entries.
    """
    last, newest = head()
    seq = after
    while rows := _walked(seq, last):
        for row in rows:
            if row.seq != seq + 1 or bytes(row.prev) != digest:
                return ChainCheck(verified_to=seq, wrong=seq + 1)
            if bytes(row.hash) != audit.link(row):
                return ChainCheck(verified_to=seq, wrong=row.seq)
            seq, digest = row.seq, bytes(row.hash)
    if seq < last or digest != newest:
        return ChainCheck(verified_to=min(seq, last - 1), wrong=min(seq + 1, last))
    return ChainCheck(verified_to=seq, wrong=_superfluous())


def verify_newest(reach: int = CHUNK) -> ChainCheck:
    """Verify as `verify` does, but at most so many entries: quick for any log."""
    after = max(0, head()[0] - reach)
    if not after:
        return verify()
    before = AuditEntry.objects.filter(seq=after).values_list("hash", flat=True)
    found = verify(after=after, digest=bytes(before.first() or b""))
    return replace(found, verified_from=after)


def _superfluous() -> int | None:
    """The first entry behind the head, where nobody appended one."""
    newest = Instance.objects.values("audit_seq")[:1]
    rows = AuditEntry.objects.filter(seq__gt=Coalesce(Subquery(newest), 0))
    first: int | None = rows.aggregate(first=Min("seq"))["first"]
    return first


def _walked(after: int, last: int) -> list[AuditEntry]:
    rows = AuditEntry.objects.filter(seq__gt=after, seq__lte=last)
    return list(rows.order_by("seq")[:CHUNK])


def _matching(
    project: UUID | None, terms: Sequence[SearchTerm], now: datetime
) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.all()
    if project is not None:
        rows = rows.filter(project=project)
    for term in terms:
        matches = Q()
        for value in term.values:
            matches |= _COLUMNS[term.key](project, value, now)
        rows = rows.exclude(matches) if term.negated else rows.filter(matches)
    return rows


def _word(column: str) -> Callable[..., Q]:
    def match(project: UUID | None, value: Value, now: datetime) -> Q:
        assert isinstance(value, Word)
        return word_in(column, value)

    return match


def _by(project: UUID | None, value: Value, now: datetime) -> Q:
    """Who did it: `operator:<id>`, a kind, a ref, or an operator's or a key's name."""
    assert isinstance(value, Word)
    kind, colon, ref = value.text.partition(":")
    if colon:
        return Q(actor_kind=kind) & word_in("actor_ref", replace(value, text=ref))
    people = Operator.objects.filter(word_in("username", value))
    ids = [str(each) for each in people.values_list("id", flat=True)[:NAMED]]
    keys = ApiKey.objects.filter(word_in("name", value)).exclude(name="")
    if project is not None:
        keys = keys.filter(project=project)
    ids += keys.values_list("prefix", flat=True)[:NAMED]
    found = Q(actor_ref__in=ids) | word_in("actor_ref", value)
    return found | word_in("actor_kind", value)


def _of(project: UUID | None, value: Value, now: datetime) -> Q:
    """What it was done to: an id, a thread's name; or the subject it is about."""
    assert isinstance(value, Word)
    threads = Thread.objects.filter(word_in("name", value))
    if project is not None:
        threads = threads.filter(project=project)
    ids = [str(each) for each in threads.values_list("id", flat=True)[:NAMED]]
    found = Q(target_id__in=ids) | word_in("target_id", value)
    subject = _uuid(value.text)
    pseudonym = audit.pseudonym(subject) if subject else None
    return found | Q(subject=pseudonym) if pseudonym else found


def _at(project: UUID | None, value: Value, now: datetime) -> Q:
    assert isinstance(value, Span | Period)
    return time_of("at", value, now)


#: By the key of a term; words of a client's never become a column.
_COLUMNS: Mapping[str, Callable[[UUID | None, Value, datetime], Q]] = {
    "action": _word("action"),
    "actor": _by,
    "target": _of,
    "purpose": _word("purpose"),
    "outcome": _word("outcome"),
    "at": _at,
}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _lines(rows: Sequence[AuditEntry]) -> tuple[Line, ...]:
    """The rows with what their ids stand for. One query."""
    threads = _ids(row.target_id for row in rows if row.target_kind == "thread")
    found = Thread.objects.filter(id__in=threads).exclude(status=Thread.Status.ERASED)
    names = dict(found.values_list("id", "name"))
    return tuple(_line(row, names) for row in rows)


def _ids(texts: Iterable[str | None]) -> set[UUID]:
    found = (_uuid(text) for text in texts if text)
    return {each for each in found if each}


def _line(row: AuditEntry, names: Mapping[UUID, str]) -> Line:
    fields = audit.plain(row) | {"at": row.at, "project": row.project}
    return Line(
        **fields,
        target_name=_named(row.target_id, names),
        hash=bytes(row.hash).hex(),
    )


def _named(ref: str | None, names: Mapping[UUID, str]) -> str:
    found = _uuid(ref) if ref else None
    return names.get(found, "") if found else ""
