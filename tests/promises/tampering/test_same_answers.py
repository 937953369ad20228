"""P21: SQLite and PostgreSQL give the same answers, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.instances import UNLIMITED, Instance, prepare_instance
from tests.harness.instances import instance as fresh_instance

pytestmark = [pytest.mark.grown, pytest.mark.slow, pytest.mark.timeout(900)]

ANSWER = "tests.promises.tampering.answering:answer"
TESTING = {
    **UNLIMITED,
    "MEMORYHUB_TESTING": "1",
    # Requests are served in the process itself, under its loop.
    "DJANGO_ALLOW_ASYNC_UNSAFE": "true",
}


@contextmanager
def sqlite_instance(folder: Path) -> Iterator[Instance]:
    """Yield an instance on SQLite, in a run on PostgreSQL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DATABASE_URL")
        patch.delenv("KEYS_DATABASE_URL")
        with fresh_instance(folder, **TESTING) as made:
            made.call("tests.harness.instances:make_tables")
            yield made


def list_answers(instance: Instance, seed: int, count: int) -> list[str]:
    """Return the lines of the answers, without those of the log."""
    told = instance.call(ANSWER, seed, count).splitlines()
    return [line for line in told if not line.startswith("{")]


@pytest.mark.promise("P21", load="every route, {count} requests more, every bad input")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("count", [100, pytest.param(600, marks=pytest.mark.nightly)])
def test_both_databases_answer_the_same(tmp_path: Path, seed: int, count: int) -> None:
    """Ids, digests and signatures are compared by where they first appear."""
    with prepare_instance(tmp_path / "grown", **TESTING) as grown:
        there = list_answers(grown, seed, count)
    with sqlite_instance(tmp_path / "small") as small:
        assert grown.urls
        assert not small.urls
        here = list_answers(small, seed, count)
    assert len(here) == len(there) > count + 300
    differing = [pair for pair in zip(here, there, strict=True) if len({*pair}) > 1]
    assert differing == []
    # The same failure is no answer.
    assert [line for line in here if ": 500 [" in line] == []
    assert sum(": 200 [" in line for line in here) > count / 2
