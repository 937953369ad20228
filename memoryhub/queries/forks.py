"""Forks: the family of a thread, as a tree. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson
from django.db import connection

from memoryhub.models.threads import Thread

#: Threads that are shown at most.
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
class Branch:
    """A thread in the tree; `level` 0 is the one that all go back to."""

    id: UUID
    name: str
    status: str
    level: int
    parent: UUID | None
    fork_seq: int | None
    head_seq: int
    slots: int
    inherited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    #: Parents before their forks, siblings by the seq they left at.
    branches: tuple[Branch, ...]
    #: There are more than are shown.
    cut: bool


def get_tree(thread: Thread) -> Tree:
    """All threads that share a first ancestor with this one. Two queries."""
    lineage = orjson.loads(thread.lineage)
    root = UUID(lineage[0][0]) if lineage else thread.id
    column = Thread._meta.pk
    with connection.cursor() as cursor:
        known = column.get_db_prep_value(root, connection)
        cursor.execute(_DESCENDANTS, [known, SHOWN + 1])
        found = [column.to_python(row[0]) for row in cursor.fetchall()]
    rows = Thread.objects.filter(project=thread.project_id, id__in=found[:SHOWN])
    children: dict[UUID | None, list[Thread]] = {}
    for row in rows.order_by("fork_seq", "id"):
        children.setdefault(None if row.id == root else row.parent_id, []).append(row)
    return Tree(branches=tuple(_ordered(children, None, 0)), cut=len(found) > SHOWN)


def get_names(thread: Thread) -> dict[UUID, str]:
    """The names of the thread's ancestors, by id. One query."""
    lineage = [UUID(part[0]) for part in orjson.loads(thread.lineage)]
    rows = Thread.objects.filter(project=thread.project_id, id__in=lineage)
    return dict(rows.values_list("id", "name"))


def _ordered(
    children: dict[UUID | None, list[Thread]], parent: UUID | None, level: int
) -> list[Branch]:
    found: list[Branch] = []
    for row in children.get(parent, []):
        found.append(_branch(row, level))
        found += _ordered(children, row.id, level + 1)
    return found


def _branch(row: Thread, level: int) -> Branch:
    lineage = orjson.loads(row.lineage)
    return Branch(
        id=row.id,
        name=row.name,
        status=row.status,
        level=level,
        parent=row.parent_id,
        fork_seq=row.fork_seq,
        head_seq=row.head_seq,
        slots=row.slot_count,
        inherited=lineage[-1][2] if lineage else 0,
    )
