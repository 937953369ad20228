"""Rights of our PostgreSQL role that forgetting needs.

VACUUM skips another role's table with a mere warning, so ownership is checked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from django.db import connections, router

from memoryhub.models import privacy
from memoryhub.models.privacy import Fate

#: A server before version 15 has no role `pg_checkpoint`; only a superuser may do so.
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


def iter_subject_tables(alias: str) -> Iterator[tuple[str, Fate]]:
    """Yield (quoted name, fate) of the database's tables with data of subjects."""
    for model, declared in privacy.list_declared_models().items():
        if declared.subject and router.db_for_read(model) == alias:
            table = connections[alias].ops.quote_name(model._meta.db_table)
            yield table, declared.forget


def list_foreign_tables(alias: str) -> list[str]:
    """List the tables that our role does not own and so can't clear."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_NOT_OURS, [[table for table, _ in iter_subject_tables(alias)]])
        return [name for (name,) in cursor.fetchall()]


def list_missing_grants(alias: str) -> list[str]:
    """List the grants that `forget --rewrite` needs and our role lacks."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_SERVER)
        allowed = cursor.fetchone()
    return [grant for grant, may in zip(_GRANTS, allowed, strict=True) if not may]
