"""Ends of a rewrite, found by a look at the files and not by the request for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import psycopg
import pytest
from django.core.management import call_command
from django.db import connections

from memoryhub.journal.forget import scrub
from memoryhub.management import following
from memoryhub.models.erasures import Receipt
from memoryhub.models.threads import ThreadLabel
from memoryhub.queries.forget import receipt_views
from memoryhub.queries.scan import rewrites
from memoryhub.queries.scan.rewrites import OldRemains
from memoryhub.services.access.api_keys import Agent
from tests.cast import readers
from tests.cast.factories import make_thread
from tests.cast.forgetting import forget, make_person

pytestmark = [
    pytest.mark.no_replay,
    pytest.mark.django_db(transaction=True),
    pytest.mark.grown,
]


@contextmanager
def looking() -> Iterator[None]:
    """Hold a snapshot from before that has read no table yet."""
    where = readers.address(connections["default"])
    with psycopg.connect(where) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        yield
        other.rollback()


def test_rewrite_is_unfinished_while_a_reader_may_see_old_rows(agent: Agent) -> None:
    make_thread(agent, labels={"kept": "a name"})
    with looking():
        ThreadLabel.objects.all().delete()
        before = rewrites.list_files()
        assert scrub.rewrite(seconds=0.3) == "reader"
        left = rewrites.find_old_remains(before)
        assert left.tables == len(before) > 10
        assert "database_free_space" not in left.ended
    assert scrub.rewrite() == ""
    assert rewrites.find_old_remains(before).tables == 0
    assert "database_free_space" in rewrites.find_old_remains(before).ended


def test_reused_wal_is_not_reported_as_ended(agent: Agent) -> None:
    make_thread(agent)
    before = rewrites.list_files()
    assert scrub.rewrite() == ""
    left = rewrites.find_old_remains(before)
    assert left.log_files
    assert "wal" not in left.ended
    assert left.numbers == {"tables_left": 0, "log_files_left": left.log_files}


def test_unreadable_log_files_are_not_reported_as_ended() -> None:
    left = OldRemains(tables=0, log_files=None)
    assert left.ended == ("database_free_space",)
    assert left.numbers == {"tables_left": 0}
    assert OldRemains(tables=0, log_files=0).ended == ("database_free_space", "wal")
    assert OldRemains(tables=1, log_files=0).ended == ("wal",)


def test_addendum_names_only_newly_ended_places(agent: Agent) -> None:
    row = forget(make_person(agent, "ann"))
    call_command("forget", "--rewrite")
    (added,) = receipt_views.list_addenda(row.id)
    assert added.what == "rewritten"
    assert added.numbers["tables_left"] == 0
    assert [*added.ended] == ["database_free_space"]
    said = orjson.loads(Receipt.objects.get(id=added.id).text)
    assert said["ended"] == ["database_free_space"]
    before = Receipt.objects.count()
    call_command("forget", "--rewrite")
    assert Receipt.objects.count() == before
    assert [each.id for each in following.list_with_space_left(["wal"])] == [row.id]
