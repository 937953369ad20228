"""Database router: key tables have their own database, and thus their own backups."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import models

KEYS = "keys"
#: Module of exactly the models in the keys database.
KEYS_MODULE = "memoryhub.models.keys"


class KeysRouter:
    def db_for_read(self, model: type[models.Model], **hints: Any) -> str:
        return _find_database(model._meta.app_label, model._meta.model_name)

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str:
        return _find_database(model._meta.app_label, model._meta.model_name)

    def allow_migrate(
        self, db: str, app_label: str, model_name: str | None = None, **hints: Any
    ) -> bool:
        """Allow a migration in the model's own database only."""
        # Raw SQL has no model and says where it belongs.
        home = hints.get("home") or _find_database(app_label, model_name)
        return bool(db == home)


def _find_database(app_label: str, model_name: str | None) -> str:
    # Look up by name: a migration has its own model class of the same table.
    model = apps.all_models[app_label].get(model_name or "")
    ours = model is not None and model.__module__ == KEYS_MODULE
    return KEYS if ours else "default"
