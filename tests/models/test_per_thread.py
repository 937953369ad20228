"""The list of tables that a cluster spreads by thread."""

from __future__ import annotations

from django.apps import apps
from django.db import models
from django.db.migrations.loader import MigrationLoader

from memoryhub.models.per_thread import BESIDE_THREADS, PER_THREAD


def test_per_thread_models_are_listed_by_their_primary_keys() -> None:
    keyed = {
        model
        for model in apps.get_models()
        if isinstance(key := model._meta.pk, models.CompositePrimaryKey)
        and key.field_names[0] == "thread_id"
    }
    assert keyed == {*PER_THREAD, *BESIDE_THREADS}


def test_per_thread_models_have_no_unique_column_without_the_thread() -> None:
    for model in PER_THREAD:
        for constraint in model._meta.total_unique_constraints:
            assert "thread" in constraint.fields
        assert not [f.name for f in model._meta.local_fields if f.unique and f.column]


def test_no_table_points_at_a_per_thread_table() -> None:
    pointed = {
        field.remote_field.model
        for model in apps.get_models()
        for field in model._meta.local_fields
        if field.remote_field
    }
    assert pointed.isdisjoint(PER_THREAD)


def test_no_migration_constrains_a_per_thread_table_after_0022() -> None:
    """A cluster could not apply such a foreign key."""
    names = {model._meta.model_name for model in PER_THREAD}
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        if app != "memoryhub" or name < "0023":
            continue
        for operation in migration.operations:
            field = getattr(operation, "field", None)
            if getattr(operation, "model_name", "") in names and field is not None:
                assert not getattr(field, "db_constraint", False), name
