"""The SQL statements that read facts for a turn, built once.

As `statements` says of those of appends: the ORM would build each statement anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from uuid import UUID

from memoryhub.journal.rows.statements import (
    OPEN_HOME,
    is_postgres,
    render_placeholders,
    run_select,
    to_uuid,
    to_uuid_parameter,
)
from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.threads import Thread

#: Columns of an assertion from which its timeline is derived; times last.
TIMELINE_COLUMNS = (
    "timeline",
    "cardinality",
    "seq",
    "value",
    "confidence",
    "many",
    "origin",
    "retracted_seq",
    "wrong",
    "valid_from",
    "valid_until",
)


def select_learnt(
    subject: UUID, records: Collection[tuple[UUID, int]]
) -> list[tuple[UUID, int, int]]:
    """Return (thread, seq, seq at home) of facts learnt from records.

    In the order in which the subject's home learnt them.
    """
    threads, seqs = {thread for thread, _ in records}, {seq for _, seq in records}
    rows = _select_learnt(subject, threads, seqs)
    found = [(to_uuid(thread), *seqs) for _, thread, *seqs in rows]
    return [each for each in found if each[:2] in records]


def select_learnt_in(
    subject: UUID, threads: Collection[UUID]
) -> list[tuple[UUID, int, int]]:
    """Return (thread, seq, seq at home) of facts that may have ended.

    Only facts that the subject's home learnt from these threads. Such a fact was
    retracted, has an end, or shares its timeline with another assertion. One query
    where nothing was learnt, else two.
    """
    rows = _select_learnt(subject, threads)
    ended = _select_ended(rows[0][0], [row[3] for row in rows]) if rows else ()
    return [(to_uuid(thread), *at) for _, thread, *at in rows if at[1] in ended]


def _select_learnt(
    subject: UUID, threads: Collection[UUID], seqs: Collection[int] = ()
) -> list[tuple[Any, ...]]:
    """Return (home, thread, seq, seq at home) of facts learnt from these threads."""
    among = f' AND d."source_seq" IN ({render_placeholders(seqs)})' if seqs else ""
    return run_select(
        'SELECT t."id", d."thread_id", d."source_seq", d."derived_seq" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" t JOIN "{Derivation._meta.db_table}" d '
        'ON d."derived_thread" = t."id" '
        f'WHERE t."subject_id" = %s AND {OPEN_HOME} '
        f'AND d."thread_id" IN ({render_placeholders(threads)}){among} '
        'ORDER BY d."derived_seq"',
        [to_uuid_parameter(subject), *map(to_uuid_parameter, threads), *seqs],
    )


def _select_ended(home: Any, seqs: Collection[int]) -> set[int]:
    """Return those of a home's assertions that may have ended."""
    table = f'"{Assertion._meta.db_table}"'
    chosen, values = _render_among(seqs)
    rows = run_select(
        f'SELECT a."seq" FROM {table} a '  # noqa: S608 # models' own names
        f'WHERE a."thread_id" = %s AND a."seq" {chosen} '
        'AND (a."retracted_seq" IS NOT NULL OR a."valid_until" IS NOT NULL '
        f'OR EXISTS (SELECT 1 FROM {table} o WHERE o."thread_id" = a."thread_id" '
        'AND o."timeline" = a."timeline" AND o."seq" <> a."seq"))',
        [home, values],
    )
    return {seq for (seq,) in rows}


def _render_among(seqs: Collection[int]) -> tuple[str, Any]:
    """Return the condition that a seq is among these, and its one value."""
    if is_postgres():
        return "= ANY(%s)", [*seqs]
    return "IN (SELECT value FROM json_each(%s))", json.dumps([*seqs])


def select_timelines(home: UUID, seqs: Collection[int]) -> list[tuple[Any, ...]]:
    """Return TIMELINE_COLUMNS of all rows of these assertions' timelines.

    Ordered by timeline and seq; `seqs` are of the home thread. Times are texts on
    SQLite.
    """
    postgres, table = is_postgres(), f'"{Assertion._meta.db_table}"'
    chosen, values = _render_among(seqs)
    columns = [*TIMELINE_COLUMNS]
    if not postgres:
        # SQLite's driver spends most of the time on converting times.
        columns[-2:] = (f"\"{each}\" || '+00:00'" for each in columns[-2:])
    return run_select(
        f"SELECT {', '.join(columns)} FROM {table} "  # noqa: S608 # models' own names
        f'WHERE "thread_id" = %s AND "timeline" IN (SELECT "timeline" FROM {table} '
        f'WHERE "thread_id" = %s AND "seq" {chosen} AND "cardinality" IS NULL) '
        'ORDER BY "timeline", "seq"',
        [to_uuid_parameter(home), to_uuid_parameter(home), values],
    )
