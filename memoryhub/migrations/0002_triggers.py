"""Triggers: the database itself refuses to change what must stay.

Of events lawful are an erasure (payload gone, `erased_by` set, names in the body
blanked) and the removal of a thread whose import was never finished. Audit entries and
receipts are inserted, and nothing else.
"""

from collections.abc import Iterator
from typing import Any

from django.db import migrations

#: What no erasure may change of an event.
FIXED = ("thread_id", "seq", "type", "at", "actor", "payload_digest", "chain")
_ERASES = "NEW.payload IS NULL AND NEW.erased_by IS NOT NULL"
_IMPORTING = "(SELECT status FROM memoryhub_thread WHERE id = OLD.thread_id)"
SQLITE = (
    f"""CREATE TRIGGER memoryhub_event_update BEFORE UPDATE ON memoryhub_event
    WHEN NOT ({_ERASES} AND <same>)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    f"""CREATE TRIGGER memoryhub_event_delete BEFORE DELETE ON memoryhub_event
    WHEN {_IMPORTING} IS NOT 'importing'
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    # INSERT OR REPLACE removes the old row without any delete trigger, whichever of
    # its keys the new one has; SQLite's own number of a row is one.
    """CREATE TRIGGER memoryhub_event_insert BEFORE INSERT ON memoryhub_event
    WHEN EXISTS (SELECT 1 FROM memoryhub_event
                 WHERE thread_id = NEW.thread_id AND seq = NEW.seq)
      OR EXISTS (SELECT 1 FROM memoryhub_event WHERE rowid = NEW.rowid)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
)
POSTGRES = (
    f"""CREATE FUNCTION memoryhub_event_guard() RETURNS trigger AS $$
    BEGIN
      IF TG_OP = 'UPDATE' AND {_ERASES} AND <same> THEN
        RETURN NEW;
      END IF;
      IF TG_OP = 'DELETE' AND {_IMPORTING} = 'importing' THEN
        RETURN OLD;
      END IF;
      RAISE EXCEPTION 'events are append-only';
    END $$ LANGUAGE plpgsql""",
    """CREATE FUNCTION memoryhub_event_keep() RETURNS trigger AS $$
    BEGIN
      IF EXISTS (SELECT 1 FROM memoryhub_event) THEN
        RAISE EXCEPTION 'events are append-only';
      END IF;
      RETURN NULL;
    END $$ LANGUAGE plpgsql""",
    """CREATE TRIGGER memoryhub_event_truncate BEFORE TRUNCATE ON memoryhub_event
    FOR EACH STATEMENT EXECUTE FUNCTION memoryhub_event_keep()""",
    """CREATE TRIGGER memoryhub_event_update BEFORE UPDATE ON memoryhub_event
    FOR EACH ROW EXECUTE FUNCTION memoryhub_event_guard()""",
    """CREATE TRIGGER memoryhub_event_delete BEFORE DELETE ON memoryhub_event
    FOR EACH ROW EXECUTE FUNCTION memoryhub_event_guard()""",
    """CREATE FUNCTION memoryhub_keep() RETURNS trigger AS $$
    BEGIN
      RAISE EXCEPTION 'it is kept as it was written';
    END $$ LANGUAGE plpgsql""",
)
#: Tables whose rows stay as they are, and by which each row is known. SQLite's REPLACE
#: removes the old row of any of them without a delete trigger.
KEPT = {
    "auditentry": ("seq", "rowid"),
    "receipt": ("id", "erasure_id, n", "rowid"),
}


def add(apps: Any, schema_editor: Any) -> None:
    vendor = schema_editor.connection.vendor
    for statement in iter_statements(postgres=vendor == "postgresql"):
        schema_editor.execute(statement)


def iter_statements(*, postgres: bool) -> Iterator[str]:
    """Iterate over what makes every trigger of an engine."""
    same = "IS NOT DISTINCT FROM" if postgres else "IS"
    rules = [f"NEW.{name} {same} OLD.{name}" for name in FIXED]
    # It repeats a name of the body, and changes only with that, when names are blanked.
    rules.append(f"(NEW.page {same} OLD.page OR NEW.body <> OLD.body)")
    if not postgres:
        # UPDATE OR REPLACE would remove the row whose number it takes.
        rules.append("NEW.rowid = OLD.rowid")
    for statement in POSTGRES if postgres else SQLITE:
        yield statement.replace("<same>", " AND ".join(rules))
    for table in KEPT:
        yield from _iter_keeping(table, postgres=postgres)


def _iter_keeping(table: str, *, postgres: bool) -> Iterator[str]:
    name = f"memoryhub_{table}"
    for verb in ("update", "delete", "truncate" if postgres else "insert"):
        each = "STATEMENT" if verb == "truncate" else "ROW"
        start = f"CREATE TRIGGER {name}_{verb} BEFORE {verb.upper()} ON {name}"
        if postgres:
            yield f"{start} FOR EACH {each} EXECUTE FUNCTION memoryhub_keep()"
        else:
            words = "'it is kept as it was written'"
            when = f"WHEN {_taken(table)}" if verb == "insert" else ""
            yield f"{start} {when} BEGIN SELECT RAISE(ABORT, {words}); END"


def _taken(table: str) -> str:
    """Whether there is a row with one of the new one's keys."""
    found = []
    for key in KEPT[table]:
        same = " AND ".join(f"{name} = NEW.{name}" for name in key.split(", "))
        found.append(f"EXISTS (SELECT 1 FROM memoryhub_{table} WHERE {same})")  # noqa: S608 # our own
    return " OR ".join(found)


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0001_tables")]

    operations = [migrations.RunPython(add, hints={"home": "default"}, elidable=False)]
