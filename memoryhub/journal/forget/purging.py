"""Purging: deletes the rest of erased threads, a batch at a time.

Each batch concerns one place. `take_some` takes as many batches as one short
transaction should; another transaction continues with the rest. Every batch can be
repeated. Called in the writer's thread.
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
from memoryhub.journal.rows.totals import Figures, TotalsChanges
from memoryhub.journal.writing import sealing
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.privacy import Fate, list_declared_models
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.vault.keys import blind_index, keys

#: Number of deleted rows by place.
Counts = dict[str, int]
#: Rows of one batch, at most.
BATCH = 1_000
#: Threads whose forks one statement looks for.
_AT_ONCE = 200
#: Tables with totals, and the column that identifies a row within its thread.
_COUNTED: Mapping[type[Model], str] = MappingProxyType(
    {Page: "page_id", PageLevel: "page_id", Key: "key", Slot: "index"}
)


def take_some(batches: Callable[[], Iterator[Counts]]) -> bool:
    """Take batches in one transaction; return whether more may be left."""
    taken = 0
    with transaction.atomic():
        for batch in batches():
            taken += sum(batch.values())
            if taken >= BATCH:
                return True
    return False


def iter_thread_batches(
    thread_id: UUID, *, by: int, limit: int = BATCH
) -> Iterator[Counts]:
    """Purge what is left of an erased thread; `by` is the seq of its thread.erased.

    Payloads first, then rows, then names. The thread's own name is blanked last, so a
    name that begins with `~` shows that nothing is left. While a live fork folds
    through the thread, slots and pages stay, marked as erased, and turns and names stay
    unchanged: see `list_live_descendants`. Then come erased ancestors, if this thread
    was the last that folded through them. Places are models' labels, `Event.payload`
    and `Event.names`.
    """
    thread = Thread.objects.get(id=thread_id)
    assert thread.status == Thread.Status.ERASED
    forked = bool(list_live_descendants([thread_id]))
    yield from _repeat_batch(partial(_take_payloads, thread, by, limit))
    yield from _take_rows(thread, by, limit, forked=forked)
    if not forked:
        yield from _repeat_batch(partial(_blank_names, thread, by, limit))
    # Payloads may have been written after the fence. Check once: it reads all events.
    yield from _repeat_batch(partial(_take_payloads, thread, by, limit, after=0))
    for ancestor in _iter_erased_ancestors(thread):
        yield from iter_thread_batches(ancestor.id, by=ancestor.head_seq, limit=limit)


def _repeat_batch(take: Callable[[], Counts]) -> Iterator[Counts]:
    while done := take():
        yield done


def iter_subject_batches(subject_id: UUID, *, limit: int = BATCH) -> Iterator[Counts]:
    """Delete the rows that name the subject directly and belong to no thread."""
    for model, privacy in list_declared_models().items():
        subject = privacy.subject or ""
        if privacy.forget == Fate.DELETED and subject and "__" not in subject:
            column = _get_column(model, subject)
            while n := statements.delete_batch(model, column, subject_id, limit=limit):
                yield {model._meta.label: n}


def list_live_descendants(threads: Collection[UUID]) -> set[UUID]:
    """List live threads whose state begins with the state of one of these threads.

    Forks and forks of forks, also those of erased forks, which still read through their
    parent. One query for each generation and two hundred threads.
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


def _take_payloads(
    thread: Thread, by: int, limit: int, *, after: int | None = None
) -> Counts:
    if after is None:
        # Payloads go in the order of seqs: all before the last one taken are gone.
        taken = Event.objects.filter(thread=thread, erased_by=by).order_by("-seq")
        after = taken.values_list("seq", flat=True).first() or 0
    sealed = Event.objects.filter(
        thread=thread, seq__gt=after, seq__lt=by, payload__isnull=False
    ).order_by("seq")
    seqs = [*sealed.values_list("seq", flat=True)[:limit]]
    if not seqs:
        return {}
    events = Event.objects.filter(thread=thread, seq__range=(seqs[0], seqs[-1]))
    changes = TotalsChanges()
    changes.take_payloads(events.filter(payload__isnull=False), thread.id, by=by)
    changes.write({thread.id: thread.subject_id})
    return {"Event.payload": len(seqs)}


def _take_rows(
    thread: Thread, by: int, limit: int, *, forked: bool
) -> Iterator[Counts]:
    for model, privacy in list_declared_models().items():
        if privacy.forget != Fate.DELETED or privacy.thread is None:
            continue
        if forked and privacy.read_by_forks:
            take = partial(_mark_erased, thread, model, by, limit)
        elif model in _COUNTED:
            take = partial(_delete_counted, thread, model, limit)
        else:
            take = partial(_delete_rows, thread, model, privacy.thread, limit)
        while n := take():
            yield {model._meta.label: n}
    # Derivations that the thread made of its ancestors' records stand with the
    # ancestors.
    while n := _delete_rows(thread, Derivation, "derived_thread", limit):
        yield {Derivation._meta.label: n}


def _delete_rows(thread: Thread, model: type[Model], lookup: str, limit: int) -> int:
    column = _get_column(model, lookup)
    return statements.delete_batch(model, column, thread.id, limit=limit)


def _delete_counted(thread: Thread, model: type[Model], limit: int) -> int:
    """Delete rows of a table with totals; return how many."""
    own, name = model._default_manager.filter(thread=thread), _COUNTED[model]
    names = [*own.order_by(name).values_list(name, flat=True)[:limit]]
    if not names:
        return 0
    rows = own.filter(**{f"{name}__in": names})
    changes = TotalsChanges()
    changes.deduct(thread.id, rows)
    changes.write({thread.id: thread.subject_id})
    return rows.delete()[0]


def _mark_erased(thread: Thread, model: type[Model], by: int, limit: int) -> int:
    """Mark rows as erased that have to stay; turns hold no content."""
    if model is Slot:
        slots = Slot.objects.filter(thread=thread, erased=False)
        indexes = [*slots.values_list("index", flat=True)[:limit]]
        marked, changes = slots.filter(index__in=indexes), TotalsChanges()
        changes.deduct(thread.id, marked)
        changes.write({thread.id: thread.subject_id})
        return marked.update(erased=True) if indexes else 0
    if model is Page:
        pages = Page.objects.filter(thread=thread, deleted_seq__isnull=True)
        ids = [*pages.values_list("page_id", flat=True)[:limit]]
        changes = TotalsChanges()
        changes.count_page(thread.id, None, -len(ids))
        changes.count_page(thread.id, by, len(ids))
        changes.write({thread.id: thread.subject_id})
        return pages.filter(page_id__in=ids).update(deleted_seq=by) if ids else 0
    return 0


def _blank_names(thread: Thread, by: int, limit: int) -> Counts:
    """Blank the names in event bodies, and at the end the thread's name and salt."""
    thread.refresh_from_db(fields=["blanked_seq", "name", "name_salt"])
    if thread.blanked_seq < by - 1:
        return {"Event.names": _blank_bodies(thread, by, limit)}
    if not thread.name.startswith("~"):
        Thread.objects.filter(id=thread.id).update(
            name=_build_blanked_name(thread), name_salt=b""
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
    changed, changes = [], TotalsChanges()
    for row in rows:
        blanked = _blank_body(row, blank)
        body = chain.render_body(blanked)
        # The column repeats the body. Both keep an id that we made: the chain hashed it
        # unblanked.
        page = row.page and sealing.find_stored_page(blanked)
        if (body, page) != (row.body, row.page):
            changed.append((body, page, by, thread.id, row.seq))
            if row.erased_by is None:
                changes.add(thread.id, row.type, Figures(erased=1))
    statements.BLANKED.update(changed)
    changes.write({thread.id: thread.subject_id})
    last = rows[-1].seq if rows else by - 1
    Thread.objects.filter(id=thread.id).update(blanked_seq=last)
    return len(rows)


def _blank_body(row: Event, blank: Callable[[str], str]) -> dict[str, Any]:
    kind = TYPES.get(row.type)
    if kind is None:
        raise NewerFormatError(event_type=row.type)
    body = orjson.loads(row.body)
    return names.replace_names(kind, body, blank)


def _build_blanked_name(thread: Thread) -> str:
    """Return `~` and the name's keyed digest, which the name's tombstone holds too."""
    try:
        project = keys.get_project_key(thread.project_id)
        digest = blind_index.digest_thread_name(project, thread.name)
    except ProjectDeletedError:
        # Restored from a backup without the project's key: no thread is made there
        # again, and nobody could compute the digest.
        digest = secrets.token_bytes(32)
    name = f"~{digest.hex()}"
    # A name whose tombstone was lifted may have been erased before.
    taken = Thread.objects.filter(project=thread.project_id, name=name).exists()
    return f"{name}~{thread.id.hex}" if taken else name


def _iter_erased_ancestors(thread: Thread) -> Iterator[Thread]:
    """Yield the erased ancestors of a thread, nearest first."""
    ids = [UUID(home) for home, *_ in orjson.loads(thread.lineage)]
    rows = Thread.objects.filter(status=Thread.Status.ERASED).in_bulk(ids)
    yield from (rows[each] for each in reversed(ids) if each in rows)


def _get_column(model: type[Model], lookup: str) -> str:
    field = model._meta.get_field(lookup)
    assert isinstance(field, Field)
    return str(field.column)
