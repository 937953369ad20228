"""Verification of working memory's rows against the journal. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from memoryhub.journal.rows.nouns import PROJECTIONS
from memoryhub.journal.rows.rows import DueRow
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue
from memoryhub.queries.verify import heads


def compare(
    thread: Thread, state: ThreadState, dues: Mapping[tuple[UUID, int], datetime]
) -> str | None:
    """Compare the rows of a thread's working memory; return the wrong table, or None.

    The rows have no history: None, too, for a thread that was written to meanwhile.
    """
    differing = [
        each.word
        for each in PROJECTIONS
        if each.list_stored(thread.id) != each.build_rows(state)
    ]
    values = DueValue.objects.filter(thread=thread)
    due = {*values.values_list("thread_id", "seq", "project_id", "due_at")}
    wanted = {DueRow(*place, thread.project_id, at) for place, at in dues.items()}
    if due != wanted:
        differing.append("due_values")
    if not differing or heads.get_seq(thread.id) != thread.head_seq:
        return None
    return differing[0]


def has_kept_values(
    thread: Thread, erased: Mapping[tuple[UUID, int], list[int]]
) -> bool:
    """Tell whether the payload of a value erased by the journal still exists."""
    for seqs in erased.values():
        kept = Event.objects.filter(thread=thread, seq__in=seqs, erased_by__isnull=True)
        if kept.exists():
            return True
    return False
