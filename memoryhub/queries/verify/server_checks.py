"""Deployment checks of PostgreSQL, Redis, the secret key and proxies.

PostgreSQL logs the values of a statement that fails, and data that Redis saves outlives
an erasure. `check --deploy` runs the checks; those of databases need `--database`.
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
#: PostgreSQL's settings, with the values that keep statements' values out of the log.
QUIET: Final = {
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
#: Limits that each connection sets, and that a pooler may drop; 0 is no limit.
LIMITS: Final = ("statement_timeout", "idle_in_transaction_session_timeout")
#: Redis's settings, with the values that keep its data off the disk.
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
        for alias in _iter_postgres(databases)
        for name, value in _list_settings(alias, QUIET)
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
        for alias in _iter_postgres(databases)
        for name, value in _list_settings(alias, LIMITS)
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
        for alias in _iter_postgres(databases)
        if _is_superuser(alias)
    ]


def database_rights(
    *_: Any, databases: Collection[str] | None = None, **__: Any
) -> list[CheckMessage]:
    """Warn of rights that our role lacks and erasures need: erasures would wait."""
    hint = "Tables: ALTER TABLE … OWNER TO our role. Grants: … TO our role."
    return [
        CheckWarning(
            f"Our role in the database {alias} lacks for forgetting: {lacking}.",
            hint=hint,
            id="memoryhub.W006",
        )
        for alias in _iter_postgres(databases)
        if (lacking := ", ".join(_list_lacking(alias)))
    ]


def is_redis_silent() -> bool:
    """Return whether Redis is configured and gives no answer within two seconds."""
    if not settings.REDIS_URL:
        return False
    values: Any = import_module(_REDIS)
    return not values.has_answer(settings.REDIS_URL, seconds=1.0)


def redis_saves(*_: Any, **__: Any) -> list[CheckMessage]:
    """Refuse a Redis that writes to a disk; warn if Redis does not tell."""
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
    """Warn if the secret key is the publicly known default."""
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
    """Warn of a server with public hosts and no trusted proxies."""
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


def _iter_postgres(databases: Collection[str] | None) -> Iterator[str]:
    """Yield the databases on PostgreSQL among those that may be checked."""
    for alias in databases or ():
        if connections[alias].vendor == "postgresql":
            yield alias


def _list_settings(alias: str, names: Collection[str]) -> list[tuple[str, str]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT name, current_setting(name) FROM pg_settings "
            "WHERE name = ANY(%s) ORDER BY name",
            [list(names)],
        )
        found: list[tuple[str, str]] = cursor.fetchall()
        return found


def _is_superuser(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        (superuser,) = cursor.fetchone()
        return bool(superuser)


def _list_lacking(alias: str) -> list[str]:
    tables = (f"table {name}" for name in rights.list_foreign_tables(alias))
    return [*tables, *rights.list_missing_grants(alias)]
