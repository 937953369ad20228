"""What a rewrite has ended: seen by a look, and not by having asked for it."""

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
    """Somebody may see all that was there, and has read no table yet."""
    where = readers.address(connections["default"])
    with psycopg.connect(where) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        yield
        other.rollback()


def test_what_somebody_may_still_see_is_not_over(agent: Agent) -> None:
    make_thread(agent, labels={"kept": "a name"})
    with looking():
        ThreadLabel.objects.all().delete()
        before = rewrites.files()
        assert scrub.rewrite(seconds=0.3) == "reader"
        left = rewrites.look(before)
        assert left.tables == len(before) > 10
        assert "database_free_space" not in left.ended
    assert scrub.rewrite() == ""
    assert rewrites.look(before).tables == 0
    assert "database_free_space" in rewrites.look(before).ended


def test_a_log_that_is_used_again_is_not_over(agent: Agent) -> None:
    make_thread(agent)
    before = rewrites.files()
    assert scrub.rewrite() == ""
    left = rewrites.look(before)
    assert left.log_files
    assert "wal" not in left.ended
    assert left.numbers == {"tables_left": 0, "log_files_left": left.log_files}


def test_what_can_not_be_looked_at_is_not_said_to_be_over() -> None:
    left = OldRemains(tables=0, log_files=None)
    assert left.ended == ("database_free_space",)
    assert left.numbers == {"tables_left": 0}
    assert OldRemains(tables=0, log_files=0).ended == ("database_free_space", "wal")
    assert OldRemains(tables=1, log_files=0).ended == ("wal",)


def test_the_addendum_says_what_is_over_and_only_news(agent: Agent) -> None:
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
    assert [each.id for each in following.with_space_left(["wal"])] == [row.id]
