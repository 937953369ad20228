"""Which database a table is in: keys live apart, so that backups can live apart."""

from __future__ import annotations

from typing import Any

from django.db import models

KEYS = "keys"
#: Lower-case names of the models in memoryhub/models/keys.py.
KEYS_MODELS = frozenset(
    {
        "projectkey",
        "subjectkey",
        "destroyedkey",
        "destroyedprojectkey",
        "signingkey",
        "newestline",
        "operatorkey",
        "passkey",
        "kekcheck",
        "keymeta",
    }
)


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
    ours = app_label == "memoryhub" and model_name in KEYS_MODELS
    return KEYS if ours else "default"
