"""Triggers as a start compares them by their definition, on both engines."""

from __future__ import annotations

import pytest
from django.db import connections

from memoryhub.errors import StartRefusedError
from memoryhub.management import triggers
from tests.management import damage

pytestmark = pytest.mark.django_db
ON_POSTGRESQL = connections["default"].vendor == "postgresql"
TABLES = ("event", "auditentry", "receipt")
VERBS = ("update", "delete", "truncate" if ON_POSTGRESQL else "insert")
NOTHING = """CREATE FUNCTION nothing() RETURNS trigger AS $$
    BEGIN RETURN COALESCE(NEW, OLD); END $$ LANGUAGE plpgsql"""
ALL = """SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"""
if not ON_POSTGRESQL:
    ALL = "SELECT name FROM sqlite_master WHERE type = 'trigger'"


def run(*statements: str) -> None:
    with connections["default"].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def make_empty(name: str, verb: str, table: str) -> None:
    each = "STATEMENT" if verb == "truncate" else "ROW"
    head = f"CREATE TRIGGER {name} BEFORE {verb.upper()} ON memoryhub_{table}"
    if ON_POSTGRESQL:
        run(NOTHING, f"{head} FOR EACH {each} EXECUTE FUNCTION nothing()")
    else:
        run(f"{head} BEGIN SELECT 1; END")


def require_refusal() -> str:
    with pytest.raises(StartRefusedError) as refused:
        triggers.refuse_changed()
    return refused.value.reason


def test_expected_triggers_equal_those_of_the_migrations() -> None:
    triggers.refuse_changed()
    with connections["default"].cursor() as cursor:
        cursor.execute(ALL)
        made = {name for (name,) in cursor.fetchall()}
    expected = triggers.list_expected()
    assert made == {name for listed in expected.values() for name in listed}
    assert {*expected} == {f"memoryhub_{table}" for table in TABLES}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", VERBS)
def test_empty_trigger_is_named(table: str, verb: str) -> None:
    name = f"memoryhub_{table}_{verb}"
    damage.drop_trigger(verb, table)
    assert f"triggers_missing: {name} of" in require_refusal()
    make_empty(name, verb, table)
    assert f"triggers_changed: {name} of" in require_refusal()


@pytest.mark.parametrize("table", TABLES)
def test_extra_trigger_is_named(table: str) -> None:
    make_empty("z", "update", table)
    assert "triggers_changed: z of" in require_refusal()


@pytest.mark.usefixtures("sqlite")
def test_trigger_with_a_false_condition_is_named() -> None:
    damage.drop_trigger("delete", "event")
    run(
        "CREATE TRIGGER memoryhub_event_delete BEFORE DELETE ON memoryhub_event "
        "WHEN 0 BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
    )
    assert "triggers_changed: memoryhub_event_delete of" in require_refusal()


@pytest.mark.grown
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (NOTHING.replace("E F", "E OR REPLACE F").replace("nothing", "memoryhub_keep"),
         "triggers_changed: memoryhub_auditentry_delete, "),
        ("ALTER FUNCTION memoryhub_event_guard() SET search_path = pg_temp",
         "triggers_missing: memoryhub_event_delete, memoryhub_event_update of"),
        ("ALTER TABLE memoryhub_event ENABLE REPLICA TRIGGER memoryhub_event_delete",
         "triggers_missing: memoryhub_event_delete of"),
        ("ALTER TABLE memoryhub_event DISABLE TRIGGER memoryhub_event_delete",
         "triggers_missing: memoryhub_event_delete of"),
    ],
)  # fmt: skip
def test_trigger_with_a_changed_function_is_named(statement: str, named: str) -> None:
    run(statement)
    assert named in require_refusal()
