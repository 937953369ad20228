"""Triggers: the database itself refuses to change or remove an event.

Lawful are an erasure (payload gone, `erased_by` set, names in the body blanked) and
the removal of a thread whose import was never finished.
"""

from collections.abc import Iterable
from typing import Any

from django.db import migrations

FIXED = ("thread_id", "seq", "type", "at", "actor", "payload_digest", "chain")
_ERASES = "NEW.payload IS NULL AND NEW.erased_by IS NOT NULL"
_IMPORTING = "(SELECT status FROM memoryhub_thread WHERE id = OLD.thread_id)"

#: In the first the columns are filled in that no erasure may change.
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
)


def add(apps: Any, schema_editor: Any) -> None:
    guard(schema_editor, fixed=FIXED)


def guard(
    schema_editor: Any, *, fixed: Iterable[str], named: Iterable[str] = ()
) -> None:
    """Create the triggers.

    `fixed` are columns that stay for ever, `named` those that repeat a name of the
    body: they change only with it, when names are blanked.
    """
    postgres = schema_editor.connection.vendor == "postgresql"
    same = "IS NOT DISTINCT FROM" if postgres else "IS"
    rules = [f"NEW.{name} {same} OLD.{name}" for name in fixed]
    rules += [
        f"(NEW.{name} {same} OLD.{name} OR NEW.body <> OLD.body)" for name in named
    ]
    if not postgres:
        # UPDATE OR REPLACE would remove the row whose number it takes.
        rules.append("NEW.rowid = OLD.rowid")
    for statement in POSTGRES if postgres else SQLITE:
        schema_editor.execute(statement.replace("<same>", " AND ".join(rules)))


def drop(apps: Any, schema_editor: Any) -> None:
    postgres = schema_editor.connection.vendor == "postgresql"
    on = " ON memoryhub_event" if postgres else ""
    third = "truncate" if postgres else "insert"
    for name in ("update", "delete", third):
        schema_editor.execute(f"DROP TRIGGER memoryhub_event_{name}{on}")
    if postgres:
        schema_editor.execute("DROP FUNCTION memoryhub_event_guard()")
        schema_editor.execute("DROP FUNCTION memoryhub_event_keep()")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0001_initial")]

    operations = [
        migrations.RunPython(add, drop, hints={"home": "default"}, elidable=False)
    ]
