"""Recounts of erased rows by the database's own triggers, in an instance of its own.

Triggers note each row that stops holding something, whoever takes it and by whatever
statement. Nobody who plans, erases or counts in the hub knows of them.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from django.db import connections

#: By place, as receipts call it: its table, the column of who owns the row, and when a
#: row holds something; nothing: as long as it is there. Totals are left out, for each
#: step of an erasure changes them.
PLACES: Final = {
    "events": ("event", "thread_id", "{row}.payload IS NOT NULL"),
    "slots": ("slot", "thread_id", ""),
    "turns": ("turn", "thread_id", ""),
    "pages": ("page", "thread_id", "{row}.deleted_seq IS NULL"),
    "page_levels": ("pagelevel", "thread_id", ""),
    "keys": ("key", "thread_id", ""),
    "due_values": ("duevalue", "thread_id", ""),
    "thread_labels": ("threadlabel", "thread_id", ""),
    "request_keys": ("requestkey", "subject_id", ""),
    "derivations": ("derivation", "thread_id", ""),
    "threads": ("thread", "id", "{row}.name NOT LIKE '~%'"),
    "subjects": (
        "subject",
        "id",
        "({row}.subject_ref IS NOT NULL OR {row}.external_id IS NOT NULL)",
    ),
    "daily_uses": ("dailyuse", "subject_id", ""),
}
_NOTING: Final = """
CREATE FUNCTION recount_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recount VALUES (TG_ARGV[0], (to_jsonb(OLD) ->> TG_ARGV[1])::uuid);
    RETURN NULL;
END $$
"""


def install() -> None:
    """Install the triggers that count."""
    with connections["default"].cursor() as cursor:
        postgres = connections["default"].vendor == "postgresql"
        owner = "uuid" if postgres else "char(32)"
        cursor.execute(f"CREATE TABLE recount (place varchar(20), owner {owner})")
        if postgres:
            cursor.execute(_NOTING)
        for place, (table, column, holding) in PLACES.items():
            for act, when in _ends(holding):
                noted = f"INSERT INTO recount VALUES ('{place}', OLD.{column})"
                does = f"BEGIN {noted}; END"
                if postgres:
                    does = f"EXECUTE FUNCTION recount_note('{place}', '{column}')"
                cursor.execute(
                    f"CREATE TRIGGER recount_{place}_{act} AFTER {act} "
                    f"ON memoryhub_{table} FOR EACH ROW {when} {does}"
                )


def _ends(holding: str) -> list[tuple[str, str]]:
    """Return the statements that can end a record, each with its condition."""
    if not holding:
        return [("DELETE", "")]
    held, holds = holding.format(row="OLD"), holding.format(row="NEW")
    return [
        ("DELETE", f"WHEN ({held})"),
        ("UPDATE", f"WHEN ({held} AND NOT ({holds}))"),
    ]


def show() -> None:
    """Print the counts of ended records, by subject and place."""
    told: dict[str, dict[str, int]] = {}
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(t.subject_id, r.owner), r.place, count(*) FROM recount r "
            "LEFT JOIN memoryhub_thread t ON t.id = r.owner GROUP BY 1, 2"
        )
        for subject, place, count in cursor.fetchall():
            told.setdefault(str(subject).replace("-", ""), {})[place] = count
    sys.stdout.write(json.dumps(told))
