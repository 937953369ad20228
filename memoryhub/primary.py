"""Connections to the one of several PostgreSQL servers that takes writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow

#: Options of libpq's, unless a URL has others, in seconds and milliseconds: a server
#: that vanished without a word is given up after about ten seconds.
PATIENCE = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class PrimaryConnection(Connection[TupleRow]):
    """Connection to the first of its hosts that takes writes."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as libpq does for `target_session_attrs=read-write`.

        libpq believes what it is told as it connects, and PgBouncer tells that from
        memory; this asks the server, for a round trip. Raises OperationalError when no
        host takes writes.
        """
        hosts = str(options.pop("host", "")).split(",")
        ports = str(options.pop("port", "")).split(",")
        # Like libpq: one port is the port of all hosts.
        ports = ports * len(hosts) if len(ports) == 1 else ports
        reasons = []
        for host, port in zip(hosts, ports, strict=True):
            try:
                made = super().connect(conninfo, host=host, port=port, **options)
            except OperationalError as failure:
                reasons.append(str(failure))
                continue
            if _can_write(made):
                return made
            made.close()
            reasons.append(f"{host}:{port} takes no writes")
        raise OperationalError("; ".join(reasons))


def _can_write(connection: Connection[TupleRow]) -> bool:
    with suppress(OperationalError):
        return connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
    return False
