"""Erasure of journal records, without the plan and the receipt around it."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import transaction
from django.forms import model_to_dict

from memoryhub.journal.forget import erasing, purging
from memoryhub.kernel.state.erase_events import Range
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.rebuild import rebuild

#: Tables whose rows repeat the fold, but for snapshots, which come and go.
FOLDED = (
    "Slot", "Turn", "Page", "PageLevel", "EvictedPage", "Key", "Checkpoint", "DueValue",
    "Derivation", "MarkedTurn",
)  # fmt: skip


def erasure_of(thread: Thread, scope: str = "record", state: str = "fenced") -> Erasure:
    now = clock.now()
    return Erasure.objects.create(
        project_id=thread.project_id,
        subject_id=thread.subject_id,
        scope=scope,
        reason="test",
        actor="command",
        state=state,
        epoch=1,
        created_at=now,
        expires_at=now,
        updated_at=now,
    )


def close_erasure(erasure: Erasure) -> None:
    Erasure.objects.filter(id=erasure.id).update(state=Erasure.State.COMPLETE)


def erase(thread: Thread, *spans: tuple[int, int]) -> dict[UUID, int]:
    """Erase records of a thread, there and in forks that inherit them."""
    return erase_ranges(thread, [(thread.id, *span) for span in spans])


def erase_ranges(thread: Thread, ranges: list[Range]) -> dict[UUID, int]:
    erasure = erasure_of(thread)
    with transaction.atomic():
        told = erasing.erase_records(ranges, erasure=erasure.id, reason="test")
    close_erasure(erasure)
    return told


def end(thread: Thread) -> Erasure:
    """Erase a thread as a whole: its forks are told, nothing is purged yet."""
    erasure = erasure_of(thread, scope="thread")
    with transaction.atomic():
        erasing.erase_threads([thread], erasure=erasure.id, reason="test")
        for some in erasing.split_ranges([(thread.id, 1, thread.head_seq)]):
            erasing.erase_records(some, erasure=erasure.id, reason="test")
    return erasure


def purge(thread: Thread, *, limit: int = 1_000) -> Counter[str]:
    """Purge everything; return the counts by place."""
    gone: Counter[str] = Counter()
    by = Thread.objects.get(id=thread.id).head_seq
    with transaction.atomic():
        for done in purging.iter_thread_batches(thread.id, by=by, limit=limit):
            gone.update(done)
    return gone


def list_rebuilt_rows(thread: Thread) -> dict[str, list[Any]]:
    """Return the rows that a rebuild makes again."""
    found: dict[str, list[Any]] = {}
    for name in FOLDED:
        model = apps.get_model("memoryhub", name)
        column = "derived_thread" if name == "Derivation" else "thread"
        rows = model._default_manager.filter(**{column: thread.id})
        found[name] = sorted(map(repr, rows.values()))
    row = Thread.objects.get(id=thread.id)
    found["Thread"] = [model_to_dict(row, exclude=["name_salt", "head_hash"])]
    return found


def sound(*threads: Thread) -> None:
    """Assert that journals fold to the rows, and that a rebuild makes the same."""
    for thread in threads:
        row = Thread.objects.select_related("subject").get(id=thread.id)
        assert verify(row) is None, (row.name, verify(row))
        before = list_rebuilt_rows(row)
        rebuild(row)
        assert list_rebuilt_rows(row) == before
        assert verify(row) is None
