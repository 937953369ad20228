"""A test's database on a Citus cluster, by hand: MEMORYHUB_TEST_CITUS names one.

The variable holds the URL of a database on a coordinator that knows its workers. Each
test database gets the same workers, and a database of its own name on each of them.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

import psycopg
from django.db import connections

from memoryhub.management import distributing
from tests.harness import parts

COORDINATOR = os.environ.get("MEMORYHUB_TEST_CITUS", "")
#: The coordinator itself is the node of group 0.
NODES = """SELECT nodename, nodeport, groupid FROM pg_dist_node
    WHERE noderole = 'primary' ORDER BY groupid"""


def distribute(name: str) -> None:
    """Distribute the test database of this name, which is migrated and empty."""
    with psycopg.connect(COORDINATOR, autocommit=True) as connection:
        nodes = connection.execute(NODES).fetchall()
    with connections["default"].cursor() as cursor:
        # On a busy machine a node takes longer than a statement may.
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("CREATE EXTENSION citus")
        for host, port, group in nodes:
            if group:
                url = build_worker_url(host, port, name)
                parts.drop(url)
                parts.create(url)
                with psycopg.connect(url, autocommit=True) as worker:
                    worker.execute("CREATE EXTENSION citus")
            adds = "citus_add_node" if group else "citus_set_coordinator_host"
            cursor.execute(f"SELECT {adds}(%s, %s)", [host, port])
        cursor.execute("RESET statement_timeout")
    assert [*distributing.iter_distributed()]
    assert [*distributing.iter_distributed()] == [], "it can be repeated"


def build_worker_url(host: str, port: int, name: str) -> str:
    """Return the URL of a worker's database, with the coordinator's role."""
    given = urlsplit(COORDINATOR)
    role = given.netloc.rpartition("@")[0]
    return urlunsplit(given._replace(netloc=f"{role}@{host}:{port}", path=f"/{name}"))
