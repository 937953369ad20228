"""Distribution over a cluster, as far as it can be seen without one."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from memoryhub.errors import StartRefusedError
from memoryhub.management import distributing, triggers
from memoryhub.models import per_thread
from tests.harness import cluster

pytestmark = pytest.mark.django_db
ON_CITUS = bool(cluster.COORDINATOR)


def test_distribution_is_refused_without_citus() -> None:
    refused = pytest.raises(StartRefusedError, match="citus_missing")
    with nullcontext() if ON_CITUS else refused:
        distributing.require_workers()
    assert bool(per_thread.list_distributed()) is ON_CITUS


@pytest.mark.grown
def test_moves_list_every_per_thread_table_with_its_foreign_keys() -> None:
    moves = distributing.list_moves()
    assert [move.table for move in moves] == per_thread.list_tables()
    assert {move.is_distributed for move in moves} == {ON_CITUS}
    assert all(bool(move.foreign_keys) is not ON_CITUS for move in moves)


def test_guard_of_a_cluster_reads_no_other_table() -> None:
    found = "\n".join(triggers.iter_statements(postgres=True, distributed=True))
    assert "memoryhub.removing" in found
    assert "memoryhub_thread" not in found
