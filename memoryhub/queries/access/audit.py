"""Reads of the audit log: lists, streams and walks along its chain. Never writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from memoryhub.journal import audit
from memoryhub.kernel.text.names import HOME
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.events import Event
from memoryhub.models.projects import Instance
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.lists.terms import (
    NumberSpan,
    Period,
    SearchTerm,
    Value,
    WordValue,
    filter_time,
    filter_word,
)

CHUNK = 1_000
#: The action of looks at content; every other action is a deed.
LOOK = "content.read"
#: The action of operators' changes, and most records that a line of one names.
EDIT, EDITED = "operator.edited", 3
#: The first entry of a view counts the entries written with it; see decision 94.
_IS_FIRST = Q(request_id=None) | Q(count__gt=0) & ~Q(outcome="closed")
#: The fields of a record, in order.
FIELDS = (
    "seq", "at", "project", "actor_kind", "actor_ref", "action", "purpose",
    "target_kind", "target_id", "subject", "outcome", "count", "route", "first_seq",
    "last_seq", "request_id", "hash",
)  # fmt: skip
#: Most operators, keys or threads that a search by name matches.
NAMED = 500


class EditedRecord(NamedTuple):
    """A record that an operator edited: the event's type and the name of what changed.

    The name is empty for a record whose name is sealed with its content, as a fact's.
    """

    seq: int
    type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """An audit entry with the current name of its target."""

    seq: int
    at: datetime
    project: UUID | None
    actor_kind: str
    actor_ref: str
    action: str
    purpose: str | None
    target_kind: str | None
    target_id: str | None
    #: The name of the target thread; empty for other targets and erased threads.
    target_name: str
    #: Hex of the subject's pseudonym.
    subject: str | None
    outcome: str
    count: int
    route: str | None
    first_seq: int | None
    last_seq: int | None
    request_id: str | None
    #: Hash of the chain at this entry, in hex.
    hash: str
    #: The first records of an edit, in lists that ask for them.
    edited: tuple[EditedRecord, ...] = ()

    @property
    def home_subject(self) -> str:
        """Return the id of the person whose home thread is the target; else empty."""
        is_home = self.target_name.startswith(HOME)
        return self.target_name.removeprefix(HOME) if is_home else ""

    @property
    def actor(self) -> str:
        return f"{self.actor_kind}:{self.actor_ref}".removesuffix(":")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView:
    """A view: the looks at content of one open page, folded."""

    #: The first entry of the view.
    first: AuditLine
    threads: int
    people: int
    #: When the open page was closed last; None while open, and for a plain page.
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCheck:
    """Result of walking the audit chain."""

    #: The newest entry up to which every entry is intact.
    verified_to: int
    #: The first entry that is changed, missing or superfluous; None without any.
    wrong: int | None = None
    #: The entry after which the walk began; 0 walks from the first entry.
    verified_from: int = 0


def list_entries(
    project: UUID | None,
    *,
    terms: Sequence[SearchTerm] = (),
    now: datetime,
    after: str | None = None,
    limit: int = 50,
    deeds: bool = False,
) -> ListBatch[AuditLine]:
    """List the project's entries that match, newest first; None: of all projects.

    `deeds` leaves out looks at content.

    Two queries, and two more for a target that is asked for. Raises BadCursorError
    when the cursor `after` belongs to another list.
    """
    place, filters = project or UUID(int=0), [term.to_json() for term in terms]
    listing = ListScope(name="audit", project=place, filters=filters)
    rows = _select_matching(project, terms, now)
    if deeds:
        rows = rows.exclude(action=LOOK)
    if after is not None:
        rows = rows.filter(seq__lt=listing.open(after)[0])
    found = list(rows.order_by("-seq")[: limit + 1])
    items = _build_lines(found[:limit])
    following = listing.seal([items[-1].seq]) if len(found) > limit else None
    return ListBatch(items=items, next=following)


def list_views(
    project: UUID,
    *,
    terms: Sequence[SearchTerm] = (),
    now: datetime,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[AuditView]:
    """List the views that have a matching entry, newest first, each as one row.

    A row stands at the view's first entry, so that no page of the list cuts a view.
    An entry from before views is a row of its own. Three queries, one more for a
    search, and two more for a target. Raises BadCursorError.
    """
    filters = [term.to_json() for term in terms]
    listing = ListScope(name="audit.views", project=project, filters=filters)
    rows = AuditEntry.objects.filter(_IS_FIRST, project=project, action=LOOK)
    if terms:
        matching = _select_matching(project, terms, now).filter(action=LOOK)
        rows = rows.filter(_build_view_filter(matching))
    if after is not None:
        rows = rows.filter(seq__lt=listing.open(after)[0])
    found = list(rows.order_by("-seq")[: limit + 1])
    items = tuple(_build_views(project, found[:limit]))
    following = listing.seal([items[-1].first.seq]) if len(found) > limit else None
    return ListBatch(items=items, next=following)


def iter_entries(
    project: UUID | None, *, terms: Sequence[SearchTerm] = (), now: datetime
) -> Iterator[tuple[AuditLine, ...]]:
    """Yield all entries that match, oldest first, in chunks of two queries each."""
    rows, after = _select_matching(project, terms, now), 0
    while found := list(rows.filter(seq__gt=after).order_by("seq")[:CHUNK]):
        yield _build_lines(found)
        after = found[-1].seq


def get_entry(project: UUID, seq: int) -> AuditLine | None:
    """Return one entry of a project. Two queries."""
    found = _build_lines(list(AuditEntry.objects.filter(project=project, seq=seq)))
    return found[0] if found else None


def add_edited(lines: Sequence[AuditLine]) -> tuple[AuditLine, ...]:
    """Add to edits their first three records, as the events name them. One query."""
    spans = {
        line.seq: (UUID(line.target_id), line.first_seq)
        for line in lines
        if line.action == EDIT
        and line.target_id
        and line.first_seq
        and line.target_name
    }
    wanted = Q()
    for thread, first in spans.values():
        wanted |= Q(thread_id=thread, seq__range=(first, first + EDITED - 1))
    if not spans:
        return (*lines,)
    rows = Event.objects.filter(wanted).order_by("seq")
    found = defaultdict[UUID, list[EditedRecord]](list)
    for thread, seq, word, body in rows.values_list("thread_id", "seq", "type", "body"):
        found[thread].append(EditedRecord(seq, word, _find_record_name(body)))
    return tuple(
        replace(
            line,
            edited=tuple(
                each
                for each in found[spans[line.seq][0]]
                if (line.first_seq or 0) <= each.seq <= (line.last_seq or 0)
            )[:EDITED],
        )
        if line.seq in spans
        else line
        for line in lines
    )


def _find_record_name(body: str) -> str:
    """Find the name of what an event changed: a block, a key or a page; else empty."""
    fields = orjson.loads(body)
    name = fields.get("key") or fields.get("name") or fields.get("page_id") or ""
    return name if isinstance(name, str) else ""


def build_record(line: AuditLine) -> dict[str, Any]:
    """Return an entry as JSON values: ids, words, numbers and the hash of the chain.

    No query.
    """
    fields = {name: getattr(line, name) for name in FIELDS}
    return fields | {
        "at": line.at.isoformat(timespec="microseconds"),
        "project": str(line.project) if line.project else None,
    }


def get_head() -> tuple[int, bytes]:
    """Return seq and hash of the newest entry; 0 and the genesis before the first."""
    instance = Instance.objects.first() or Instance()
    return instance.audit_seq, bytes(instance.audit_hash) or audit.GENESIS


def verify(*, after: int = 0, digest: bytes = audit.GENESIS) -> ChainCheck:
    """Walk the chain from a trusted entry up to the head.

    `digest` is the hash of the entry `after`. Reports the first entry that was changed,
    is missing or is superfluous. One query for every thousand entries.
    """
    last, newest = get_head()
    seq = after
    while rows := _list_entries_after(seq, last):
        for row in rows:
            if row.seq != seq + 1 or bytes(row.prev) != digest:
                return ChainCheck(verified_to=seq, wrong=seq + 1)
            if bytes(row.hash) != audit.link(row):
                return ChainCheck(verified_to=seq, wrong=row.seq)
            seq, digest = row.seq, bytes(row.hash)
    if seq < last or digest != newest:
        return ChainCheck(verified_to=min(seq, last - 1), wrong=min(seq + 1, last))
    return ChainCheck(verified_to=seq, wrong=_find_superfluous())


def verify_newest(reach: int = CHUNK) -> ChainCheck:
    """Verify at most the newest `reach` entries, as `verify` does."""
    after = max(0, get_head()[0] - reach)
    if not after:
        return verify()
    before = AuditEntry.objects.filter(seq=after).values_list("hash", flat=True)
    found = verify(after=after, digest=bytes(before.first() or b""))
    return replace(found, verified_from=after)


def _find_superfluous() -> int | None:
    """Find the first entry after the head, where no append can have put one."""
    newest = Instance.objects.values("audit_seq")[:1]
    rows = AuditEntry.objects.filter(seq__gt=Coalesce(Subquery(newest), 0))
    first: int | None = rows.aggregate(first=Min("seq"))["first"]
    return first


def _list_entries_after(after: int, last: int) -> list[AuditEntry]:
    rows = AuditEntry.objects.filter(seq__gt=after, seq__lte=last)
    return list(rows.order_by("seq")[:CHUNK])


def _select_matching(
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


def _build_view_filter(matching: QuerySet[AuditEntry]) -> Q | Exists:
    """Match the first entries of the views of matching entries. One query.

    The views of few entries, such as a person's, are found by their ids. Those of many
    entries are tested one by one, and soon fill a page.
    """
    few = list(matching.order_by("-seq").values_list("request_id", "seq")[: CHUNK + 1])
    if len(few) <= CHUNK:
        alone = [seq for view, seq in few if not view]
        return Q(request_id__in={view for view, _ in few if view}) | Q(seq__in=alone)
    same = Q(seq=OuterRef("seq")) | Q(request_id=OuterRef("request_id"))
    return Exists(matching.filter(same))


def _build_views(project: UUID, rows: Sequence[AuditEntry]) -> list[AuditView]:
    """Build the project's views of their first entries. Two queries."""
    marks = [row.request_id for row in rows if row.request_id]
    counted = (
        AuditEntry.objects.filter(project=project, request_id__in=marks)
        .values("request_id")
        .annotate(
            threads=Count("target_id", distinct=True),
            people=Count("subject", distinct=True),
            closed_at=Max("at", filter=Q(outcome="closed")),
        )
    )
    alone = {"threads": 1, "people": 1, "closed_at": None}
    found = {each.pop("request_id"): each for each in map(dict, counted)}
    return [
        AuditView(first=line, **found.get(line.request_id, alone))
        for line in _build_lines(rows)
    ]


def _build_word_filter(column: str) -> Callable[..., Q]:
    def match(project: UUID | None, value: Value, now: datetime) -> Q:
        assert isinstance(value, WordValue)
        return filter_word(column, value)

    return match


def _filter_by_actor(project: UUID | None, value: Value, now: datetime) -> Q:
    """Match the actor: `operator:<id>`, a kind, a ref, an operator's or key's name."""
    assert isinstance(value, WordValue)
    kind, colon, ref = value.text.partition(":")
    if colon:
        return Q(actor_kind=kind) & filter_word("actor_ref", replace(value, text=ref))
    people = Operator.objects.filter(filter_word("username", value))
    ids = [str(each) for each in people.values_list("id", flat=True)[:NAMED]]
    keys = ApiKey.objects.filter(filter_word("name", value)).exclude(name="")
    if project is not None:
        keys = keys.filter(project=project)
    ids += keys.values_list("prefix", flat=True)[:NAMED]
    found = Q(actor_ref__in=ids) | filter_word("actor_ref", value)
    return found | filter_word("actor_kind", value)


def _filter_by_target(project: UUID | None, value: Value, now: datetime) -> Q:
    """Match the target by its id or its thread's name, or the subject by its id."""
    assert isinstance(value, WordValue)
    threads = Thread.objects.filter(filter_word("name", value))
    if project is not None:
        threads = threads.filter(project=project)
    ids = [str(each) for each in threads.values_list("id", flat=True)[:NAMED]]
    found = Q(target_id__in=ids) | filter_word("target_id", value)
    subject = _parse_uuid(value.text)
    pseudonym = audit.find_pseudonym(subject) if subject else None
    return found | Q(subject=pseudonym) if pseudonym else found


def _filter_by_time(project: UUID | None, value: Value, now: datetime) -> Q:
    assert isinstance(value, NumberSpan | Period)
    return filter_time("at", value, now)


#: Filters by the key of a term; a client's words never become a column.
_COLUMNS: Mapping[str, Callable[[UUID | None, Value, datetime], Q]] = {
    "action": _build_word_filter("action"),
    "actor": _filter_by_actor,
    "target": _filter_by_target,
    "purpose": _build_word_filter("purpose"),
    "outcome": _build_word_filter("outcome"),
    "view": _build_word_filter("request_id"),
    "at": _filter_by_time,
}


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _build_lines(rows: Sequence[AuditEntry]) -> tuple[AuditLine, ...]:
    """Build lines of rows, with the names of their target threads. One query."""
    threads = _parse_ids(row.target_id for row in rows if row.target_kind == "thread")
    found = Thread.objects.filter(id__in=threads).exclude(status=Thread.Status.ERASED)
    names = dict(found.values_list("id", "name"))
    return tuple(_build_line(row, names) for row in rows)


def _parse_ids(texts: Iterable[str | None]) -> set[UUID]:
    found = (_parse_uuid(text) for text in texts if text)
    return {each for each in found if each}


def _build_line(row: AuditEntry, names: Mapping[UUID, str]) -> AuditLine:
    fields = audit.to_json_values(row) | {"at": row.at, "project": row.project}
    return AuditLine(
        **fields,
        target_name=_find_name(row.target_id, names),
        hash=bytes(row.hash).hex(),
    )


def _find_name(ref: str | None, names: Mapping[UUID, str]) -> str:
    found = _parse_uuid(ref) if ref else None
    return names.get(found, "") if found else ""
