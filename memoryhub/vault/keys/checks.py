"""Deployment checks of the vault: warnings about allowed but unwise settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning


def check_ring_folder(*_: Any, **__: Any) -> list[CheckMessage]:
    """Warn when the key ring is in a database's folder: one theft takes both."""
    if not list_databases_beside(settings.KEK_FILE, databases=settings.DATABASES):
        return []
    return [
        CheckWarning(
            f"The key ring {settings.KEK_FILE} lies beside a database, so whoever "
            "copies that folder can read everything.",
            hint="Move it to another volume and name it in MEMORYHUB_KEK_FILE.",
            id="memoryhub.W001",
        )
    ]


def check_password_only(*_: Any, **__: Any) -> list[CheckMessage]:
    """Warn when operators who may erase can sign in with a password alone."""
    if not settings.ALLOW_PASSWORD_ONLY:
        return []
    return [
        CheckWarning(
            "Officers and owners may sign in from anywhere by a password, or by single "
            "sign-on, alone.",
            hint="Have them add a second factor, then unset "
            "MEMORYHUB_ALLOW_PASSWORD_ONLY.",
            id="memoryhub.W002",
        )
    ]


def list_databases_beside(
    ring: Path, *, databases: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """List the aliases of the SQLite databases in the ring's folder."""
    return [
        alias
        for alias, database in databases.items()
        if database["ENGINE"].endswith("sqlite3")
        and Path(database["NAME"]).parent == ring.parent
    ]
