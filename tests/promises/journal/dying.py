"""Server that dies in the middle of a request; started by the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from django.core.management import execute_from_command_line
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

#: Just before the commit of what a request does, or between it and the answer.
MOMENTS = ("before", "after")


def serve(port: int, moment: str) -> None:
    """Serve until a request is remembered by its Idempotency-Key, then die."""
    doomed: set[BaseDatabaseWrapper] = set()
    commit = BaseDatabaseWrapper.commit

    def watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
        connection.execute_wrappers.append(note)

    def note(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith("INSERT") and "memoryhub_requestkey" in sql:
            doomed.add(rest[-1]["connection"])
        return execute(sql, *rest)

    def dying(connection: BaseDatabaseWrapper) -> None:
        if connection in doomed and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(connection)
        if connection in doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    connection_created.connect(watch, weak=False)
    BaseDatabaseWrapper.commit = dying  # type: ignore[method-assign, assignment]  # to die
    execute_from_command_line(["manage.py", "serve", f"--port={port}"])
