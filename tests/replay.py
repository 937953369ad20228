"""The check that ends every test of a write: the function `manage.py verify` runs.

A test that wrote nothing of what is compared leaves what its fixtures made, and that is
checked once for the same fixtures of a module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.journal.log.log import Origins
from memoryhub.models.erasures import Erasure
from memoryhub.models.threads import Thread
from memoryhub.queries.access import audit
from memoryhub.queries.verify import total_checks, verification

_WRITES = re.compile(
    r'\s*(?:INSERT (?:OR \w+ )?INTO|REPLACE INTO|UPDATE|DELETE FROM|WITH) "?(\w+)',
    re.IGNORECASE,
)
#: The log of who did what, and where it ends.
_AUDIT = {"memoryhub_auditentry", "memoryhub_instance"}
#: Tables that are no part of a journal, its rows or sums.
_UNCHECKED = _AUDIT | {
    *("django_session", "memoryhub_apikey", "memoryhub_lease", "memoryhub_dailyuse"),
    *("memoryhub_heartbeat", "memoryhub_membership", "memoryhub_operator"),
    *("memoryhub_projectstats", "memoryhub_signinlink"),
}
#: The tables that a test has written to, by any connection of this process.
written = set[str]()
_checked = set[tuple[object, ...]]()


def watch(connection: BaseDatabaseWrapper, **signal: Any) -> None:
    """Note the writes of a connection; a receiver of `connection_created`."""
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note)


def _note(execute: Callable[..., Any], sql: str, *call: Any) -> Any:
    if found := _WRITES.match(sql):
        written.add(found[1].lower())
    return execute(sql, *call)


def check(item: pytest.Item, *, committed: bool) -> None:
    """Check what the test `item` may have changed; where it `committed`, everything."""
    made = (item.path, *sorted(getattr(item, "fixturenames", ())))
    unseen = committed or made not in _checked
    _checked.add(made)
    if unseen or written - _UNCHECKED:
        assert_all_replay()
    if unseen or written & _AUDIT:
        assert audit.verify().wrong is None


def assert_all_replay() -> None:
    origins = Origins()
    for thread in Thread.objects.select_related("subject"):
        assert_replays(thread, origins=origins)
    # Tests of single steps leave somebody half forgotten.
    half = Erasure.objects.filter(scope=Erasure.Scope.SUBJECT).exclude(state="complete")
    left = {*half.values_list("subject_id", flat=True)}
    assert not {*total_checks.iter_drifted()} - left


def assert_replays(thread: Thread, *, origins: Origins | None = None) -> None:
    """Assert that the thread's journal folds to its rows, with a whole chain."""
    difference = verification.verify(thread, origins=origins)
    assert difference is None, difference
