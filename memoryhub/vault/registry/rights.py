"""Rights: what PostgreSQL lets our role do, as far as forgetting needs it.

VACUUM passes over a table that is another's with a mere warning, so it is asked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from django.db import connections, router

from memoryhub.models import privacy
from memoryhub.models.privacy import Fate

#: A server from before version 15 has no such role; there only a superuser may.
_SERVER: Final = """
    SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE'),
           EXISTS (SELECT 1 FROM pg_roles
                    WHERE rolname = 'pg_checkpoint' AND pg_has_role(oid, 'USAGE'))
           OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
"""
_NOT_OURS: Final = """
    SELECT relname FROM pg_class
     WHERE oid = ANY(%s::regclass[]) AND NOT pg_has_role(relowner, 'USAGE')
     ORDER BY relname
"""
_GRANTS: Final = (
    "GRANT EXECUTE ON FUNCTION pg_switch_wal()",
    "GRANT pg_checkpoint",
)


def tables(alias: str) -> Iterator[tuple[str, Fate]]:
    """Yield the database's tables that hold something of a subject, quoted."""
    for model, declared in privacy.tables().items():
        if declared.subject and router.db_for_read(model) == alias:
            table = connections[alias].ops.quote_name(model._meta.db_table)
            yield table, declared.forget


def not_ours(alias: str) -> list[str]:
    """Return those tables that our role does not own, so that it can't clear them."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_NOT_OURS, [[table for table, _ in tables(alias)]])
        return [name for (name,) in cursor.fetchall()]


def missing_grants(alias: str) -> list[str]:
    """Return what `forget --rewrite` needs and our role has not been granted."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_SERVER)
        allowed = cursor.fetchone()
    return [grant for grant, may in zip(_GRANTS, allowed, strict=True) if not may]
