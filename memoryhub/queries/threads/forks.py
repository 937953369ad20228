"""Forks: the journals behind a thread, and its family as a tree. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson
from django.db import connection

from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread

#: Maximum number of threads shown.
SHOWN = 200

_DESCENDANTS = """
WITH RECURSIVE family(id, level) AS (
    SELECT id, 0 FROM memoryhub_thread WHERE id = %s
    UNION ALL
    SELECT child.id, family.level + 1
    FROM memoryhub_thread child JOIN family ON child.parent_id = family.id
)
SELECT id FROM family ORDER BY level LIMIT %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkNode:
    """A thread in the tree of forks; the root of the family has `level` 0."""

    id: UUID
    name: str
    status: str
    level: int
    parent: UUID | None
    parent_name: str
    fork_seq: int | None
    head_seq: int
    slots: int
    inherited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedEvent:
    """An event that a fork inherits, by the name of its thread and its seq there."""

    thread: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkTree:
    #: Parents before their forks, siblings by fork seq.
    branches: tuple[ForkNode, ...]
    #: Whether more threads exist than are shown.
    cut: bool


def get_segments(
    thread: Thread, *, up_to: int | None = None
) -> tuple[LineageSegment, ...]:
    """Return the journals of a thread, oldest first, each with its last valid seq.

    The thread's own journal is last: up to seq `up_to`, or to its head if None. No
    query.
    """
    inherited = [
        LineageSegment(thread=UUID(home), first=first, end=end, up_to_seq=seq)
        for home, first, end, seq in orjson.loads(thread.lineage)
    ]
    own = LineageSegment(
        thread=thread.id,
        first=inherited[-1].end if inherited else 0,
        end=thread.slot_count,
        up_to_seq=thread.head_seq if up_to is None else up_to,
    )
    return (*inherited, own)


def get_tree(thread: Thread) -> ForkTree:
    """Return the tree of all threads with the same root as this thread. Two queries."""
    root = get_segments(thread)[0].thread
    column = Thread._meta.pk
    with connection.cursor() as cursor:
        root_id = column.get_db_prep_value(root, connection)
        cursor.execute(_DESCENDANTS, [root_id, SHOWN + 1])
        found = [column.to_python(row[0]) for row in cursor.fetchall()]
    rows = Thread.objects.filter(project=thread.project_id, id__in=found[:SHOWN])
    children: dict[UUID | None, list[Thread]] = {}
    for row in rows.order_by("fork_seq", "id"):
        children.setdefault(None if row.id == root else row.parent_id, []).append(row)
    return ForkTree(branches=tuple(_list_nodes(children, None)), cut=len(found) > SHOWN)


def get_names(thread: Thread) -> dict[UUID, str]:
    """Return the names of the thread's ancestors, by id. One query."""
    ancestors = [part.thread for part in get_segments(thread)[:-1]]
    rows = Thread.objects.filter(project=thread.project_id, id__in=ancestors)
    return dict(rows.values_list("id", "name"))


def find_origin(thread: Thread) -> InheritedEvent | None:
    """Return the last event that a fork inherits. One query, none without a parent."""
    if thread.parent_id is None or thread.fork_seq is None:
        return None
    return _name_event(thread, thread.parent_id, thread.fork_seq)


def find_inherited_turn(thread: Thread, turn: int) -> InheritedEvent | None:
    """Return the event at which a turn ends that only ancestors hold; None if none do.

    A query for each ancestor, and one.
    """
    for part in reversed(get_segments(thread)[:-1]):
        rows = Turn.objects.filter(thread_id=part.thread, n=turn + 1)
        rows = rows.filter(seq__lte=part.up_to_seq)
        if seq := rows.values_list("seq", flat=True).first():
            return _name_event(thread, part.thread, seq - 1)
    return None


def _name_event(thread: Thread, home: UUID, seq: int) -> InheritedEvent | None:
    name = get_names(thread).get(home)
    return InheritedEvent(thread=name, seq=seq) if name else None


def _list_nodes(
    children: dict[UUID | None, list[Thread]], parent: Thread | None, level: int = 0
) -> list[ForkNode]:
    found: list[ForkNode] = []
    for row in children.get(parent.id if parent else None, []):
        found.append(_build_node(row, level, parent))
        found += _list_nodes(children, row, level + 1)
    return found


def _build_node(row: Thread, level: int, parent: Thread | None) -> ForkNode:
    return ForkNode(
        id=row.id,
        name=row.name,
        status=row.status,
        level=level,
        parent=row.parent_id,
        parent_name=parent.name if parent else "",
        fork_seq=row.fork_seq,
        head_seq=row.head_seq,
        slots=row.slot_count,
        inherited=get_segments(row)[-1].first,
    )
