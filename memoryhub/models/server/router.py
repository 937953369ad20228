"""Which database a table is in: keys live apart, so that backups can live apart."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import models

KEYS = "keys"
#: The module of the models that are there, and of no others.
KEYS_MODULE = "memoryhub.models.keys"


class KeysRouter:
    def db_for_read(self, model: type[models.Model], **hints: Any) -> str:
        return _home(model._meta.app_label, model._meta.model_name)

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str:
        return _home(model._meta.app_label, model._meta.model_name)

    def allow_migrate(
        self, db: str, app_label: str, model_name: str | None = None, **hints: Any
    ) -> bool:
        # Raw SQL has no model and says where it belongs.
        home = hints.get("home") or _home(app_label, model_name)
        return bool(db == home)


def _home(app_label: str, model_name: str | None) -> str:
    # By its name, for a migration has a model of its own for the same table.
    model = apps.all_models[app_label].get(model_name or "")
    ours = model is not None and model.__module__ == KEYS_MODULE
    return KEYS if ours else "default"
