"""Connections to PostgreSQL: of several hosts the one that takes writes."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from memoryhub.primary import PrimaryConnection

pytestmark = pytest.mark.grown

READ_ONLY = {"options": "-c default_transaction_read_only=on"}


def split_url() -> tuple[str, dict[str, str]]:
    """Return the host of the run's server, and how to get in."""
    url = urlsplit(os.environ["DATABASE_URL"])
    host = url.netloc.rpartition("@")[2]
    return unquote(host), {"user": url.username or "", "dbname": "postgres"}


def test_connection_skips_a_host_that_is_away() -> None:
    host, way = split_url()
    with PrimaryConnection.connect(host=f"/nowhere,{host}", **way) as made:
        assert made.info.host == host


def test_connection_refuses_hosts_that_take_no_writes() -> None:
    host, way = split_url()
    with pytest.raises(psycopg.OperationalError, match="takes no writes"):
        PrimaryConnection.connect(host=host, autocommit=True, **way, **READ_ONLY)
