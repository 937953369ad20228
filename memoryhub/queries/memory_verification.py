"""The rows of working memory compared with what the journal leads to. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from memoryhub.journal.memory_rows import key_rows
from memoryhub.journal.rows import DueRow, KeyRow
from memoryhub.kernel.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.queries import heads


def compare(
    thread: Thread, state: ThreadState, dues: Mapping[tuple[UUID, int], datetime]
) -> str | None:
    """What is wrong with the rows of a thread's keys, or None.

    Rows of keys have no history, so a thread that was written to since is not judged.
    """
    keys = Key.objects.filter(thread=thread).order_by("key")
    stored = [KeyRow(*row) for row in keys.values_list(*KeyRow._fields)]
    values = DueValue.objects.filter(thread=thread)
    due = {*values.values_list("thread_id", "seq", "project_id", "due_at")}
    wanted = {DueRow(*place, thread.project_id, at) for place, at in dues.items()}
    same_keys = stored == key_rows(state)
    if same_keys and due == wanted:
        return None
    if heads.get_seq(thread.id) != thread.head_seq:
        return None
    return "due_values" if same_keys else "key_rows"


def kept_values(thread: Thread, erased: Mapping[tuple[UUID, int], list[int]]) -> bool:
    """Whether a value that was taken out of the journal is still there."""
    for seqs in erased.values():
        kept = Event.objects.filter(thread=thread, seq__in=seqs, erased_by__isnull=True)
        if kept.exists():
            return True
    return False
