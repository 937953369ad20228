"""List of the models whose rows a cluster spreads by thread.

Their primary keys begin with `thread_id`, as Citus demands of a distribution column.
Every other table stays whole on the coordinator, so no subquery on one kind may name a
column of the other. See decision 99.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from django.db import connections, models

from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event, Snapshot, ThreadTerms
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.slots import MarkedTurn, Slot, Turn
from memoryhub.models.threads import ThreadLabel
from memoryhub.models.webhooks import WebhookQueue
from memoryhub.models.working_memory import Checkpoint, DueValue, Key

#: Models whose rows grow with what threads hold.
PER_THREAD: Final[tuple[type[models.Model], ...]] = (
    Event,
    Snapshot,
    ThreadTerms,
    Slot,
    Turn,
    Page,
    PageLevel,
    EvictedPage,
    Key,
    Checkpoint,
    DueValue,
    Assertion,
    Derivation,
)
#: Models with such a primary key that stay beside the threads: lists of threads join
#: them, and they have few rows for each thread.
BESIDE_THREADS: Final[tuple[type[models.Model], ...]] = (
    ThreadLabel,
    MarkedTurn,
    WebhookQueue,
)


def list_tables() -> list[str]:
    """Return the names of the tables that a cluster spreads by thread."""
    return [model._meta.db_table for model in PER_THREAD]


@cache
def is_spread() -> bool:
    """Return whether a cluster spreads the tables: `distribute` needs a stop of all."""
    return bool(list_distributed())


def list_distributed() -> set[str]:
    """Return the names of the tables that a cluster has spread; none without one."""
    connection = connections["default"]
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NULL")
        if cursor.fetchone()[0]:
            return set()
        cursor.execute(
            "SELECT relname::text FROM pg_dist_partition "
            "JOIN pg_class ON pg_class.oid = logicalrelid WHERE partmethod = 'h'"
        )
        return {table for (table,) in cursor.fetchall()}
