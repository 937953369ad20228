"""Purging: what is left of erased threads goes, a batch at a time.

Each batch is of one place; `take_some` takes what one short transaction should, and
another goes on with what is left. All of it can be repeated. Called in the writer's
thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Field, Model

from memoryhub.errors import NewerFormatError, ProjectDeletedError
from memoryhub.journal.log import chain
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.totals import Changes, Figures
from memoryhub.journal.writing import sealing
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.privacy import Fate, tables
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.vault.keys import blind_index, keys

#: By place, how many of it went.
Counts = dict[str, int]
#: Rows of one batch, at most.
BATCH = 1_000
#: Threads whose forks one statement looks for.
_AT_ONCE = 200
#: Tables that totals are kept of, and what a row is called by within its thread.
_COUNTED: Mapping[type[Model], str] = MappingProxyType(
    {Page: "page_id", PageLevel: "page_id", Key: "key", Slot: "index"}
)


def take_some(batches: Callable[[], Iterator[Counts]]) -> bool:
    """Take batches in one transaction; whether more may be left."""
    taken = 0
    with transaction.atomic():
        for batch in batches():
            taken += sum(batch.values())
            if taken >= BATCH:
                return True
    return False


def thread_batches(thread_id: UUID, *, by: int, limit: int = BATCH) -> Iterator[Counts]:
    """Take what is left of an erased thread; `by` is the seq of its thread.erased.

    Payloads first, then rows, then names: its own last of all, so that a name that
    begins with `~` says there is nothing left. While a live fork folds through the
    thread its slots and pages stay, marked as erased, and its turns and names as they
    are: see `folding_through`. Then come erased ancestors, of which this thread may
    have been the last that folded through. Places are models' labels, `Event.payload`
    and `Event.names`.
    """
    thread = Thread.objects.get(id=thread_id)
    assert thread.status == Thread.Status.ERASED
    forked = bool(folding_through([thread_id]))
    yield from _while(partial(_payloads, thread, by, limit))
    yield from _rows(thread, by, limit, forked=forked)
    if not forked:
        yield from _while(partial(_names, thread, by, limit))
    # Somebody may have written beside the fence. Looked for once: it reads them all.
    yield from _while(partial(_payloads, thread, by, limit, after=0))
    for ancestor in _erased_ancestors(thread):
        yield from thread_batches(ancestor.id, by=ancestor.head_seq, limit=limit)


def _while(take: Callable[[], Counts]) -> Iterator[Counts]:
    while done := take():
        yield done


def subject_batches(subject_id: UUID, *, limit: int = BATCH) -> Iterator[Counts]:
    """Take the rows that name the subject themselves, of no one thread."""
    for model, privacy in tables().items():
        subject = privacy.subject or ""
        if privacy.forget == Fate.DELETED and subject and "__" not in subject:
            column = _column(model, subject)
            while n := statements.delete_batch(model, column, subject_id, limit=limit):
                yield {model._meta.label: n}


def folding_through(threads: Collection[UUID]) -> set[UUID]:
    """Live threads whose state begins with what one of these holds: forks, and theirs.

    Of an erased fork as well, which they read through. A query for each generation and
    two hundred threads.
    """
    found: set[UUID] = set()
    parents = [*threads]
    while parents:
        forks: list[tuple[UUID, str]] = []
        for start in range(0, len(parents), _AT_ONCE):
            children = Thread.objects.filter(
                parent__in=parents[start : start + _AT_ONCE]
            )
            forks += children.values_list("id", "status")
        parents = [fork for fork, _ in forks]
        found |= {fork for fork, status in forks if status != Thread.Status.ERASED}
    return found


def _payloads(
    thread: Thread, by: int, limit: int, *, after: int | None = None
) -> Counts:
    if after is None:
        # They go in the order of their seqs: those before the last one are gone.
        taken = Event.objects.filter(thread=thread, erased_by=by).order_by("-seq")
        after = taken.values_list("seq", flat=True).first() or 0
    sealed = Event.objects.filter(
        thread=thread, seq__gt=after, seq__lt=by, payload__isnull=False
    ).order_by("seq")
    seqs = [*sealed.values_list("seq", flat=True)[:limit]]
    if not seqs:
        return {}
    events = Event.objects.filter(thread=thread, seq__range=(seqs[0], seqs[-1]))
    changes = Changes()
    changes.take_payloads(events.filter(payload__isnull=False), thread.id, by=by)
    changes.write({thread.id: thread.subject_id})
    return {"Event.payload": len(seqs)}


def _rows(thread: Thread, by: int, limit: int, *, forked: bool) -> Iterator[Counts]:
    for model, privacy in tables().items():
        if privacy.forget != Fate.DELETED or privacy.thread is None:
            continue
        if forked and privacy.read_by_forks:
            take = partial(_marked, thread, model, by, limit)
        elif model in _COUNTED:
            take = partial(_counted, thread, model, limit)
        else:
            take = partial(_deleted, thread, model, privacy.thread, limit)
        while n := take():
            yield {model._meta.label: n}
    # What it made of its ancestors' records stands with those.
    while n := _deleted(thread, Derivation, "derived_thread", limit):
        yield {Derivation._meta.label: n}


def _deleted(thread: Thread, model: type[Model], lookup: str, limit: int) -> int:
    column = _column(model, lookup)
    return statements.delete_batch(model, column, thread.id, limit=limit)


def _counted(thread: Thread, model: type[Model], limit: int) -> int:
    """Delete rows of which totals are kept; how many went."""
    own, name = model._default_manager.filter(thread=thread), _COUNTED[model]
    names = [*own.order_by(name).values_list(name, flat=True)[:limit]]
    if not names:
        return 0
    rows = own.filter(**{f"{name}__in": names})
    changes = Changes()
    changes.leave(thread.id, rows)
    changes.write({thread.id: thread.subject_id})
    return rows.delete()[0]


def _marked(thread: Thread, model: type[Model], by: int, limit: int) -> int:
    """Mark rows as erased that have to stay; turns hold nothing that could be."""
    if model is Slot:
        slots = Slot.objects.filter(thread=thread, erased=False)
        indexes = [*slots.values_list("index", flat=True)[:limit]]
        marked, changes = slots.filter(index__in=indexes), Changes()
        changes.leave(thread.id, marked)
        changes.write({thread.id: thread.subject_id})
        return marked.update(erased=True) if indexes else 0
    if model is Page:
        pages = Page.objects.filter(thread=thread, deleted_seq__isnull=True)
        ids = [*pages.values_list("page_id", flat=True)[:limit]]
        changes = Changes()
        changes.page(thread.id, None, -len(ids))
        changes.page(thread.id, by, len(ids))
        changes.write({thread.id: thread.subject_id})
        return pages.filter(page_id__in=ids).update(deleted_seq=by) if ids else 0
    return 0


def _names(thread: Thread, by: int, limit: int) -> Counts:
    """Blank names in bodies, and at the end the thread's own and the salt."""
    thread.refresh_from_db(fields=["blanked_seq", "name", "name_salt"])
    if thread.blanked_seq < by - 1:
        return {"Event.names": _blank_bodies(thread, by, limit)}
    if not thread.name.startswith("~"):
        Thread.objects.filter(id=thread.id).update(
            name=_blanked_name(thread), name_salt=b""
        )
        return {Thread._meta.label: 1}
    return {}


def _blank_bodies(thread: Thread, by: int, limit: int) -> int:
    blank = partial(names.blank, bytes(thread.name_salt))
    rows = [
        *Event.objects.filter(thread=thread, seq__gt=thread.blanked_seq, seq__lt=by)
        .defer("payload")
        .order_by("seq")[:limit]
    ]
    changed, changes = [], Changes()
    for row in rows:
        blanked = _blanked_body(row, blank)
        body = chain.text_of(blanked)
        # The column repeats the body. An id of ours, which the chain has hashed as it
        # is, stays in both.
        page = row.page and sealing.stored_page(blanked)
        if (body, page) != (row.body, row.page):
            changed.append((body, page, by, thread.id, row.seq))
            if row.erased_by is None:
                changes.add(thread.id, row.type, Figures(erased=1))
    statements.BLANKED.rows(changed)
    changes.write({thread.id: thread.subject_id})
    last = rows[-1].seq if rows else by - 1
    Thread.objects.filter(id=thread.id).update(blanked_seq=last)
    return len(rows)


def _blanked_body(row: Event, blank: Callable[[str], str]) -> dict[str, Any]:
    kind = TYPES.get(row.type)
    if kind is None:
        raise NewerFormatError(event_type=row.type)
    body = orjson.loads(row.body)
    return names.replace_names(kind, body, blank)


def _blanked_name(thread: Thread) -> str:
    """`~` and the name's keyed digest, by which its tombstone knows it."""
    try:
        project = keys.project_key(thread.project_id)
        digest = blind_index.thread_name(project, thread.name)
    except ProjectDeletedError:
        # Back from a backup, without the project's key: no name comes again there, and
        # nobody could compute the digest.
        digest = secrets.token_bytes(32)
    name = f"~{digest.hex()}"
    # A name whose tombstone was lifted may have been erased before.
    taken = Thread.objects.filter(project=thread.project_id, name=name).exists()
    return f"{name}~{thread.id.hex}" if taken else name


def _erased_ancestors(thread: Thread) -> Iterator[Thread]:
    """Nearest first."""
    ids = [UUID(home) for home, *_ in orjson.loads(thread.lineage)]
    rows = Thread.objects.filter(status=Thread.Status.ERASED).in_bulk(ids)
    yield from (rows[each] for each in reversed(ids) if each in rows)


def _column(model: type[Model], lookup: str) -> str:
    field = model._meta.get_field(lookup)
    assert isinstance(field, Field)
    return str(field.column)
