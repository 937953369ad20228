"""Deployment checks of the servers beside ours: what they keep that nobody may read.

A statement that fails is written to PostgreSQL's log, with the values in it; what Redis
saves outlives an erasure. Run by `check --deploy`, of databases with `--database`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections

from memoryhub.vault.registry import rights

#: Loaded by name where Redis is configured: it needs an extra.
_REDIS: Final = "memoryhub.queries.scan.redis_values"
#: What each must be, so that no log holds what a statement held.
QUIET: Final = {
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
#: What each connection asks for, and a pooler in between may drop; 0 is no limit.
LIMITS: Final = ("statement_timeout", "idle_in_transaction_session_timeout")
#: What each must be, so that Redis writes nothing to a disk.
UNSAVED: Final = {"save": "", "appendonly": "no"}


def database_logs(
    *_: Any, databases: Collection[str] | None = None, **__: Any
) -> list[CheckMessage]:
    """Warn of PostgreSQL servers whose log may hold values of statements."""
    return [
        CheckWarning(
            f"The server of the database {alias} may log what statements hold: {name} "
            f"is {value}.",
            hint=f"Have its administrator set {name} = {QUIET[name]} "
            "(ALTER SYSTEM, or ALTER ROLE for ours).",
            id="memoryhub.W003",
        )
        for alias in _postgres(databases)
        for name, value in _settings(alias, QUIET)
        if value != QUIET[name]
    ]


def database_limits(
    *_: Any, databases: Collection[str] | None = None, **__: Any
) -> list[CheckMessage]:
    """Warn of PostgreSQL databases where no time limit of ours holds."""
    return [
        CheckWarning(
            f"Connections to the database {alias} have no limit: {name} is 0.",
            hint=f"A pooler in between drops ours: ALTER ROLE … SET {name}, for ours.",
            id="memoryhub.W009",
        )
        for alias in _postgres(databases)
        for name, value in _settings(alias, LIMITS)
        if value == "0"
    ]


def database_roles(
    *_: Any, databases: Collection[str] | None = None, **__: Any
) -> list[CheckMessage]:
    """Warn of PostgreSQL roles that triggers and permissions do not bind."""
    return [
        CheckWarning(
            f"Our role in the database {alias} is a superuser, whom no trigger binds.",
            hint="Connect as a role with NOSUPERUSER that owns the database.",
            id="memoryhub.W004",
        )
        for alias in _postgres(databases)
        if _superuser(alias)
    ]


def database_rights(
    *_: Any, databases: Collection[str] | None = None, **__: Any
) -> list[CheckMessage]:
    """Warn of what our role can't do that forgetting needs: it would wait for it."""
    hint = "Tables: ALTER TABLE … OWNER TO our role. Grants: … TO our role."
    return [
        CheckWarning(
            f"Our role in the database {alias} lacks for forgetting: {lacking}.",
            hint=hint,
            id="memoryhub.W006",
        )
        for alias in _postgres(databases)
        if (lacking := ", ".join(_lacking(alias)))
    ]


def redis_saves(*_: Any, **__: Any) -> list[CheckMessage]:
    """Refuse a Redis that writes to a disk; warn of one that does not tell."""
    if not settings.REDIS_URL:
        return []
    values: Any = import_module(_REDIS)
    try:
        found = values.get_settings(settings.REDIS_URL, UNSAVED)
    except OSError:
        return [
            CheckWarning(
                "Redis does not say whether it writes to a disk.",
                hint='See that it runs and lets us ask by CONFIG GET; else set save "" '
                "and appendonly no there by hand.",
                id="memoryhub.W005",
            )
        ]
    return [
        Error(
            f"Redis writes to a disk what may be somebody's: its {name} is "
            f'"{found[name]}".',
            hint='Set save "" and appendonly no in its configuration.',
            id="memoryhub.E001",
        )
        for name, wanted in UNSAVED.items()
        if found[name] != wanted
    ]


def secret(*_: Any, **__: Any) -> list[CheckMessage]:
    """Warn of the secret that everybody knows."""
    if settings.SECRET_KEY != settings.DEFAULT_SECRET_KEY:
        return []
    return [
        CheckWarning(
            "Cookies and cursors are signed with the secret that everybody knows.",
            hint="Set MEMORYHUB_SECRET_KEY to 50 random characters or more.",
            id="memoryhub.W007",
        )
    ]


def proxies(*_: Any, **__: Any) -> list[CheckMessage]:
    """Warn of a server that others call, and that knows of no proxy before it."""
    if not settings.HOSTS or settings.TRUSTED_PROXIES:
        return []
    return [
        CheckWarning(
            "Hosts are set and no proxy is: behind one, all who ask look like it, and "
            "share its limits.",
            hint="Set MEMORYHUB_TRUSTED_PROXIES to the proxy's address; without a "
            "proxy this is as it should be.",
            id="memoryhub.W008",
        )
    ]


def _postgres(databases: Collection[str] | None) -> Iterator[str]:
    """Of the databases that may be asked, those on PostgreSQL."""
    for alias in databases or ():
        if connections[alias].vendor == "postgresql":
            yield alias


def _settings(alias: str, names: Collection[str]) -> list[tuple[str, str]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT name, current_setting(name) FROM pg_settings "
            "WHERE name = ANY(%s) ORDER BY name",
            [list(names)],
        )
        found: list[tuple[str, str]] = cursor.fetchall()
        return found


def _superuser(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (superuser,) = cursor.fetchone()
        return bool(superuser)


def _lacking(alias: str) -> list[str]:
    tables = (f"table {name}" for name in rights.not_ours(alias))
    return [*tables, *rights.missing_grants(alias)]
